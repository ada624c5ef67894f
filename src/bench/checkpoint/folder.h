/* The folder of a checkpoint, FOLDER/step-00000050/. It is written as step-00000050.tmp, and renamed when it is
 * complete and on the disk. A node that does not see the folder of rank 0 has a separate folder of the same name. */
#pragma once
#include "plan/bench_case.h"
#include <stddef.h>

enum { FOLDER_LENGTH = PATH_LENGTH + 64, CHECKPOINT_SENTENCE = 1024 + 2 * FOLDER_LENGTH };
typedef struct {
    char parent[PATH_LENGTH], final[FOLDER_LENGTH], temporary[FOLDER_LENGTH];
    int owner; /* rank that creates and renames the folder that this rank sees */
    bool is_owner;
    int64_t step;
} checkpoint_folder;

/* The next four are collective over the world. All ranks return false and a sentence if one rank failed. */
/* Creates the temporary folder. Removes temporary folders of earlier runs. */
bool folder_make(checkpoint_folder *f, const char *parent, int64_t step, char reason[CHECKPOINT_SENTENCE]);
/* Returns whether the disks have space for all ranks' bytes. free_bytes: free space where this rank writes. */
bool folder_has_space(const checkpoint_folder *f, double bytes, double *free_bytes, char reason[CHECKPOINT_SENTENCE]);
/* Renames the folder to its final name. */
bool folder_commit(const checkpoint_folder *f, char reason[CHECKPOINT_SENTENCE]);
/* Returns true if `reason` is empty on all ranks. Otherwise all ranks get the first sentence. */
bool folder_agree(char reason[CHECKPOINT_SENTENCE]);

/* The others are not collective. These two remove the temporary folder, and the checkpoint of a step. */
void folder_abandon(const checkpoint_folder *f);
void folder_remove(const checkpoint_folder *f, int64_t step);
/* Creates the folder if needed. Returns whether a run can write there and no checkpoint has more than `after` steps. */
bool folder_is_fresh(const char *parent, int64_t after, char reason[CHECKPOINT_SENTENCE]);
/* Writes `parent` itself if it has an index, otherwise its newest checkpoint. Returns false if there is none. */
bool folder_newest(const char *parent, char path[FOLDER_LENGTH]);
/* Write the paths FOLDER/rank-00017.h5, and FOLDER/index.h5 with its sum. */
void folder_rank_file(char path[FOLDER_LENGTH], const char *folder, int64_t rank);
void folder_index(char path[FOLDER_LENGTH], char sum[FOLDER_LENGTH], const char *folder);
/* Writes the type of the folder's file system: "ext4", "lustre". */
void folder_file_system(const char *folder, char type[32]);
