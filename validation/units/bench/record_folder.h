/* A private folder of a test of records, and its contents. */
#pragma once
#include "record_sample.h"
#include "units/folder.h"
#include <dirent.h>

static char path[512]; /* a record in the folder */

static inline int make_record_folder(void **state)
{
    int status = make_folder(state);
    snprintf(path, sizeof path, "%s/sample.h5", folder);
    return status;
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
