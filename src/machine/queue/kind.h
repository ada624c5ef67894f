/* Kinds of machines: their options, and the functions of a kind that need no open machine. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct group; /* machine/op/fabric.h */

typedef enum { MACHINE_HOST, MACHINE_CUDA } machine_kind;

/* Settings of the CUDA machine; the host has none. */
typedef struct {
    bool deterministic;           /* the same bits in every run */
    bool own_attention;           /* attention uses the kernels of xgsw, even if the library's are faster */
    int transfer_multiprocessors; /* multiprocessors that products leave to transfers */
} machine_tuning;

typedef struct {
    machine_kind kind;
    bool on_paper;    /* runs nothing: counts, checks and notes operations; every mark is complete at once; addresses
                         may be on paper (base/arena.h) */
    bool keeps_order; /* on paper: keeps all submissions, in order */
    bool hostile;     /* the host runs the heads of queues in random order, drawn from order_seed */
    uint32_t order_seed;
    bool prove_access; /* fills WRITE operands and scratch with NaN first; the host checks READ operands after */
    int world_rank;
    int64_t span_capacity; /* number of spans kept; 0: none */
    int64_t mark_history;  /* completion times kept for each queue, if more than MARK_HISTORY */
    machine_tuning tuning;
    char name[44]; /* with the rank, part of the names of files that the machine writes */
} machine_options;

/* The device of this rank. identity: equal on two ranks only if they share the device; empty on the host. */
typedef struct {
    char name[64], identity[48], driver[32];
    char fabric[48]; /* name of the NVLink fabric, equal on all its GPUs; empty if NVLink reaches no other node */
    char bus[32], serial[32]; /* PCI bus id; serial number of the board; empty if unknown */
    int multiprocessors;
    double power_limit_watts, clock_limit_hertz; /* NaN if unknown */
    double memory_bytes, free_bytes;
    double communicator_bytes;       /* device memory that this rank's communicators hold */
    bool ecc;                        /* memory corrects errors */
    bool fp8;                        /* the tensor cores, or the host, multiply FP8 values */
    bool clocks_known, throttled;    /* throttled: clocks are held down now, if that is known */
    double clock_hertz, power_watts; /* now; 0 if unknown */
    char throttle_reasons[96];
} machine_device;

/* Sets environment variables that libraries read. Call it first in main, before any thread exists. */
void machine_environment(void);
/* Returns whether environment and libraries allow machines of that kind on several ranks; if not, writes the reason as
 * a clause. links: a layout has more than one pipeline stage. */
bool machine_suits(machine_kind kind, bool links, char *why, size_t length);
/* Returns whether this build has that kind. A missing kind can be opened on paper, but its scratch is unknown. */
bool machine_built(machine_kind kind);
/* Returns whether that kind can run here; if not, writes the reason as a clause. */
bool machine_usable(machine_kind kind, char *why, size_t length);
machine_device machine_device_of(machine_kind kind); /* of this rank */
/* Finds out which ranks NVLink connects. all: devices of all ranks, on rank 0; NULL elsewhere. Collective. */
void machine_meet(const machine_device *all);
/* Returns the lowest rank of that rank's NVLink domain: its node and all nodes whose GPUs have the same fabric. Before
 * machine_meet, and on the host, the domain is the node. */
int machine_domain(machine_kind kind, int world_rank);
bool machine_in_domain(machine_kind kind, int world_rank);
/* Opens a sampler of this rank's device (machine/sample/sampler.h); on the first rank of a node, of the node, too. */
struct sampler *machine_sampler(machine_kind kind);
int machine_threads(machine_kind kind);                                    /* per rank */
const char *machine_library(machine_kind kind, char *text, size_t length); /* names and versions, as loaded */
/* Writes the engines of attention and products chosen so far: one line, then one line for each product. */
const char *machine_engines(machine_kind kind, char *text, size_t length);
/* Writes in words how transfers are made; writes an empty text if there is nothing to report. */
const char *machine_transfers(machine_kind kind, char *text, size_t length);

/* Device memory outside the arena: kernels, cuBLASLt, cuDNN and their workspaces. */
#define DEVICE_OUTSIDE_BYTES 1.5e9
/* Returns memory for an arena. machine_memory_give_back frees it. */
void *machine_memory_take(machine_kind kind, size_t bytes);
/* Does the same, so that copy engines can make collectives of the groups. The arenas of all ranks have the same layout
 * and bytes. Collective over `all`, which contains the groups. groups 0: memory for this rank alone. */
void *machine_window_take(machine_kind kind, size_t bytes, struct group *const *of, int groups, struct group *all);
/* States the largest arena to come, in bytes, so that memory is taken once. The same on all ranks. */
void machine_window_reserve(machine_kind kind, size_t bytes);
/* Returns whether the last window serves the group: its gathers and all-to-alls then need no multiprocessors. */
bool machine_window_moves(machine_kind kind, const struct group *g);
void machine_memory_give_back(machine_kind kind, void *memory);
void machine_memory_clear(machine_kind kind, void *memory, int byte, size_t bytes);

/* Makes the choices of machine_tune the same on all ranks. Collective over the world. */
void machine_agree(machine_kind kind);

/* Starts or ends a thread block that occupies one multiprocessor, as transfers do. Returns false if there are none. */
bool machine_occupy(machine_kind kind, bool start);

/* States whether ranks of this run share devices. Call it once on every rank, before the first communicator. */
void machine_share_devices(bool yes);
bool machine_shares_devices(void);
/* States whether a case of this run needs equal bits in every run. Call it in the same way. */
void machine_repeat_bits(bool yes);
bool machine_repeats_bits(void);
/* Thread blocks of a communicator: of a pipeline link, of a group apart, of groups that take turns (fabric.h). All
 * ranks set the same, while no group is connected. */
typedef struct {
    int link, apart, turns;
} transfer_blocks;
void machine_set_blocks(transfer_blocks of_communicators);
transfer_blocks machine_blocks(void);
/* Gives the group the communicator of that split of the world (world_split), or the equivalent of this kind. Collective
 * over the world, in the same order on all ranks. Each call needs one group_disconnect of that name. */
void group_connect(machine_kind kind, struct group *g, const char *name, int color, int key);
void group_disconnect(machine_kind kind, const char *name);
