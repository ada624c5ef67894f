/* What a machine is asked to be, and the device that one of its kind computes on. */
#pragma once
#include "machine/shadow_report.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { MACHINE_HOST, MACHINE_CUDA } machine_kind;

/* Settings of the CUDA machine; the host has none. */
typedef struct {
    bool deterministic;           /* the same bits in every run */
    bool own_attention;           /* its own kernels, though the library's may be faster */
    int transfer_multiprocessors; /* products leave so many to transfers */
    const char *algorithm_cache;  /* file of the algorithms chosen for products; NULL: none */
} machine_tuning;

typedef struct {
    machine_kind kind;
    bool on_paper; /* a machine of that kind that runs nothing: operations are counted, checked and noted; every mark
                      is complete at once, and addresses may be paper */
    bool hostile;  /* the host runs queue heads in random order of order_seed */
    uint32_t order_seed;
    bool prove_access; /* NaN into WRITE operands before; on the host READ operands are compared after */
    int world_rank;
    int64_t span_capacity; /* spans kept; 0: none */
    int64_t mark_history;  /* completion times kept per queue, if more than MARK_HISTORY */
    machine_tuning tuning;
    shadow_mode shadow;    /* operations also on the host, compared (machine/shadow.h) */
    char shadow_files[44]; /* what mismatches' files are named by, beside the rank */
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
