/* The tape. */
#include "model/tape.h"
#include "base/fail.h"
#include <stdlib.h>
#include <string.h>

#define SLOT(name) (1u << SLOT_##name)
#define STEP(name) (1u << STEP_##name)

/* What each mask drops, and the steps that bring it back. Y1 and Y2 are consumed by the next norm: never kept. */
static const struct {
    unsigned dropped, again;
} masks[] = {
    [RECOMPUTE_NONE] = { SLOT(Y1) | SLOT(Y2), 0 },
    [RECOMPUTE_ATTENTION] = { SLOT(Y1) | SLOT(Y2) | SLOT(O) | SLOT(LSE), STEP(ATTENTION) },
    [RECOMPUTE_MLP] = { SLOT(Y1) | SLOT(Y2) | SLOT(GATE_UP) | SLOT(A), STEP(GATE_UP) | STEP(SWIGLU) },
    [RECOMPUTE_ATTENTION_MLP] = { ~(SLOT(X) | SLOT(QKV) | SLOT(Y1)),
                                  STEP(NORM1) | STEP(ATTENTION) | STEP(NORM2) | STEP(GATE_UP) | STEP(SWIGLU) },
    [RECOMPUTE_LAYER] = { ~SLOT(X), STEP(NORM1) | STEP(QKV) | STEP(ATTENTION) | STEP(PROJECTION) | STEP(NORM2) |
                                        STEP(GATE_UP) | STEP(SWIGLU) },
};

static void *zeroed(int64_t count, size_t bytes)
{
    void *p = calloc((size_t)(count ? count : 1), bytes);
    if (!p) FAIL("no memory for %lld entries of the tape", (long long)count);
    return p;
}

static bool has_input(const chunk_extent *e) { return e->layers > 0 || e->has_loss; }

bool tape_received(const chunk_extent *chunk, const schedule_action *a)
{
    const chunk_extent *e = &chunk[a->chunk];
    return (a->verb == FORWARD && !e->has_embedding) || (a->verb == BACKWARD && !e->has_loss);
}

/* What the schedule has in flight at most: layers, and residual streams: one a layer, or the head's input; one is taken
 * ahead where the next forward's is received. */
typedef struct {
    int64_t layers, streams;
} flight;

static flight most_in_flight(const chunk_extent *chunk, const schedule *s)
{
    flight now = { 0, 0 }, most = { 0, 0 };
    for (int64_t i = 0; i < s->length; i++) {
        const schedule_action *a = &s->action[i], *next = i + 1 < s->length ? a + 1 : NULL;
        const chunk_extent *e = &chunk[a->chunk];
        int64_t sign = a->verb == FORWARD    ? 1
                       : a->verb == BACKWARD ? -1
                                             : 0,
                streams = e->layers ? e->layers : has_input(e);
        if (sign > 0) now = (flight){ now.layers + e->layers, now.streams + streams };
        int64_t ahead = next && next->verb == FORWARD && tape_received(chunk, next);
        if (now.layers > most.layers) most.layers = now.layers;
        if (now.streams + ahead > most.streams) most.streams = now.streams + ahead;
        if (sign < 0) now = (flight){ now.layers - e->layers, now.streams - streams };
    }
    return most;
}

static pool pool_open(int64_t size) { return (pool){ .number = zeroed(size, sizeof(int64_t)), .size = size }; }

static void pool_fill(pool *p)
{
    for (p->free = 0; p->free < p->size; p->free++) p->number[p->free] = p->size - 1 - p->free;
}

static int64_t pool_take(pool *p)
{
    if (p->free == 0) FAIL("the tape's %lld places are all taken", (long long)p->size);
    return p->number[--p->free];
}

static void pool_give(pool *p, int64_t number) { p->number[p->free++] = number; }

