/* FOLDER/step-00000050/: where a checkpoint lies. It is written as step-00000050.tmp and renamed when it is whole and
 * on the disk. Nodes that do not see the folder of rank 0 have one of the same name of their own. */
#pragma once
#include "plan/bench_case.h"
#include <stddef.h>

enum { FOLDER_LENGTH = PATH_LENGTH + 64, CHECKPOINT_SENTENCE = 1024 + 2 * FOLDER_LENGTH };
typedef struct {
    char parent[PATH_LENGTH], whole[FOLDER_LENGTH], made[FOLDER_LENGTH]; /* made: what it is called until it is whole */
    int owner;  /* the rank that makes and renames the folder that this rank sees */
    bool leads; /* this rank is that */
    int64_t step;
} checkpoint_folder;

/* These are collective over the world. On all ranks they return false, and a sentence, if one rank could not. */
bool folder_make(checkpoint_folder *f, const char *parent, int64_t step, char reason[CHECKPOINT_SENTENCE]);
/* Have all ranks room for their bytes? free_bytes: what is free where this rank writes. */
bool folder_has_room(const checkpoint_folder *f, double bytes, double *free_bytes, char reason[CHECKPOINT_SENTENCE]);
/* Gives the folder its name. */
bool folder_commit(const checkpoint_folder *f, char reason[CHECKPOINT_SENTENCE]);
/* True if no rank has a sentence; else all get the first. */
bool folder_agree(char reason[CHECKPOINT_SENTENCE]);

/* The others are not collective. Removes what was made; the checkpoint of a step. */
void folder_abandon(const checkpoint_folder *f);
void folder_remove(const checkpoint_folder *f, int64_t step);
/* Makes the folder, if need be. Can a run write there, and has it no checkpoint of more than `after` steps? */
bool folder_is_fresh(const char *parent, int64_t after, char reason[CHECKPOINT_SENTENCE]);
/* The folder itself, or that of its last step, if it has an index. False: there is none. */
bool folder_newest(const char *parent, char whole[FOLDER_LENGTH]);
/* FOLDER/rank-00017.h5; FOLDER/index.h5 and its sum. */
void folder_rank_file(char path[FOLDER_LENGTH], const char *folder, int64_t rank);
void folder_index(char path[FOLDER_LENGTH], char sum[FOLDER_LENGTH], const char *folder);
/* The type of the file system there: "ext4", "lustre". */
void folder_file_system(const char *folder, char type[32]);
