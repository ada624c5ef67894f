/* Runs one operation again and again, and tells how long it takes. */
#pragma once
#include "bench/slice/alone.h"
#include "plan/bench_case.h"

/* The seconds of an operation: median, and where 10 and 90 percent of the batches lie below; NaN: not measured. Clock
 * and power before and after; NaN: not told. */
typedef struct {
    double median, p10, p90, clock_hertz[2], power_watts[2];
} sustained;

/* A machine in whose memory one operation at a time is run. */
typedef struct {
    machine_kind kind;
    machine *machine;
    queue *queue;
    struct sampler *sampler;
    void *taken;
    char *operands;
    size_t operand_bytes;
    double seconds;
    filler filler;
} sustainer;

/* p: operations on paper, alone (alone.h), with the scratch that queue 0 needs; products choose their algorithms here,
 * and leave so many multiprocessors free. operand_bytes: of the largest. seconds: that each operation runs at least. */
sustainer sustainer_open(const bench_case *c, const preparation *p, size_t operand_bytes, int left, double seconds);
void sustainer_close(sustainer *s);
/* An operation of the preparation in so many places of the memory, which take turns: it finds its operands in no cache.
 */
enum { SUSTAIN_PLACES = 4 };
typedef struct {
    op at[SUSTAIN_PLACES];
    int places;
} placed_op;
placed_op sustain_place(const sustainer *s, const op_note *n);
/* Runs it for so many seconds, measured in batches. occupied: next to a resident block; NaN where there are none. */
sustained sustain(sustainer *s, const placed_op *o, double seconds, bool occupied);
