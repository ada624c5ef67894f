/* A backend is a table of functions: it runs operations, or notes what would be run. */
#pragma once
#include "machine/op/fabric.h"
#include "machine/queue/history.h"
#include "machine/queue/kind.h"
#include "machine/queue/preparation.h"
#include "machine/queue/submissions.h"
#include "machine/sample/sampler.h"

/* An operation on its way: number `serial` of the queue, from 1. The backend copies what it keeps. */
typedef struct {
    int queue;
    uint64_t serial;
    const op *op;
    const dependency *wait; /* [waits], of each queue one at most */
    int waits;
    void *scratch; /* the queue's, for one operation at a time */
    size_t scratch_bytes;
    bool yields; /* the queue's operations, to those of others */
} submission;

/* kind.h says what the functions of the process do, machine.h what those of a machine do. NULL: nothing. */
typedef struct backend backend;
struct backend {
    /* ---- of the process ---- */
    void (*environment)(void);
    bool (*suits)(bool links, char *why, size_t length);
    bool (*usable)(char *why, size_t length);
    const char *(*library)(char *text, size_t length);
    const char *(*engines)(char *text, size_t length);
    const char *(*transfers)(char *text, size_t length);
    int (*threads)(void);
    machine_device (*device)(void);   /* its first use chooses it */
    void (*state)(device_state *now); /* of that device, for the sampling thread */
    bool addressable;                 /* the caller may read and write machine memory itself */
    void *(*take)(size_t bytes);
    void *(*window)(size_t bytes, group *const *of, int groups, group *all);
    void (*window_reserve)(size_t bytes);
    bool (*window_moves)(const group *g);
    void (*give_back)(void *memory);
    void (*clear)(void *memory, int byte, size_t bytes); /* synchronizes */
    void (*occupy)(bool start);
    void (*agree)(void);
    void (*connect)(group *g, const char *name, int color, int key);
    void (*disconnect)(const char *name);

    /* Bytes of scratch that the operation needs under these settings. Needs no device; NULL: not known. */
    size_t (*scratch_of)(const machine_tuning *t, const op *o);
    /* Runs a computing operation at once, on host memory, without a machine; NULL: cannot. */
    void (*compute)(const op *o, void *scratch);

    /* ---- of a machine; what completes enters the history ---- */
    void *(*open)(const machine_options *options, history *h);
    void (*close)(void *state);
    void (*tune)(void *state, const preparation *p, void *memory, size_t bytes);
    void (*submit)(void *state, const submission *s);
    void (*sync)(void *state, int queue, uint64_t serial);
    /* Bytes between the caller and machine memory whose writers have completed. They synchronize. */
    void (*upload)(void *state, void *to, const void *from, size_t bytes);
    void (*download)(void *state, void *to, const void *from, size_t bytes);
    preparation (*prepared)(void *state); /* on paper only */
    void (*profile)(bool on);             /* tells a profiler of devices where what it captures begins and ends */
};

const backend *host_backend(void);
const backend *cuda_backend(void); /* a build without CUDA has one that is not usable (machine/cuda/cuda_absent.c) */
const backend *paper_backend(void);
const backend *backend_of(machine_kind kind);

/* What ends a run on every backend: too little scratch; a wait for what was never submitted. */
void backend_check_scratch(const op *o, size_t needed, size_t given);
_Noreturn void backend_fail_never(const op *o, const dependency *w);
