/* Saving and loading the state of training. */
#pragma once
#include "bench/checkpoint/folder.h"
#include "bench/checkpoint/observed.h"
#include "train/trainer.h"

enum { CHECKPOINT_SENTENCE = 1024 + 2 * FOLDER_LENGTH };

/* Saves the state after so many steps, and keeps as many checkpoints as the case says. t: the caller has synchronized;
 * NULL on a rank that takes no part. step: rank 0's. Adds to f. Collective over the world. */
void checkpoint_save(const bench_case *c, trainer *t, int64_t step, checkpoint_facts *f);
/* Does the deck give this folder? */
bool checkpoint_is_asked(const char *folder);
/* Does the case load nothing, or is there a checkpoint for it? Else a sentence on all ranks. Collective over the world.
 */
bool checkpoint_suits(const bench_case *c, char reason[REASON_LENGTH]);
/* The trainer, which is initialized, gets the state of the newest checkpoint, and goes on from there. False:
 * f->refused, on all ranks. Collective over the world. */
bool checkpoint_load(const bench_case *c, trainer *t, checkpoint_facts *f);

/* Bytes of a checkpoint of the case, without headers. (size.c) */
double checkpoint_bytes(const bench_case *c);
