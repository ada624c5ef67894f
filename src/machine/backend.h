/* What a backend is: a table of functions, filled in one place. submit.c dispatches, tallies and checks; backends only
 * run. */
#pragma once
#include "machine/machine.h"

typedef struct backend {
    const char *name;
    bool (*usable)(char *why, size_t length);          /* can this process run it, not only measure? If not, why */
    const char *(*library)(char *text, size_t length); /* what it computes with, as loaded */
    const char *(*engines)(char *text, size_t length); /* of attention and products, as chosen so far */
    int (*threads)(void);                              /* per rank */
    machine_device (*device)(void);                    /* this rank's; its first use chooses it */

    /* The block behind an arena. clear: every byte takes the value; synchronizes. */
    void *(*take)(size_t bytes);
    void (*give_back)(void *memory);
    void (*clear)(void *memory, int byte, size_t bytes);

    /* Communicators: collective over the world, in the same order on all ranks (machine/fabric.h). */
    void (*connect)(struct group *g, const char *name, int color, int key);
    void (*disconnect)(const char *name);

    void *(*open)(const machine_options *options, tally *t);
    void (*close)(void *state);
    size_t (*prepare)(void *state, const op *o); /* measuring: notes what the op needs; bytes of scratch it wants */
    /* Before the first operation that is run: what is best found by trial is found here, in memory that nobody uses
     * yet. */
    void (*tune)(void *state, void *memory, size_t bytes);
    void (*submit)(void *state, int queue, uint64_t serial, const op *o);
    void (*wait)(void *state, int queue, int target, uint64_t serial);
    void (*sync)(void *state, int queue, uint64_t serial);
    double (*completed)(void *state, int queue, uint64_t serial); /* clock_seconds of completion */
    void (*scratch)(void *state, int queue, void *memory, size_t bytes);
    const span *(*spans)(void *state, int64_t *count);
    /* Bytes between the caller and machine memory whose writers have completed. They synchronize. */
    void (*upload)(void *state, void *to, const void *from, size_t bytes);
    void (*download)(void *state, void *to, const void *from, size_t bytes);
    bool addressable; /* the caller may read and write machine memory itself */
} backend;

const backend *host_backend(void);
/* A build without CUDA has one that only measures (machine/cuda_absent.c). */
const backend *cuda_backend(void);
