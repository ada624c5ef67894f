/* What was asked for and how long it took: counts at submission (equal on all machines), seconds at execution. */
#pragma once
#include "machine/op.h"

enum { TALLY_AXES = 8 };
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
typedef struct {
    tally_row kind[OP_KINDS];
    double phase_seconds[PHASES]; /* execution of computing operations */
    tally_axis axis[TALLY_AXES];
    int axes;
    double idle_seconds;     /* the rest */
    double run_seconds;      /* in which the host ran operations or polled for their end, idle and exposed included */
    double dispatch_seconds; /* op_submit, queue_wait and hazard checker, without run_seconds */
} tally;

void tally_clear(tally *t);
/* A measured window begins: seconds start at zero, counts go on. */
void tally_clear_seconds(tally *t);
void tally_submit(tally *t, const op *o);
/* Over all kinds. */
int64_t tally_operations(const tally *t);
double tally_flops(const tally *t);
void tally_seconds(tally *t, op_kind kind, phase p, double seconds);
/* Seconds in which nothing could run but a transfer on that axis was waited for. */
void tally_exposed(tally *t, const char *axis, double seconds);
