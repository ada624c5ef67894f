/* A machine runs operations that are submitted to its queues. The trainer only submits; who runs them is a backend.
 * None of these calls is collective except where said. */
#pragma once
#include "base/arena.h"
#include "base/fault.h"
#include "machine/hazard.h"
#include "machine/op.h"
#include "machine/shadow.h"
#include "machine/tally.h"

typedef struct machine machine;
typedef struct queue queue;
typedef struct {
    queue *queue;
    uint64_t serial;
} mark; /* queue NULL: already done */

typedef enum { MACHINE_HOST, MACHINE_CUDA } machine_kind;

typedef struct {
    machine_kind kind;
    bool measuring; /* run nothing: tally, hazards and scratch only; addresses may be paper */
    bool hostile;   /* run queue heads in random order of order_seed */
    uint32_t order_seed;
    bool prove_access; /* NaN into WRITE operands before, READ operands compared after */
    int world_rank;
    int64_t span_capacity; /* spans kept; 0: none */
    int64_t mark_history;  /* completion times kept per queue, if more than MARK_HISTORY */
    /* The CUDA machine's. */
    bool deterministic;           /* the same bits in every run */
    bool own_attention;           /* its own kernels, though the library's may be faster */
    int transfer_multiprocessors; /* products leave so many to transfers */
    const char *algorithm_cache;  /* file of the algorithms chosen for products; NULL: none */
    shadow_mode shadow;           /* operations also on the host, compared (machine/shadow.h) */
    char shadow_files[44];        /* what mismatches' files are named by, beside the rank */
} machine_options;

/* What this rank computes on. identity: the same for two ranks only if they share it; empty on the host. */
typedef struct {
    char name[64], identity[48], driver[32];
    int multiprocessors;
    double memory_bytes, free_bytes;
    bool ecc;                        /* errors are corrected */
    bool clocks_known, throttled;    /* clocks are being held down, as far as it is known */
    double clock_hertz, power_watts; /* now; 0: not known */
    char throttle_reasons[96];
} machine_device;

/* A planted fault (deck key "fault"). world_rank submits it; a transfer is struck on every rank of its group (a link's
 * both ends), found as the transfer of that group and sequence within the step, which the caller learns from
 * machine_fault_found in a measuring pass. */
typedef struct {
    fault_kind kind;
    op_kind operation;
    int64_t nth;
    int world_rank;
    bool transfer_known;
    char transfer_axis[16];
    int transfer_channel, transfer_first; /* the group: machine/fabric.h */
    uint64_t transfer_sequence;           /* within the step, from 0 */
} fault;

/* Can a machine of this kind run here? Its threads per rank, and the libraries it computes with, as loaded. */
bool machine_usable(machine_kind kind, char *why, size_t length); /* why not: a clause, if not */
machine_device machine_device_of(machine_kind kind);
int machine_threads(machine_kind kind);
const char *machine_library(machine_kind kind, char *text, size_t length);
/* Is it part of this build? What is not can measure all the same, without its scratch. */
bool machine_built(machine_kind kind);
/* What it runs attention and products with, as chosen by the operations so far: for people. */
const char *machine_engines(machine_kind kind, char *text,
                            size_t length); /* a line, then one for each product's algorithm */
/* Ranks of this run share devices: said once, before the first communicator, by all ranks alike. */
void machine_share_devices(bool yes);
bool machine_shares_devices(void);

machine *machine_open(const machine_options *options);
void machine_close(machine *m); /* ends queues; sync first */

queue *machine_queue(machine *m, const char *name); /* owned by the machine; at most HAZARD_QUEUES */
int machine_queues(const machine *m);
queue *machine_queue_at(machine *m, int i); /* in the order they were made */
machine *queue_machine(const queue *q);

/* Copies the op and does not wait for it; only where the queue is full of operations that have not run, for the first
 * of them, which the host runs then. */
mark op_submit(queue *q, const op *o);
/* The queue's next op waits for the mark; the caller does not. */
void queue_wait(queue *q, mark m);
/* The queue's next op comes after all that the other queue has submitted, and after what that one's next op will wait
 * for. */
void queue_follow(queue *q, const queue *other);
/* The last op submitted to the queue. */
mark queue_mark(const queue *q);
/* The caller waits. An error inside a step. */
void mark_sync(mark m);
void machine_sync(machine *m);
/* When it completed, in clock_seconds; valid after mark_sync, for the last mark_history ops of its queue. */
enum { MARK_HISTORY = 1 << 15 };
double mark_time(mark m);
double mark_seconds(mark from, mark to);

/* Who asks for the operations that follow. */
void machine_origin(machine *m, origin where);
origin *machine_origin_now(machine *m);
/* A step begins: executions are counted from here. */
void machine_step(machine *m, int64_t step);

/* Memory for an arena on that kind of machine. */
void *machine_memory_take(machine_kind kind, size_t bytes);
void machine_memory_give_back(machine_kind kind, void *memory);
void machine_memory_clear(machine_kind kind, void *memory, int byte, size_t bytes);
/* Before the machine's first operation: tries out, in memory that nobody uses yet, what measuring passes said will be
 * run. */
void machine_tune(machine *m, void *memory, size_t bytes);

/* Data between the caller and the machine: synchronizes; set-up and after the step only. */
void machine_upload(machine *m, tensor to, const void *from);
void machine_download(machine *m, void *to, tensor from);
/* The same for a tensor whose last writer the caller has waited for: nothing else is waited for. */
void machine_read(machine *m, void *to, tensor from);
/* The tensor where the caller, who has waited for its last writer, may read it: itself, or a copy that machine_view_end
 * frees. After machine_view_store what the caller wrote there is the machine's. */
tensor machine_view(machine *m, tensor t);
void machine_view_store(machine *m, tensor t, const tensor *view);
void machine_view_end(machine *m, tensor *view);

/* Scratch: bytes the operations submitted so far need per queue (after a measuring pass), and the memory for it. */
size_t queue_scratch_bytes(const queue *q);
void queue_set_scratch(queue *q, void *memory, size_t bytes);

void machine_plant(machine *m, const fault *s);
int64_t machine_faults(const machine *m);   /* how often it struck, this rank */
const op *machine_struck(const machine *m); /* the operation that it last struck; valid if it ever did */
/* Fills what names the transfer if world_rank's nth operation was a transfer in the steps submitted so far. */
bool machine_fault_found(const machine *m, fault *s);

/* Leaves out the index-th effective queue_wait counted over all queues since the last machine_step (tests); -1: none.
 */
void machine_drop_wait(machine *m, int64_t index);
int64_t machine_waits(const machine *m);
/* The last operation before which a wait was left out. */
const op *machine_unwaited(const machine *m);

/* From here on operations are shadowed so. */
void machine_shadow(machine *m, shadow_mode mode);
/* Of all that was shadowed; NULL if nothing was asked for. */
const shadow_report *machine_shadowed(const machine *m);
const hazard_report *machine_hazards(const machine *m); /* count and first sentences */
tally *machine_tally(machine *m);
/* The last span_capacity operations that ran, in no particular order; valid until more are run. */
const span *machine_spans(const machine *m, int64_t *count);
