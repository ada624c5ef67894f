/* FOLDER/step-00000050/: where a checkpoint lies. It is written as step-00000050.tmp and renamed when it is whole and
 * on the disk, so what has that name is whole. Nodes that do not see the folder of rank 0 have a folder of the same
 * name of their own. */
#pragma once
#include "plan/bench_case.h"
#include <stddef.h>
#include <stdint.h>

enum { FOLDER_LENGTH = PATH_LENGTH + 64 };
typedef struct {
    char parent[PATH_LENGTH], whole[FOLDER_LENGTH], made[FOLDER_LENGTH]; /* made: what it is called until it is whole */
    bool leads; /* this rank makes and renames the folder that it sees */
    int owner;  /* the rank that leads it */
    int64_t step;
} checkpoint_folder;

/* Makes the folder of a step. Collective over the world, as are the next two. On all ranks: false and a sentence if a
 * rank could not; then nothing is left of it. */
bool folder_make(checkpoint_folder *f, const char *parent, int64_t step, char *reason, size_t length);
/* Is there room for `bytes` bytes of this rank, with those of the others? free: bytes free where this rank writes. */
bool folder_has_room(const checkpoint_folder *f, double bytes, double *free, char *reason, size_t length);
/* Gives it its name. One of the same step is replaced. */
bool folder_commit(const checkpoint_folder *f, char *reason, size_t length);
/* Removes what was made. */
void folder_abandon(const checkpoint_folder *f);
/* Removes the checkpoints of earlier steps but for `keep` - 1 of them; keep 0: also this one. */
void folder_prune(const checkpoint_folder *f, int64_t keep);

/* The folder itself, or that of its last step, if it has an index. False: there is none. */
bool folder_newest(const char *parent, char whole[FOLDER_LENGTH]);
/* FOLDER/rank-00017.h5; FOLDER/index.h5; FOLDER/index.h5.sha256. */
void folder_rank_file(char path[FOLDER_LENGTH], const char *folder, int64_t rank);
void folder_index(char path[FOLDER_LENGTH], const char *folder);
void folder_index_sum(char path[FOLDER_LENGTH], const char *folder);
/* "ext4", "lustre": the type of the file system there. */
void folder_file_system(const char *folder, char type[32]);
