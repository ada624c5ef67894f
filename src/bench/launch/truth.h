/* launch/: how the run was started: options, deck, programs, libraries, nodes.
 *
 * Are the ranks what their launcher says, and do all of them run the same? */
#pragma once
#include "base/sha256.h"
#include <stdbool.h>
#include <stddef.h>

enum { TRUTH_SENTENCE = 1024 };

/* Of this process's program; empty where /proc does not tell. */
void truth_program(char hex[SHA256_HEX]);
/* Before MPI starts. True, and a sentence: srun started several processes that MPI cannot connect. */
bool truth_lacks_pmi(char sentence[TRUTH_SENTENCE]);
/* After it has. True, and a sentence: MPI knows another number of ranks than the launcher started. */
bool truth_is_torn(char sentence[TRUTH_SENTENCE]);
/* True on all ranks, and the sentence of the first rank that runs another program than rank 0, or has other arguments.
 * Collective over the world, before anything that ranks of two programs would not do alike. */
bool truth_differs(int argc, char **argv, char sentence[TRUTH_SENTENCE]);
