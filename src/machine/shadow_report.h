/* What is asked of a shadow, and what it found. */
#pragma once
#include <stdint.h>

/* FULL: every operation. SAMPLED: of every name, kind and phase one a step, and of that a part (machine/shadow_part.c),
 * at full shape: which one is drawn from the step's number among as many as the step before had; in the first step it
 * is the first. */
typedef enum { SHADOW_OFF, SHADOW_FULL, SHADOW_SAMPLED } shadow_mode;

typedef struct {
    int64_t operations, elements; /* compared */
    int64_t left_out;             /* sampled, but too large to copy and of no part that stands for itself */
    double worst;
    char worst_operation[200]; /* largest error in units of its tolerance */
    int64_t failed;
    char sentence[512];             /* operations that differ; of the first: operation, operand, element, values */
    char file[128], unwritten[256]; /* that one, to run again; or why it could not be written */
} shadow_report;
