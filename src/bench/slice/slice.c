/* Slices: which operations, and in which order they are timed. */
#include "bench/slice/slice.h"
#include "base/memory.h"
#include "base/say.h"
#include "bench/launch/case_machine.h"
#include "plan/model/chunks.h"
#include "train/measure.h"
#include <math.h>

enum { LOAD = 5 }; /* the device is loaded for so many times as long as an operation runs, once */
static const double USUAL_SECONDS = 2.0;

/* ---- the operations of ranks ---- */

int64_t slice_times(const sliced_rank *r, int i)
{
    int64_t times = 0;
    for (int p = 0; p < PHASES; p++) times += r->noted.note[i].times[p];
    return times;
}

/* Returns the slice's operation that is like the noted one, which may be new. */
static int find(slice *s, const op_note *n)
{
    size_t bytes;
    preparation *all = &s->noted;
    for (int i = 0; i < all->notes; i++)
        if (ops_alike(&all->note[i].op, &n->op)) return i;
    if (all->notes == all->capacity) {
        all->capacity = 2 * all->capacity + 128;
        all->note = reallocate(all->note, all->capacity, sizeof *all->note, "operations of a slice");
    }
    op_note *added = &all->note[all->notes++];
    *added = *n;
    added->op = alone_on_paper(&n->op, &bytes);
    if (bytes > s->operand_bytes) s->operand_bytes = bytes;
    return all->notes - 1;
}

/* Lays the rank out on paper and adds the computing operations of its step. */
static void add_rank(slice *s, int rank)
{
    mesh m;
    const trainer_options o = { .machine = case_machine(s->given) };
    sliced_rank *r = &s->rank[s->ranks++];
    mesh_open(&m, &s->given->layout, rank, MESH_PAPER);
    measure found = measure_case(s->given, &m, &o);
    int at = m.at[AXIS_PIPELINE];
    *r = (sliced_rank){ rank, at, stage_layers(s->given, at), tally_flops(&found.step), found.prepared, NULL };
    r->which = allocate(r->noted.notes, sizeof *r->which, "operations of a slice");
    for (int i = 0; i < r->noted.notes; i++) {
        bool computes = !op_is_transfer(r->noted.note[i].op.kind) && slice_times(r, i) > 0;
        r->which[i] = computes ? find(s, &r->noted.note[i]) : -1;
    }
    for (int i = 0; i < HAZARD_QUEUES; i++)
        if (r->noted.scratch[i] > s->noted.scratch[0]) s->noted.scratch[0] = r->noted.scratch[i];
    found.prepared = (preparation){ .notes = 0 };
    measure_free(&found);
    mesh_close(&m);
}

static slice slice_open(const bench_case *c, const options *o)
{
    int stages = o->stages ? c->layout.degree[AXIS_PIPELINE] : 1;
    slice s = { .given = c, .seconds = o->sustained > 0.0 ? o->sustained : USUAL_SECONDS };
    s.rank = allocate(stages, sizeof *s.rank, "ranks of a slice");
    for (int i = 0; i < stages; i++)
        add_rank(&s, o->rank > 0 ? (int)o->rank : i * (c->layout.ranks / c->layout.degree[AXIS_PIPELINE]));
    s.of = allocate(s.noted.notes, sizeof *s.of, "times of operations");
    s.left = case_machine(c).tuning.transfer_multiprocessors;
    return s;
}

static void slice_close(slice *s)
{
    for (int i = 0; i < s->ranks; i++) {
        preparation_free(&s->rank[i].noted);
        free(s->rank[i].which);
    }
    preparation_free(&s->noted);
    free(s->rank);
    free(s->of);
}

/* ---- their times ---- */

static void load(const slice *s, sustainer *on)
{
    int most = 0;
    for (int i = 1; i < s->noted.notes; i++)
        if (op_flops(&s->noted.note[i].op) > op_flops(&s->noted.note[most].op)) most = i;
    placed_op o = sustain_place(on, &s->noted.note[most]);
    sustain(on, &o, LOAD * s->seconds, false);
}

/* An operation next to a resident block has run before: its kernels are loaded, which would wait for that block. */
static void time_all(slice *s, bool left)
{
    sustainer on = sustainer_open(s->given, &s->noted, s->operand_bytes, left ? s->left : 0, s->seconds);
    load(s, &on);
    for (int i = 0; i < s->noted.notes; i++) {
        placed_op o = sustain_place(&on, &s->noted.note[i]);
        s->of[i][left ? WITH_LEFT : WITH_ALL] = sustain(&on, &o, s->seconds, false);
        if (!left) s->of[i][WITH_RESIDENT] = sustain(&on, &o, s->seconds, true);
    }
    sustainer_close(&on);
}

static void forget(slice *s, condition with)
{
    for (int i = 0; i < s->noted.notes; i++)
        s->of[i][with] = (sustained){ NAN, NAN, NAN, { NAN, NAN }, { NAN, NAN } };
}

static void measure_slice(slice *s)
{
    time_all(s, false);
    if (s->given->backend == BACKEND_CUDA && s->left) time_all(s, true);
    else forget(s, WITH_LEFT);
}

double slice_step_seconds(const slice *s, const sliced_rank *r, condition with)
{
    double seconds = 0.0;
    for (int i = 0; i < r->noted.notes; i++)
        if (r->which[i] >= 0) seconds += (double)slice_times(r, i) * s->of[r->which[i]][with].median;
    return seconds;
}

double slice_layer_seconds(const slice *s, const sliced_rank *r, condition with, phase p)
{
    double seconds = 0.0;
    for (int i = 0; i < r->noted.notes; i++)
        if (r->which[i] >= 0) seconds += (double)r->noted.note[i].of_layers[p] * s->of[r->which[i]][with].median;
    return seconds / (double)(r->layers * s->given->microbatches);
}

/* ---- decks ---- */

static bool refuses(const bench_case *c, const options *o, char *why, size_t length)
{
    char obstacle[512];
    machine_kind kind = case_machine(c).kind;
    if (c->skipped[0])
        snprintf(why, length, "case %d cannot be laid out: %s; give another --ranks", c->number, c->skipped);
    else if (o->rank >= c->layout.ranks)
        snprintf(why, length, "--rank %lld: case %d has ranks 0 to %d", (long long)o->rank, c->number,
                 c->layout.ranks - 1);
    else if (!machine_usable(kind, obstacle, sizeof obstacle))
        snprintf(why, length, "case %d: cuda cannot run here: %s; --on-host takes the host", c->number, obstacle);
    else if (c->precision == PRECISION_FP8 && !machine_device_of(kind).fp8)
        snprintf(why, length, "case %d: this device multiplies no FP8; --on-host takes the host", c->number);
    else return false;
    return true;
}

bool slice_deck(const deck *d, const options *o, FILE *json, char *why, size_t length)
{
    for (int64_t i = 0; i < d->cases; i++)
        if (refuses(&d->item[i], o, why, length)) return false;
    bool speaks = say_enabled();
    say_enable(speaks && json != stdout);
    for (int64_t i = 0; i < d->cases; i += d->item[i].repeats) {
        slice s = slice_open(&d->item[i], o);
        measure_slice(&s);
        slice_print(&s);
        if (json) slice_write(&s, json, o->deck);
        slice_close(&s);
    }
    say_enable(speaks);
    return true;
}
