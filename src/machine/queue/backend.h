/* A backend: a table of functions that run operations or, on paper, only record them. */
#pragma once
#include "machine/op/fabric.h"
#include "machine/queue/history.h"
#include "machine/queue/kind.h"
#include "machine/queue/preparation.h"
#include "machine/queue/submissions.h"
#include "machine/sample/sampler.h"

/* An operation for a backend, which copies what it keeps. serial: its number in the queue, from 1. */
typedef struct {
    int queue;
    uint64_t serial;
    const op *op;
    const dependency *wait; /* [waits], at most one of each queue */
    int waits;
    void *scratch; /* scratch memory of the queue; one operation uses it at a time */
    size_t scratch_bytes;
    bool yields; /* operations of this queue yield to those of other queues */
} submission;

/* The functions of kind.h and machine.h are described there. NULL: there is nothing to do. */
typedef struct backend backend;
struct backend {
    /* ---- functions of the process ---- */
    void (*environment)(void);
    bool (*supports_ranks)(bool links, char *why, size_t length);
    bool (*usable)(char *why, size_t length);
    const char *(*library)(char *text, size_t length);
    const char *(*engines)(char *text, size_t length);
    const char *(*transfers)(char *text, size_t length);
    int (*threads)(void);
    machine_device (*device)(void);   /* the first call chooses the device */
    void (*state)(device_state *now); /* samples that device; called by the sampling thread */
    bool addressable;                 /* the caller can read and write machine memory directly */
    void *(*take)(size_t bytes);
    void *(*window)(size_t bytes, group *const *of, int groups, group *all);
    void (*window_reserve)(size_t bytes);
    bool (*window_serves)(const group *g);
    void (*give_back)(void *memory);
    void (*clear)(void *memory, int byte, size_t bytes); /* synchronizes */
    void (*occupy)(bool start);
    void (*agree)(void);
    void (*connect)(group *g, const char *name, int color, int key);
    void (*disconnect)(const char *name);

    /* Returns the bytes of scratch that the operation needs with these settings, without a device. NULL: unknown. */
    size_t (*scratch_of)(const machine_tuning *t, const op *o);
    /* Runs a computing operation at once, on host memory, without a machine. NULL: not supported. */
    void (*compute)(const op *o, void *scratch);

    /* ---- functions of a machine; they record completed operations in its history ---- */
    void *(*open)(const machine_options *options, history *h);
    void (*close)(void *state);
    void (*tune)(void *state, const preparation *p, void *memory, size_t bytes);
    void (*submit)(void *state, const submission *s);
    void (*sync)(void *state, int queue, uint64_t serial);
    /* Copy bytes between the caller and machine memory whose writers have completed. Both synchronize. */
    void (*upload)(void *state, void *to, const void *from, size_t bytes);
    void (*download)(void *state, void *to, const void *from, size_t bytes);
    preparation (*prepared)(void *state); /* on paper only */
    void (*profile)(bool on);             /* marks the begin or end of a capture for the profiler of the device */
};

const backend *host_backend(void);
const backend *cuda_backend(void); /* never usable in a build without CUDA (machine/cuda/cuda_absent.c) */
const backend *paper_backend(void);
const backend *backend_of(machine_kind kind);

void backend_check_scratch(const op *o, size_t needed, size_t given); /* ends the program if needed > given */
/* Ends the program because the operation waits for one that can never complete. */
_Noreturn void backend_fail_deadlock(const op *o, const dependency *w);
