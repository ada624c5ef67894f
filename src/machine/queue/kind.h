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
    bool on_paper;    /* runs nothing: counts, checks and notes operations, also with paper addresses (base/arena.h) */
    bool keeps_order; /* on paper: keeps all submissions, in order */
    bool hostile;     /* the host runs the heads of queues in random order, drawn from order_seed */
    uint32_t order_seed;
    bool prove_access; /* fills WRITE operands and scratch with NaN; the host checks that READ operands are unchanged */
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
    double communicator_bytes; /* device memory that this rank's communicators hold */
    bool ecc;
    bool fp8;                        /* the tensor cores, or the host, multiply FP8 values */
    bool clocks_known, throttled;    /* throttled: the clock is reduced now, if that is known */
    double clock_hertz, power_watts; /* now; 0 if unknown */
    char throttle_reasons[96];
} machine_device;

/* Sets environment variables that libraries read. Call it first in main, before any thread exists. */
void machine_environment(void);
/* Returns whether environment and libraries allow several ranks; if not, writes the reason as a clause. links: a layout
 * has more than one pipeline stage. */
bool machine_supports_ranks(machine_kind kind, bool links, char *why, size_t length);
/* Returns whether this build has that kind. A missing kind can be opened on paper, but its scratch is unknown. */
bool machine_built(machine_kind kind);
/* Returns whether that kind can run here; if not, writes the reason as a clause. */
bool machine_usable(machine_kind kind, char *why, size_t length);
machine_device machine_device_of(machine_kind kind); /* of this rank */
/* all: devices of all ranks, on rank 0; NULL elsewhere. Collective. */
void machine_find_domains(const machine_device *all);
/* Returns the lowest rank of the rank's NVLink domain: its node and all nodes whose GPUs have the same fabric. On the
 * host, and before machine_find_domains, the domain is the node. */
int machine_domain(machine_kind kind, int world_rank);
bool machine_in_domain(machine_kind kind, int world_rank);
/* Opens a sampler of this rank's device (machine/sample/sampler.h). The first rank of a node also samples the node. */
struct sampler *machine_sampler(machine_kind kind);
int machine_threads(machine_kind kind);                                    /* per rank */
const char *machine_library(machine_kind kind, char *text, size_t length); /* names and versions, as loaded */
/* Writes which engines run attention and products so far: one line, then one line for each product. */
const char *machine_engines(machine_kind kind, char *text, size_t length);
/* Writes how transfers are made; an empty text if there is nothing to report. */
const char *machine_transfers(machine_kind kind, char *text, size_t length);

/* Device memory outside the arena: kernels, cuBLASLt, cuDNN and their workspaces. */
#define DEVICE_OUTSIDE_BYTES 1.5e9
/* Returns memory for an arena. machine_memory_give_back frees it. */
void *machine_memory_take(machine_kind kind, size_t bytes);
/* Returns memory for an arena, in which copy engines can run the collectives of these groups. The arenas of all ranks
 * have the same layout and bytes. Collective over `all`, which contains the groups. groups 0: only for this rank. */
void *machine_window_take(machine_kind kind, size_t bytes, struct group *const *of, int groups, struct group *all);
/* Announces the largest window to come, so that memory is taken once. The same on all ranks. */
void machine_window_reserve(machine_kind kind, size_t bytes);
/* Returns whether the group's gathers and all-to-alls use the last window: they then need no multiprocessors. */
bool machine_window_serves(machine_kind kind, const struct group *g);
void machine_memory_give_back(machine_kind kind, void *memory);
void machine_memory_clear(machine_kind kind, void *memory, int byte, size_t bytes);

/* Makes the choices of machine_tune the same on all ranks. Collective over the world. */
void machine_agree(machine_kind kind);

/* Starts or ends a thread block that occupies one multiprocessor, as transfers do. Returns false on the host. */
bool machine_occupy(machine_kind kind, bool start);

/* States whether ranks of this run share devices. Call it once on every rank, before the first communicator. */
void machine_share_devices(bool yes);
bool machine_shares_devices(void);
/* States whether a case needs the same bits in every run. Call it at the same time. */
void machine_repeat_bits(bool yes);
bool machine_repeats_bits(void);
/* Thread blocks of a communicator of a pipeline link, of a group apart, and of groups that take turns (fabric.h). All
 * ranks set the same, while no group is connected. */
typedef struct {
    int link, apart, turns;
} transfer_blocks;
void machine_set_blocks(transfer_blocks of_communicators);
transfer_blocks machine_blocks(void);
/* Gives the group the communicator that world_split returns, or its equivalent of this kind. Collective over the world,
 * in the same order on all ranks. Call group_disconnect once for each call. */
void group_connect(machine_kind kind, struct group *g, const char *name, int color, int key);
void group_disconnect(machine_kind kind, const char *name);
