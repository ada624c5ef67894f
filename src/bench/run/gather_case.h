/* What the ranks of a case observed, brought together on rank 0: lists by what made them, findings by a table. */
#pragma once
#include "bench/facts/result.h"
#include "train/measure.h"

/* What only this rank knows until its timed steps have been gathered. */
typedef struct {
    struct sampler *sampler;  /* NULL: none */
    machine_device window[2]; /* as the timed steps began and ended */
} rank_window;

/* Brings the times of each rank and step, devices and samples of a case to rank 0: memory of order steps x ranks.
 * Dismantles the trainer (NULL: this rank takes no part) as soon as its times are taken. Collective over the world. */
void gather_ranks(case_result *r, trainer *t, rank_window *own);
/* Adds up what the machines of all ranks found, by a table of rows: what is summed, whose largest counts, whose text is
 * kept. Collective over the world; the same on all ranks. */
void gather_findings(facts *f);
