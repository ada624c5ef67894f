/* A private folder of a test below TMPDIR or /tmp, and files in it like the system's. */
#pragma once
#include "units/tests.h"
#include <sys/stat.h>
#include <unistd.h>

static char folder[400];

/* For cmocka: makes the folder for a test or a group. */
static inline int make_folder(void **state)
{
    const char *below = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/xgsw-test-XXXXXX", below && *below ? below : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    char command[500];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* The same, for tests of what is written to the present folder. */
static inline int enter_folder(void **state) { return make_folder(state) || chdir(folder); }
static inline int leave_folder(void **state) { return chdir("/") || remove_folder(state); }

/* Creates missing folders of `name` below the folder and writes the file. */
static inline void write_below(const char *name, const char *text)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}
