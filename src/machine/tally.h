/* What was asked for and how long it took: counts at submission (equal on all machines), seconds at execution. */
#pragma once
#include "machine/op.h"

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
    double exposed_seconds;
} tally_axis;
/* One kind of transfer on one axis, "tensor all_gather", in the measured window. bytes: that one direction of this
 * rank's link passes, at least. seconds: of execution, in which a rank waits for the others, too. */
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
    double beside_seconds;   /* of these, on a GPU, of what runs beside the compute queue */
    double idle_seconds;     /* the rest */
    double run_seconds;      /* in which the host ran operations or polled for their end, idle and exposed included */
    double dispatch_seconds; /* op_submit, queue_wait and hazard checker, without run_seconds */
} tally;

void tally_clear(tally *t);
/* A measured window begins: seconds and kinds of transfers start at zero, counts go on. */
void tally_clear_seconds(tally *t);
void tally_submit(tally *t, const op *o);
/* Over all kinds. */
int64_t tally_operations(const tally *t);
double tally_flops(const tally *t);
/* axis: of a transfer; else NULL. */
void tally_seconds(tally *t, op_kind kind, const char *axis, phase p, double seconds);
/* Seconds in which nothing could run but a transfer on that axis was waited for. */
void tally_exposed(tally *t, const char *axis, double seconds);
