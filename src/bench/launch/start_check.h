/* launch/: how the run was started: options, deck, program, libraries, nodes.
 *
 * Checks that MPI connects all ranks that the launcher started, and that all ranks run the same program. */
#pragma once
#include "base/sha256.h"
#include <stdbool.h>
#include <stddef.h>

enum { START_SENTENCE = 1024 };

/* Writes the SHA-256 of this process's program file; empty if /proc does not give it. */
void start_program_sha256(char hex[SHA256_HEX]);
/* Returns true and a sentence if srun started several processes that MPI cannot connect. Call it before MPI starts. */
bool start_lacks_pmi(char sentence[START_SENTENCE]);
/* Returns true and a sentence if MPI has another number of ranks than the launcher. Call it after MPI has started. */
bool start_is_split(char sentence[START_SENTENCE]);
/* Returns true and a sentence on all ranks if a rank has another program or other arguments than rank 0. Call it before
 * all other collective work, in which two programs may differ. Collective over the world. */
bool start_programs_differ(int argc, char **argv, char sentence[START_SENTENCE]);
