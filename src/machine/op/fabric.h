/* Groups of ranks and their transfers. Every rank of a group submits the same transfers in the same order. */
#pragma once
#include "machine/op/op.h"

/* Groups that share a communicator and some members, and that number their transfers apart, differ in the channel. */
typedef enum {
    CHANNEL_NONE,
    CHANNEL_FORWARD,
    CHANNEL_BACKWARD,
    CHANNEL_REVERSED,
    CHANNEL_GRADIENT,
    CHANNEL_EXPERTS,
    CHANNEL_MODEL,
    CHANNEL_ALL,
    CHANNELS
} fabric_channel;

/* Its members are computed, not listed: nothing here grows with the number of ranks. */
typedef struct group {
    const char *axis; /* "tensor", "data", ... for the tally and messages */
    int size, rank;   /* own position, ordered as in the mesh */
    int first;        /* world rank of member 0; with axis and channel it names the group on every rank */
    int dims;
    group_dim dim[GROUP_DIMS]; /* the fastest first; the counts' product is size */
    bool apart;       /* its transfers run beside those of other groups; else in turn with those of other such groups */
    void *connection; /* the backend's, between group_connect and group_disconnect; NULL: it needs none */
    int handle;       /* communicator of machine/world.h; unused if size is 1 */
    int handle_first, handle_step; /* member i is its rank handle_first + i handle_step */
    fabric_channel channel;
    uint64_t sequence;            /* transfers submitted so far */
    uint64_t step, step_sequence; /* the last step with a transfer, and those before it (machine/prove/fault.c) */
} group;

/* The ranks first, first + stride, ... of the world, own one `rank`; the members are all ranks of the communicator. */
group group_line(const char *axis, int first, int stride, int size, int rank);
/* A transfer of a group as an activity. */
activity transfer_activity(const op *o);
int group_world_rank(const group *g, int member);
/* Are they one group, as two ranks or two moments know it? */
bool group_same(const group *a, const group *b);
/* The same ranks in the other order, by the same communicator where that has a handle; of a group_line. */
group group_reversed(const group *g);

/* to [size * n] = the parts of all ranks in rank order, from [n]; from absent: the own part already lies in `to`. */
op all_gather_op(group *g, tensor to, tensor from);
/* Own part of x [size * n] becomes the sum of that part over ranks, the rest keeps this rank's values. Sums are added
 * in rank order; F32 and BF16 in FP32 and rounded once, F64 in double, U64 exactly. */
op reduce_scatter_op(group *g, tensor x);
/* x = sum over ranks, added alike; of I32 the largest. */
op all_reduce_op(group *g, tensor x);
/* Part r of to [size * n] = own part of rank r's `from` [size * n]. */
op all_to_all_op(group *g, tensor to, tensor from);

/* All point-to-point transfers of one instant; peer is a rank of the group. At most OP_OPERANDS. */
typedef struct {
    bool send;
    int peer;
    tensor tensor;
} transfer;
op exchange_op(group *g, const transfer *list, int count);
