/* Kinds of machines: their options, and what this process knows and gets of a kind without opening a machine. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct group; /* machine/op/fabric.h */

typedef enum { MACHINE_HOST, MACHINE_CUDA } machine_kind;

/* Settings of the CUDA machine; the host has none. */
typedef struct {
    bool deterministic;           /* the same bits in every run */
    bool own_attention;           /* its own kernels, though the library's may be faster */
    int transfer_multiprocessors; /* products leave so many to transfers */
} machine_tuning;

typedef struct {
    machine_kind kind;
    bool on_paper;    /* a machine of that kind that runs nothing: operations are counted, checked and noted; every mark
                         is complete at once, and addresses may be paper */
    bool keeps_order; /* on paper: all submissions are kept, in order */
    bool hostile;     /* the host runs queue heads in random order of order_seed */
    uint32_t order_seed;
    bool prove_access; /* NaN into WRITE operands and scratch before; on the host READ operands are compared after */
    int world_rank;
    int64_t span_capacity; /* spans kept; 0: none */
    int64_t mark_history;  /* completion times kept per queue, if more than MARK_HISTORY */
    machine_tuning tuning;
    char name[44]; /* names the files that it writes, with the rank */
} machine_options;

/* What this rank computes on. identity: the same for two ranks only if they share it; empty on the host. */
typedef struct {
    char name[64], identity[48], driver[32];
    char fabric[48]; /* of GPUs of several nodes that NVLink connects, the same for all; empty: of no other node's */
    char bus[32], serial[32]; /* PCI bus id; serial number of the board; empty: not known */
    int multiprocessors;
    double power_limit_watts, clock_limit_hertz; /* NaN: not known */
    double memory_bytes, free_bytes;
    double communicator_bytes;       /* of what is not free, what this rank's communicators hold */
    bool ecc;                        /* errors are corrected */
    bool fp8;                        /* its tensor cores, or the host, multiply FP8 codes */
    bool clocks_known, throttled;    /* clocks are being held down, as far as it is known */
    double clock_hertz, power_watts; /* now; 0: not known */
    char throttle_reasons[96];
} machine_device;

/* Sets what libraries read of the environment: the first statement of a program, before there are threads. */
void machine_environment(void);
/* Returns whether environment and libraries suit machines of that kind on several ranks, links: of a pipeline; if not,
 * writes why: a clause. */
bool machine_suits(machine_kind kind, bool links, char *why, size_t length);
/* Returns whether it is part of this build. One that is not can be opened on paper if it needs no scratch. */
bool machine_built(machine_kind kind);
/* Returns whether it can run here. */
bool machine_usable(machine_kind kind, char *why, size_t length); /* why not: a clause, if not */
machine_device machine_device_of(machine_kind kind);              /* this rank's */
/* Finds out which ranks NVLink connects. all: the devices of all ranks, on rank 0; else NULL. Collective. */
void machine_meet(const machine_device *all);
/* Returns the lowest rank of the rank's NVLink domain: those of its node, and of the nodes whose GPUs have its fabric.
 * Before machine_meet, and on the host, the domain is the node. */
int machine_domain(machine_kind kind, int world_rank);
/* Returns whether that rank is in this rank's domain. */
bool machine_in_domain(machine_kind kind, int world_rank);
/* Looks at this rank's device, on the first rank of a node at the node, too (machine/sample/sampler.h). */
struct sampler *machine_sampler(machine_kind kind);
int machine_threads(machine_kind kind);                                    /* per rank */
const char *machine_library(machine_kind kind, char *text, size_t length); /* it computes with, as loaded */
/* What runs attention and products, as chosen by the operations so far: a line, then one for each product. */
const char *machine_engines(machine_kind kind, char *text, size_t length);
/* Writes how transfers are made: words; nothing where there are none, or nothing to say. */
const char *machine_transfers(machine_kind kind, char *text, size_t length);

/* What is taken on a device next to an arena: kernels, cuBLASLt, cuDNN and their workspaces. */
#define DEVICE_OUTSIDE_BYTES 1.5e9
/* Memory for an arena on that kind of machine. */
void *machine_memory_take(machine_kind kind, size_t bytes);
/* The same for ranks whose collectives in those groups lie at equal offsets of as many bytes. Collective over `all`,
 * which holds the groups. No groups: memory of this rank alone. */
void *machine_window_take(machine_kind kind, size_t bytes, struct group *const *of, int groups, struct group *all);
/* The arenas to come are at most so large; the same on all ranks. */
void machine_window_reserve(machine_kind kind, size_t bytes);
/* Are gathers and all-to-alls of the group made in the window that was taken last, without multiprocessors? */
bool machine_window_moves(machine_kind kind, const struct group *g);
void machine_memory_give_back(machine_kind kind, void *memory);
void machine_memory_clear(machine_kind kind, void *memory, int byte, size_t bytes);

/* What ranks found out in machine_tune, each for itself, becomes the same on all. Collective over the world. */
void machine_agree(machine_kind kind);

/* Starts or ends a block that holds one multiprocessor and does nothing, as a resident transfer does. Returns false if
 * there are no multiprocessors. */
bool machine_occupy(machine_kind kind, bool start);

/* Ranks of this run share devices: said once, before the first communicator, by all ranks alike. */
void machine_share_devices(bool yes);
bool machine_shares_devices(void);
/* Some case of this run wants equal bits in every run: said in the same way. */
void machine_repeat_bits(bool yes);
bool machine_repeats_bits(void);
/* Thread blocks of a communicator: of a pipeline's link, of a group apart, of the groups that take turns (fabric.h).
 * Set by all ranks alike while no group is connected. */
typedef struct {
    int link, apart, turns;
} transfer_blocks;
void machine_set_blocks(transfer_blocks of_communicators);
transfer_blocks machine_blocks(void);
/* Gives the group the communicator of that split of the world (world_split), or what this kind of machine has in its
 * place. Collective over the world, in the same order on all ranks; disconnected by name as often. */
void group_connect(machine_kind kind, struct group *g, const char *name, int color, int key);
void group_disconnect(machine_kind kind, const char *name);
