/* Saving and loading the state of training. All calls but the first two are collective over the world. */
#pragma once
#include "bench/facts/facts.h"
#include "train/trainer.h"

/* Does the deck give this folder? */
bool checkpoint_is_asked(const char *folder);
/* Bytes of a checkpoint of the case, without headers. */
double checkpoint_bytes(const bench_case *c);

/* Saves the state after so many steps, and keeps as many checkpoints as the case says. t: the caller has synchronized;
 * NULL on a rank that takes no part. step: rank 0's. Adds to f. */
void checkpoint_save(const bench_case *c, trainer *t, int64_t step, checkpoint_facts *f);
/* Is there a checkpoint for a case that loads, and a folder into which one that saves may write? Else a sentence on all
 * ranks. */
bool checkpoint_suits(const bench_case *c, char reason[REASON_LENGTH]);
/* The trainer, which is initialized, gets the state of the newest checkpoint, and goes on from there. False:
 * f->refused, on all ranks. */
bool checkpoint_load(const bench_case *c, trainer *t, checkpoint_facts *f);
