/* Replaces a file whole: at any moment, and after any kill, the name leads to all the old bytes or all the new. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Writes path.tmp-PID with the old file's mode, fsyncs it, renames it to path and fsyncs the folder. On an error the
 * old file is untouched, the temporary one is removed, and `reason` holds a sentence. */
bool replace_file(const char *path, const void *bytes, size_t length, char *reason, size_t reason_length);
/* Does so without fsync: after a crash of the machine the new bytes may be lost. Returns false without a sentence. */
bool replace_file_unsynced(const char *path, const void *bytes, size_t length);
/* Waits until the names in a folder are on the disk. False: errno says why. */
bool sync_folder(const char *folder);
