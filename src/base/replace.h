/* Atomic replacement of a file: readers see all old bytes or all new ones, even after a kill. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Writes path.tmp-PID with the old file's mode, fsyncs it, renames it to path and fsyncs the folder. On an error it
 * returns false, keeps the old file, removes the temporary one and writes a sentence to `reason`. */
bool replace_file(const char *path, const void *bytes, size_t length, char *reason, size_t reason_length);
/* Replaces without fsync: after a crash of the machine the new bytes may be lost. On an error it just returns false. */
bool replace_file_unsynced(const char *path, const void *bytes, size_t length);
/* Waits until the names in a folder are on the disk. Returns false on an error; errno has the reason. */
bool sync_folder(const char *folder);
