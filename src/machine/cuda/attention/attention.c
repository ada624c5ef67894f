/* Chooses the engine that computes an attention call. */
#include "machine/cuda/attention/attention.h"
#include "base/fail.h"
#include "base/say.h"
#include "machine/cuda/attention/attention_library.h"
#include "machine/cuda/device/device.h"
#include "machine/cuda/kernels/compute.h"
#include "machine/cuda/kernels/kernels.h"
#include "machine/world.h"
#include <stdio.h>
#include <string.h>

enum { LIBRARY, TILED, PLAIN, ENGINES };

/* The settings, the engines that ran since the machine was opened, where the library failed, and why. */
static struct {
    bool own, deterministic, forward[ENGINES], backward[ENGINES];
    bool opened, rehearsing, agreed, failed[2]; /* [backward] */
    char why[256];
} state;

void cuda_attention_settings(const machine_tuning *t)
{
    state.own = t->own_attention;
    state.deterministic = t->deterministic;
    int left = t->transfer_multiprocessors;
    library_attention_limit_sms(left ? cuda_multiprocessors() - left : 0);
}

void cuda_attention_open(const machine_tuning *t)
{
    cuda_attention_settings(t);
    memset(state.forward, 0, sizeof state.forward);
    memset(state.backward, 0, sizeof state.backward);
    memset(state.failed, 0, sizeof state.failed);
    state.opened = true;
    state.agreed = false;
    state.why[0] = 0;
}

/* cuDNN's backward adds in varying order, so it is not allowed if results must be deterministic. */
static bool library_is_allowed(const cuda_call *c, bool backward)
{
    return !state.own && !(backward && state.deterministic) && library_attention_takes(c, backward);
}

void cuda_attention_prepare(const op *o)
{
    const bool backward = o->kind == OP_ATTENTION_BACKWARD;
    const cuda_call c = cuda_call_of(o, NULL, 0, NULL);
    if (library_is_allowed(&c, backward)) library_attention_note(&c, backward);
}

void cuda_attention_tune(void)
{
    if (!state.own) library_attention_tune();
}

void cuda_attention_rehearse(bool yes) { state.rehearsing = yes; }

/* All ranks must use the same engine, because sums differ between engines. */
void cuda_attention_agree(void)
{
    bool any = state.failed[0] || state.failed[1], all = world_all(any || !state.opened);
    int first = world_first(any);
    double failed[2] = { state.failed[0], state.failed[1] };
    char why[sizeof state.why] = "";
    state.agreed = true;
    if (first == world_ranks()) return;
    world_maximum(failed, 2);
    snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, state.why);
    world_broadcast(why, sizeof why, first);
    for (int i = 0; i < 2; i++) state.failed[i] = failed[i] > 0.0;
    if (all) return;
    snprintf(state.why, sizeof state.why, "rank %d: %.*s", first, (int)sizeof why - 32, why);
    say("WARNING    attention %s uses this program's kernels on all ranks, because the library fails on one: %s\n",
        !state.failed[0]  ? "backward"
        : state.failed[1] ? "forward and backward"
                          : "forward",
        state.why);
}

static bool is_bf16(const cuda_call *c, int at) { return c->x[at].type == BF16; }

static int own_engine(const cuda_call *c, bool backward)
{
    bool tiled = is_bf16(c, Q) && is_bf16(c, K) && is_bf16(c, V) && (!backward || is_bf16(c, D_OUT));
    return tiled ? TILED : PLAIN;
}

/* Returns enough scratch for both engines, because xgsw's kernels run if the library fails. */
static size_t scratch(const cuda_call *c, bool backward, size_t own)
{
    size_t library = library_is_allowed(c, backward) ? library_attention_scratch(c, backward) : 0;
    return library > own ? library : own;
}

size_t cuda_attention_forward_scratch(const cuda_call *c) { return scratch(c, false, 0); }

size_t cuda_attention_backward_scratch(const cuda_call *c)
{
    size_t own =
        own_engine(c, true) == TILED ? tiled_attention_backward_scratch(c) : plain_attention_backward_scratch(c);
    return scratch(c, true, own);
}

/* Replaces line breaks, because the report prints the reason on one line. */
static void keep_reason(const char *why)
{
    if (state.why[0]) return;
    snprintf(state.why, sizeof state.why, "%s", why);
    for (char *at = state.why; (at = strpbrk(at, "\r\n"));) *at = ' ';
}

/* Returns whether cuDNN computed the call. In the rehearsal xgsw's kernels run after it, so that both are loaded. */
static bool run_by_library(const cuda_call *c, bool backward)
{
    const char *why = "";
    if (!library_is_allowed(c, backward) || (state.agreed && state.failed[backward])) return false;
    bool ran = library_attention_run(c, backward, &why);
    if (!ran && state.agreed)
        FAIL("attention %s: %s, but the other ranks use the library (give attention = own)",
             backward ? "backward" : "forward", why);
    if (!ran) keep_reason(why);
    state.failed[backward] |= !ran;
    return ran && !state.rehearsing;
}

void cuda_attention_forward(const cuda_call *c)
{
    int engine = run_by_library(c, false) ? LIBRARY : own_engine(c, false);
    if (engine == TILED) tiled_attention_forward(c);
    if (engine == PLAIN) plain_attention_forward(c);
    state.forward[engine] |= !state.rehearsing;
}

void cuda_attention_backward(const cuda_call *c)
{
    int engine = run_by_library(c, true) ? LIBRARY : own_engine(c, true);
    if (engine == TILED) tiled_attention_backward(c);
    if (engine == PLAIN) plain_attention_backward(c);
    state.backward[engine] |= !state.rehearsing;
}

static void name_engines(char *text, size_t length, const bool *used)
{
    static const char *const name[] = { "cuDNN", "own kernels (mma.sync)", "own kernels (FP32)" };
    size_t end = 0;
    for (int i = 0; i < ENGINES && end < length; i++)
        if (used[i]) end += (size_t)snprintf(text + end, length - end, "%s%s", end ? " and " : "", name[i]);
    if (!end) snprintf(text, length, "not run");
}

const char *cuda_attention_engine(char *text, size_t length)
{
    char forward[80], backward[80], both[192];
    name_engines(forward, sizeof forward, state.forward);
    name_engines(backward, sizeof backward, state.backward);
    if (strcmp(forward, backward) == 0) snprintf(both, sizeof both, "%s", forward);
    else snprintf(both, sizeof both, "forward %s, backward %s", forward, backward);
    snprintf(text, length, "%s%s%s", both, state.why[0] ? ": " : "", state.why);
    return text;
}
