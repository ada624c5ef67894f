/* Counts and seconds of operations. Counts are taken at submission, the same on every machine; seconds at execution. */
#pragma once
#include "machine/op/op.h"

enum { TALLY_AXES = 8, TALLY_TRANSFERS = 16, TALLY_NAME = 40 };
typedef struct {
    int64_t count;
    double flops, bytes, seconds;
} tally_row;
/* Transfers on one axis. bytes: of the operands. sent: the least bytes that leave this rank: on a ring of g ranks
 * (g-1)/g of the whole for a gather or scatter, and twice that for an all-reduce (Thakur, Rabenseifner, Gropp 2005). */
typedef struct {
    const char *axis;
    int64_t messages;
    double bytes, sent;
    double exposed_seconds, seconds; /* seconds: of execution, including the wait for other ranks */
    /* World rank of the first member of the largest group with collectives; -1 if none. Gradients of experts are summed
     * in a part of data x context. */
    int first;
} tally_axis;
/* One kind of transfer on one axis, for example "tensor all_gather". bytes: the least in the busier direction of this
 * rank's link. seconds: of execution, including the wait for other ranks. */
typedef struct {
    char name[TALLY_NAME];
    int64_t messages;
    double bytes, seconds, bytes_per_second;
} tally_transfer;
typedef struct {
    tally_row kind[OP_KINDS];
    double phase_seconds[PHASES]; /* execution of computing operations */
    tally_axis axis[TALLY_AXES];
    tally_transfer transfer[TALLY_TRANSFERS];
    int axes, transfers;
    int64_t first_step;        /* operations of earlier steps that complete late do not count; see tally_counts */
    size_t sum_bytes;          /* of tally_sum_bytes, including sums that a fault drops */
    double concurrent_seconds; /* part of phase_seconds: outside the compute queue of a GPU */
    double idle_seconds;       /* neither computing nor exposed (set by bench/facts/facts.c) */
    double run_seconds;        /* the host ran operations or polled for them, idle and exposed included */
    double dispatch_seconds;   /* op_submit with the hazard checker, without run_seconds */
} tally;
/* The seconds of one step on this rank. Axes have the same indices as in the tally. */
typedef struct {
    double computing; /* execution of computing operations */
    double run_delay; /* part of computing in which the processor ran other processes, if known */
    double exposed[TALLY_AXES];
    double collectives[TALLY_AXES]; /* execution of collectives, including the wait for other ranks */
} tally_step;

void tally_clear(tally *t);
/* Sets all to zero, but keeps the indices of axes, which tally_step uses, too. Counts from that step on. */
void tally_begin(tally *t, int64_t first_step);
/* Returns whether seconds of an operation of this step (-1: of none) count. */
bool tally_counts(const tally *t, int64_t step);
void tally_submit(tally *t, const op *o);
/* Returns the bytes that copies of operand and result of a sum over ranks need; 0 for other operations. */
size_t tally_sum_bytes(const op *o);
/* Return the total over all kinds. */
int64_t tally_operations(const tally *t);
double tally_flops(const tally *t);
/* Adds the seconds of one execution. axis: of a transfer; else NULL. */
void tally_seconds(tally *t, op_kind kind, const char *axis, phase p, double seconds);
/* Returns the index of an axis, which is added if it is new. */
int tally_axis_of(tally *t, const char *axis);
