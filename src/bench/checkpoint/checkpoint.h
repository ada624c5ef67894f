/* Saving and loading the state of training. All functions except the first two are collective over the world. */
#pragma once
#include "bench/facts/facts.h"
#include "train/trainer.h"

/* Returns whether the deck gives a folder; the word for no folder is "none". */
bool checkpoint_is_asked(const char *folder);
/* Returns the bytes of a checkpoint of the case, without headers. */
double checkpoint_bytes(const bench_case *c);

/* Saves the state after `step` steps (rank 0's value counts), and removes the oldest checkpoint if there are more than
 * checkpoint_keep. The caller has synchronized t; t is NULL on a rank that takes no part. Updates f. */
void checkpoint_save(const bench_case *c, trainer *t, int64_t step, checkpoint_facts *f);
/* Returns whether the checkpoint that the case loads exists and fits the case, and whether the folder to which it saves
 * can be written. If not, all ranks get a sentence. */
bool checkpoint_suits(const bench_case *c, char reason[REASON_LENGTH]);
/* Loads the state of the newest checkpoint into an initialized trainer, which then continues from there. t is NULL on a
 * rank that takes no part. Returns false, with f->refused on all ranks, if it cannot. */
bool checkpoint_load(const bench_case *c, trainer *t, checkpoint_facts *f);
