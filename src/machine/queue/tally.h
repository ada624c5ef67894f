/* What was asked for and how long it took: counts at submission (equal on all machines), seconds at execution. */
#pragma once
#include "machine/op/op.h"

enum { TALLY_AXES = 8, TALLY_TRANSFERS = 16, TALLY_NAME = 40 };
typedef struct {
    int64_t count;
    double flops, bytes, seconds;
} tally_row;
/* bytes: of the operands. sent: that leave this rank, at least: of a ring over g ranks (g-1)/g of the whole to gather
 * or to scatter, twice that to reduce everywhere (Thakur, Rabenseifner, Gropp 2005); what an exchange sends. */
typedef struct {
    const char *axis;
    int64_t messages;
    double bytes, sent;
    double exposed_seconds, seconds; /* seconds: of execution, which includes waiting for other ranks */
    /* World rank of the first member of the group whose collectives these are, of groups that contain one another the
     * largest (gradients of experts are summed within data x context); -1: there are none. */
    int first;
} tally_axis;
/* One kind of transfer on one axis, "tensor all_gather". bytes: that pass one direction of this rank's link, at least.
 * seconds: of execution, which includes waiting for other ranks. */
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
    size_t sum_bytes;      /* that copies of the operands of sums over ranks take, those that a fault drops included */
    double beside_seconds; /* of these, on a GPU, of what runs beside the compute queue */
    double idle_seconds;   /* the rest */
    double run_seconds;    /* in which the host ran operations or polled for their end, idle and exposed included */
    double dispatch_seconds; /* op_submit, queue_wait and hazard checker, without run_seconds */
} tally;
/* Where a step's seconds went on this rank, by the step of the operations; axes as in the tally. */
typedef struct {
    double computing; /* execution of computing operations */
    double run_delay; /* of that: it could run, and its processor ran others; as far as the system tells */
    double exposed[TALLY_AXES];
    double collectives[TALLY_AXES]; /* execution of collectives, in which a rank waits for the others, too */
} tally_step;

void tally_clear(tally *t);
/* A measured window begins: everything starts at zero. The axes keep their places, which tally_step has too. */
void tally_begin(tally *t);
void tally_submit(tally *t, const op *o);
/* Returns the bytes that copies of what a sum over ranks adds and of its result take; 0 for other operations. */
size_t tally_sum_bytes(const op *o);
/* Over all kinds. */
int64_t tally_operations(const tally *t);
double tally_flops(const tally *t);
/* axis: of a transfer; else NULL. */
void tally_seconds(tally *t, op_kind kind, const char *axis, phase p, double seconds);
/* Its row. */
int tally_axis_of(tally *t, const char *axis);
