/* Devices of the ranks: checks that every rank has a usable device that no other rank uses. */
#pragma once
#include "machine/queue/machine.h"
#include "plan/bench_case.h"

typedef struct {
    bool usable;                  /* every rank has a usable device */
    char refused[REASON_LENGTH];  /* why the environment excludes several ranks; empty if it allows them */
    char missing[REASON_LENGTH];  /* the first rank without a device, its host, the reason; empty if usable */
    char shared[REASON_LENGTH];   /* two ranks on one device; empty if there are none */
    char no_fp8[REASON_LENGTH];   /* the first rank whose device cannot multiply FP8; empty if none */
    char no_links[REASON_LENGTH]; /* the first rank whose libraries cannot run a pipeline; empty if none */
    int sharing;                  /* ranks on the most crowded device; 0 if not usable */
    char name[64];                /* of rank 0's device */
    double memory_bytes;    /* of the smallest device; at most what a known device has, so that layers do not vary */
    machine_device *device; /* [ranks of the world] if usable; on rank 0 only; owned by the caller */
} device_survey;

/* Checks the devices. The result is the same on all ranks, except `device`. Collective over the world. */
device_survey devices_survey(machine_kind kind);

/* Returns whether ranks share a device. pair: the two lowest such ranks; most: ranks on the most crowded device. */
bool devices_shared(const machine_device *device, int ranks, int pair[2], int *most);
