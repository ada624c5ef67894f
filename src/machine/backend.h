/* What a backend is: a table of functions, filled in one place. machine.c dispatches, tallies and checks; backends only run. */
#pragma once
#include "machine/machine.h"

typedef struct backend {
    const char *name;
    bool usable;                                        /* can run, not only measure */
    const char *(*library)(char *text, size_t length);  /* what it computes with, as loaded */
    int (*threads)(void);                               /* per rank */
    void *(*open)(const machine_options *options, tally *t);
    void (*close)(void *state);
    size_t (*prepare)(void *state, const op *o);        /* builds what the op needs; bytes of scratch it wants */
    void (*submit)(void *state, int queue, uint64_t serial, const op *o);
    void (*wait)(void *state, int queue, int target, uint64_t serial);
    void (*sync)(void *state, int queue, uint64_t serial);
    double (*completed)(void *state, int queue, uint64_t serial);       /* clock_seconds of completion */
    void (*scratch)(void *state, int queue, void *memory, size_t bytes);
    const span *(*spans)(void *state, int64_t *count);
} backend;

const backend *host_backend(void);
/* A build without CUDA has one that only measures (machine/cuda_absent.c). */
const backend *cuda_backend(void);
