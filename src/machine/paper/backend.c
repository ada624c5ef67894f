/* The machine on paper: it stands for one of another kind, notes what that one would need, and runs nothing. */
#include "machine/backend.h"
#include "base/fail.h"
#include <stdlib.h>

typedef struct {
    machine_tuning tuning;
    const backend *kind;
    preparation noted;
} paper;

static void *open_paper(const machine_options *options, const backend *kind, history *h)
{
    paper *p = calloc(1, sizeof *p);
    (void)h;
    if (!p) FAIL("no memory for a machine on paper");
    p->tuning = options->tuning;
    p->kind = kind;
    return p;
}

static void close_paper(void *state)
{
    paper *p = state;
    preparation_free(&p->noted);
    free(p);
}

/* A kind that tries nothing out needs no notes. */
static void submit(void *state, const submission *s)
{
    paper *p = state;
    size_t bytes = p->kind->scratch_of ? p->kind->scratch_of(&p->tuning, s->op) : 0;
    if (bytes > p->noted.scratch[s->queue]) p->noted.scratch[s->queue] = bytes;
    if (p->kind->tune) preparation_note(&p->noted, s->op);
}

static preparation prepared(void *state)
{
    paper *p = state;
    preparation noted = p->noted;
    p->noted = (preparation){ .notes = 0 };
    return noted;
}

static void sync(void *state, int queue, uint64_t serial) { (void)state, (void)queue, (void)serial; }

static void move(void *state, void *to, const void *from, size_t bytes)
{
    (void)state, (void)to, (void)from, (void)bytes;
}

const backend *paper_backend(void)
{
    static const backend table = {
        .addressable = true,
        .open = open_paper,
        .close = close_paper,
        .submit = submit,
        .sync = sync,
        .upload = move,
        .download = move,
        .prepared = prepared,
    };
    return &table;
}
