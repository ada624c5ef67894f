/* Files like those of the system, in a folder of a unit test's own; behind <cmocka.h>. */
#pragma once
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Makes the folders of `name` below root, where they are missing, and writes the file. */
static inline void write_below(const char *root, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}
