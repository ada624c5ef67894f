/* Groups of ranks and their transfers. Every rank of a group submits the same transfers in the same order. */
#pragma once
#include "machine/op/op.h"

/* The channel distinguishes groups that share a communicator and members, but number their transfers separately. */
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

/* A group of ranks. Members are computed, not listed: its size does not grow with the number of ranks. */
typedef struct group {
    const char *axis; /* "tensor", "data", ... for the tally and messages */
    int size, rank;   /* own position, ordered as in the mesh */
    int first;        /* world rank of member 0; with axis and channel it names the group on every rank */
    int dims;
    group_dim dim[GROUP_DIMS];     /* the fastest first; the counts' product is size */
    bool apart;                    /* its transfers may overlap those of other groups; else they take turns */
    void *connection;              /* of the backend, from group_connect to group_disconnect; NULL if not needed */
    int handle;                    /* communicator of machine/world.h; unused if size is 1 */
    int handle_first, handle_step; /* member i is rank handle_first + i * handle_step of it */
    fabric_channel channel;
    uint64_t sequence;            /* transfers submitted so far */
    uint64_t step, step_sequence; /* last step with a transfer; transfers before it (machine/prove/fault.c) */
} group;

/* Returns the group of world ranks first, first + stride, ...; rank: own place in it. It is a whole communicator. */
group group_line(const char *axis, int first, int stride, int size, int rank);
/* Returns a transfer as an activity, with group and elements. */
activity transfer_activity(const op *o);
int group_world_rank(const group *g, int member);
/* Returns whether both describe one group, on two ranks or at two times. */
bool group_same(const group *a, const group *b);
/* Returns the ranks of a group_line in reverse order, with the same communicator of world.h but no connection. */
group group_reversed(const group *g);

/* to [size * n] = the parts `from` [n] of all ranks, in rank order. from absent: the own part already lies in `to`. */
op all_gather_op(group *g, tensor to, tensor from);
/* The own part of x [size * n] becomes its sum over ranks, other parts keep the values of this rank. The host adds in
 * rank order: F32 and BF16 in FP32 and rounded once, F64 in double, U64 exactly. NCCL: see limits.c. */
op reduce_scatter_op(group *g, tensor x);
/* x = sum over ranks, added in the same way; for I32 the maximum. */
op all_reduce_op(group *g, tensor x);
/* Part r of to [size * n] = this rank's part of `from` [size * n] on rank r. */
op all_to_all_op(group *g, tensor to, tensor from);

/* A point-to-point transfer; peer is a rank of the group. exchange_op makes at most OP_OPERANDS at once. */
typedef struct {
    bool send;
    int peer;
    tensor tensor;
} transfer;
op exchange_op(group *g, const transfer *list, int count);
