/* The chain of a run (validation/RECORD.md): a link for what the run is, one for each step, one for each case. Each is
 * the SHA-256 of the link before it and of what it adds, so nothing behind the first can be changed, dropped, doubled
 * or moved alone. */
#pragma once
#include "base/sha256.h"
#include <stddef.h>
#include <stdint.h>

/* 64 hex digits; empty: none yet. */
typedef struct {
    char hex[SHA256_HEX];
} chain_link;

/* SHA-256(the digits of the link before, these bytes). */
chain_link chain_extend(const chain_link *before, const void *bytes, size_t length);

/* What is printed and recorded of a step, as the chain and the journal have it: little-endian, IEEE. number: seconds of
 * rank 0's clock, loss, gradient norm, learning rate, then routed_figure's. */
enum { STEP_NUMBERS = 9 };
typedef struct {
    int64_t case_number, step;
    double number[STEP_NUMBERS];
} step_numbers;

/* As far as the run has come, for those who print it; rank 0 only. */
typedef struct chain {
    chain_link newest; /* the journal's */
    chain_link root;   /* of the record as it was last written */
} chain;
