/* launch/: how the run was started: options, deck, program, libraries, nodes.
 *
 * Checks that MPI connects all ranks that the launcher started, and that all ranks run the same program. */
#pragma once
#include "base/sha256.h"
#include <stdbool.h>
#include <stddef.h>

enum { TRUTH_SENTENCE = 1024 };

/* Writes the SHA-256 of this process's program file; empty if /proc does not give it. */
void truth_program(char hex[SHA256_HEX]);
/* Returns true and a sentence if srun started several processes that MPI cannot connect. Call it before MPI starts. */
bool truth_lacks_pmi(char sentence[TRUTH_SENTENCE]);
/* Returns true and a sentence if MPI has another number of ranks than the launcher. Call it after MPI has started. */
bool truth_is_torn(char sentence[TRUTH_SENTENCE]);
/* Returns true and a sentence on all ranks if a rank has another program or other arguments than rank 0. Call it before
 * all other collective work, in which two programs may differ. Collective over the world. */
bool truth_differs(int argc, char **argv, char sentence[TRUTH_SENTENCE]);
