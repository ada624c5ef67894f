/* The tape. */
#include "model/tape.h"
#include "base/fail.h"
#include "base/memory.h"

static void *entries(int64_t count, size_t bytes) { return allocate(count, bytes, "entries of the tape"); }

static bool has_input(const chunk_extent *e) { return e->layers > 0 || e->has_loss; }

bool tape_received(const chunk_extent *chunk, const schedule_action *a)
{
    const chunk_extent *e = &chunk[a->chunk];
    return (a->verb == FORWARD && !e->has_embedding) || (a->verb == BACKWARD && !e->has_loss);
}

/* Most that the schedule has in flight: layers; residual streams, one for each layer or for the head's input. One more
 * is taken ahead if the next forward's input is received. */
typedef struct {
    int64_t layers, residuals;
} flight;

static flight most_in_flight(const chunk_extent *chunk, const schedule *s)
{
    flight now = { 0, 0 }, most = { 0, 0 };
    for (int64_t i = 0; i < s->length; i++) {
        const schedule_action *a = &s->action[i], *next = i + 1 < s->length ? a + 1 : NULL;
        const chunk_extent *e = &chunk[a->chunk];
        int64_t residuals = e->layers ? e->layers : has_input(e);
        if (a->verb == FORWARD) now = (flight){ now.layers + e->layers, now.residuals + residuals };
        int64_t ahead = next && next->verb == FORWARD && tape_received(chunk, next);
        if (now.layers > most.layers) most.layers = now.layers;
        if (now.residuals + ahead > most.residuals) most.residuals = now.residuals + ahead;
        if (a->verb == BACKWARD) now = (flight){ now.layers - e->layers, now.residuals - residuals };
    }
    return most;
}

static pool pool_open(int64_t size) { return (pool){ .number = entries(size, sizeof(int64_t)), .size = size }; }

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
    c.input = entries(c.window, sizeof *c.input);
    c.record = entries(c.window * c.layers, sizeof *c.record);
    c.x = entries(c.window * c.layers, sizeof *c.x);
    return c;
}

/* Takes memory for a slot of all layers in flight. */
static void open_slot(tape *t, const tape_layout *layout, int slot, arena *a)
{
    tensor shape = layout->shape[slot];
    bool kept = layout->kept & slot_bit(slot);
    if (!tensor_present(&shape) || t->records.size == 0) return;
    tensor shared = kept ? tensor_none() : tensor_taken(a, ACTIVATIONS, shape);
    for (int64_t i = 0; i < t->records.size; i++)
        t->record[i * t->slots + slot] = kept ? tensor_taken(a, ACTIVATIONS, shape) : shared;
}

void tape_open(tape *t, const tape_layout *layout, arena *a)
{
    flight most = most_in_flight(layout->chunk, layout->order);
    *t = (tape){ .chunks = layout->chunks,
                 .slots = layout->slots,
                 .inputs = pool_open(most.residuals),
                 .records = pool_open(most.layers) };
    t->chunk = entries(t->chunks, sizeof *t->chunk);
    for (int i = 0; i < t->chunks; i++)
        t->chunk[i] = open_chunk(&layout->chunk[i], schedule_live_chunk(layout->order, i));
    t->x = entries(most.residuals, sizeof *t->x);
    t->record = entries(most.layers * t->slots, sizeof *t->record);
    for (int64_t i = 0; i < most.residuals; i++) t->x[i] = tensor_taken(a, ACTIVATIONS, layout->shape[SLOT_INPUT]);
    for (int slot = SLOT_INPUT + 1; slot < t->slots; slot++) open_slot(t, layout, slot, a);
}

void tape_close(tape *t)
{
    for (int i = 0; i < t->chunks; i++) {
        free(t->chunk[i].input);
        free(t->chunk[i].record);
        free(t->chunk[i].x);
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
        c->record[at] = pool_take(&t->records);
        c->x[at] = l == 0 ? c->input[place] : pool_take(&t->inputs);
        t->record[c->record[at] * t->slots + SLOT_INPUT] = t->x[c->x[at]];
    }
}

tensor *tape_layer(const tape *t, int chunk, int64_t microbatch, int64_t layer)
{
    const tape_chunk *c = &t->chunk[chunk];
    return t->record + c->record[microbatch % c->window * c->layers + layer] * t->slots;
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
