/* Writes files like the system's into a test's private folder. Include after <cmocka.h>. */
#pragma once
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Creates missing folders of `name` below root and writes the file. */
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
