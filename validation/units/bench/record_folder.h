/* A private folder of a test, and its contents. */
#pragma once
#include "record_sample.h"
#include <dirent.h>
#include <sys/stat.h>

static char folder[64], path[128];

/* path: a record in this folder. */
static inline int make_folder(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/xgsw-record-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    chmod(folder, 0755);
    snprintf(path, sizeof path, "%s/sample.h5", folder);
    return 0;
}

static inline int remove_folder(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* Returns the number of files in the folder, without journals. */
static inline int files_in_folder(void)
{
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) count += e->d_name[0] != '.' && !strstr(e->d_name, ".journal");
    closedir(d);
    return count;
}