static tape_chunk open_chunk(const chunk_extent *e, int64_t live)
{
    tape_chunk c = { .layers = e->layers, .window = live + 1, .has_input = has_input(e) };
    c.input = zeroed(c.window, sizeof *c.input);
    c.record = zeroed(c.window * c.layers, sizeof *c.record);
    c.x = zeroed(c.window * c.layers, sizeof *c.x);
    c.slot = zeroed(c.window * c.layers * SLOTS, sizeof *c.slot);
    return c;
}

void tape_open(tape *t, const chunk_extent *chunk, int chunks, const schedule *s, recompute_mask mask,
               const tensor shape[SLOTS], arena *a)
{
    flight most = most_in_flight(chunk, s);
    *t = (tape){ .again = masks[mask].again,
                 .chunks = chunks,
                 .inputs = pool_open(most.streams),
                 .records = pool_open(most.layers) };
    t->chunk = zeroed(chunks, sizeof *t->chunk);
    for (int i = 0; i < chunks; i++) t->chunk[i] = open_chunk(&chunk[i], schedule_live_chunk(s, i));
    t->x = zeroed(most.streams, sizeof *t->x);
    t->record = zeroed(most.layers * SLOTS, sizeof *t->record);
    for (int64_t i = 0; i < most.streams; i++) t->x[i] = tensor_taken(a, ACTIVATIONS, shape[SLOT_X]);
    for (int slot = SLOT_X + 1; slot < SLOTS; slot++) {
        bool dropped = masks[mask].dropped >> slot & 1u;
        tensor shared = dropped && most.layers ? tensor_taken(a, ACTIVATIONS, shape[slot]) : tensor_none();
        for (int64_t i = 0; i < most.layers; i++)
            t->record[i * SLOTS + slot] = dropped ? shared : tensor_taken(a, ACTIVATIONS, shape[slot]);
    }
}

void tape_close(tape *t)
{
    for (int i = 0; i < t->chunks; i++) {
        free(t->chunk[i].input);
        free(t->chunk[i].record);
        free(t->chunk[i].x);
        free(t->chunk[i].slot);
    }
    free(t->chunk);
    free(t->inputs.number);
    free(t->records.number);
    free(t->x);
    free(t->record);
}

void tape_step(tape *t)
{
    pool_fill(&t->inputs);
    pool_fill(&t->records);
}

void tape_take_input(tape *t, int chunk, int64_t microbatch)
{
    tape_chunk *c = &t->chunk[chunk];
    if (c->has_input) c->input[microbatch % c->window] = pool_take(&t->inputs);
}

tensor tape_input(const tape *t, int chunk, int64_t microbatch)
{
    const tape_chunk *c = &t->chunk[chunk];
    return c->has_input ? t->x[c->input[microbatch % c->window]] : tensor_none();
}

void tape_take(tape *t, int chunk, int64_t microbatch)
{
    tape_chunk *c = &t->chunk[chunk];
    int64_t place = microbatch % c->window;
    for (int64_t l = 0; l < c->layers; l++) {
        int64_t at = place * c->layers + l;
        tensor *slot = c->slot + at * SLOTS;
        c->record[at] = pool_take(&t->records);
        c->x[at] = l == 0 ? c->input[place] : pool_take(&t->inputs);
        memcpy(slot, t->record + c->record[at] * SLOTS, SLOTS * sizeof *slot);
        slot[SLOT_X] = t->x[c->x[at]];
    }
}

tensor *tape_layer(const tape *t, int chunk, int64_t microbatch, int64_t layer)
{
    const tape_chunk *c = &t->chunk[chunk];
    return c->slot + (microbatch % c->window * c->layers + layer) * SLOTS;
}

void tape_release(tape *t, int chunk, int64_t microbatch)
{
    tape_chunk *c = &t->chunk[chunk];
    int64_t place = microbatch % c->window;
    for (int64_t l = c->layers - 1; l >= 0; l--) {
        int64_t at = place * c->layers + l;
        pool_give(&t->records, c->record[at]);
        if (l > 0) pool_give(&t->inputs, c->x[at]);
    }
    if (c->has_input) pool_give(&t->inputs, c->input[place]);
}
