/* Whose is a file? */
#pragma once
#include <stdbool.h>

/* Is it a record that xgsw wrote? Follows no link; looks at the bytes, not at the name. */
bool is_record(const char *path);
