/* What the ranks of the run compute on: has every rank a device, and one of its own? */
#pragma once
#include "machine/queue/machine.h"
#include "plan/bench_case.h"

typedef struct {
    bool usable;                  /* on every rank */
    char refused[REASON_LENGTH];  /* what the environment has against several ranks; empty: nothing */
    char missing[REASON_LENGTH];  /* if not: the first rank without one, its host, why */
    char shared[REASON_LENGTH];   /* two ranks on one device; empty: there are none */
    char no_fp8[REASON_LENGTH];   /* the first rank whose device does not multiply FP8; empty: all do */
    char no_links[REASON_LENGTH]; /* the first rank whose libraries run no pipeline; empty: all do */
    int sharing;                  /* ranks on the most crowded device; 0: not usable */
    char name[64];                /* of rank 0's device */
    machine_device *device;       /* [ranks of the world], where usable; rank 0 only, owned */
} device_survey;

/* Collective over the world; the same answers on all ranks. */
device_survey devices_survey(machine_kind kind);

/* The two ranks of lowest number that have one identity, and how many ranks have the commonest. False: all differ. */
bool devices_shared(const machine_device *device, int ranks, int pair[2], int *most);
