/* Sums over ranks, made again in double. */
#include "base/fail.h"
#include "machine/delivery_state.h"
#include "machine/machine_state.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t copy_bytes(const op *o)
{
    return (tensor_span(&o->operand[0].tensor) + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}

size_t delivery_sum_bytes(const op *o)
{
    return o->kind == OP_REDUCE_SCATTER || o->kind == OP_ALL_REDUCE ? 2 * copy_bytes(o) : 0;
}

static tensor copy_of(delivery *d, queue *q, const op *o)
{
    tensor x = tensor_flat(o->operand[0].tensor), to = x;
    size_t bytes = copy_bytes(o);
    if (bytes > d->copies_bytes - d->copies_used) FAIL("more sums over ranks in a step than were counted on paper");
    to.data = d->copies + d->copies_used;
    d->copies_used += bytes;
    op copy = { .kind = OP_COPY, .operands = 2, .origin = o->origin };
    copy.operand[0] = (operand){ to, WRITE };
    copy.operand[1] = (operand){ x, READ };
    submit_run(q, &copy);
    return to;
}

void delivery_keep_parts(delivery *d, queue *q, const op *o)
{
    if (d->sums == d->sums_capacity) {
        d->sums_capacity = 2 * d->sums_capacity + 64;
        d->sum = realloc(d->sum, (size_t)d->sums_capacity * sizeof *d->sum);
        if (!d->sum) FAIL("no memory for %d sums over ranks", d->sums_capacity);
    }
    d->sum[d->sums++] = (kept_sum){ .op = *o, .parts = copy_of(d, q, o) };
}

void delivery_keep_result(delivery *d, queue *q)
{
    kept_sum *s = &d->sum[d->sums - 1];
    s->result = copy_of(d, q, &s->op);
}

/* Group by group in one order on all ranks, and of a group in the order of submission: a rank has one group of each
 * axis and channel, so nobody waits in a circle. */
static int by_group(const void *a, const void *b)
{
    const fabric_args *x = &((const kept_sum *)a)->op.args.fabric, *y = &((const kept_sum *)b)->op.args.fabric;
    int order = strcmp(x->group->axis, y->group->axis);
    if (!order) order = (x->group->channel > y->group->channel) - (x->group->channel < y->group->channel);
    return order ? order : (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static int open_part(const group *g)
{
    int *rank = malloc((size_t)g->size * sizeof *rank);
    if (!rank) FAIL("no memory for %d ranks of a group", g->size);
    for (int i = 0; i < g->size; i++) rank[i] = group_world_rank(g, i);
    int part = world_part_open(rank, g->size);
    free(rank);
    return part;
}

/* Two numbers of each element: of an integer of 64 bits its halves, of I32, of which the largest is taken, itself, of
 * others the value and its magnitude. */
static void split(const tensor *x, int64_t i, double pair[2])
{
    uint64_t word = x->type == U64 ? ((const uint64_t *)x->data)[i] : 0;
    double value = tensor_value(x, i);
    pair[0] = x->type == U64 ? (double)(word & 0xFFFFFFFFu) : value;
    pair[1] = x->type == U64 ? (double)(word >> 32) : fabs(value);
}

/* Is element i of the result what the parts add up to? */
static bool agrees(const tensor *x, int64_t i, const double pair[2], const op_home *home, int ranks)
{
    double value = tensor_value(x, i);
    if (x->type == U64) return ((const uint64_t *)x->data)[i] == (uint64_t)pair[0] + ((uint64_t)pair[1] << 32);
    if (x->type == I32 || !isfinite(pair[0]) || !isfinite(value))
        return value == pair[0] || (isnan(value) && isnan(pair[0]));
    return fabs(value - pair[0]) <= limit_of_rank_sum(home, x->type, ranks, value, pair[1]);
}

static void note_difference(delivery_report *r, const kept_sum *s, int64_t i, double value, double want)
{
    char what[OP_TEXT];
    if (r->differing++) return;
    snprintf(r->sentence, sizeof r->sentence,
             "%s over %s: element %lld is %.9g, the parts of its %d ranks add up to %.9g",
             op_describe(&s->op, what, sizeof what), s->op.args.fabric.group->axis, (long long)i, value,
             s->op.args.fabric.group->size, want);
}

/* Of a scattered sum this rank's part alone counts. */
static void judge_sum(machine *m, const kept_sum *s, int part)
{
    const group *g = s->op.args.fabric.group;
    int64_t n = tensor_elements(&s->parts), first = 0, end = n;
    double *pairs = malloc((size_t)(2 * n + 1) * sizeof *pairs);
    if (!pairs) FAIL("no memory to add %lld numbers", (long long)n);
    tensor x = machine_view(m, s->parts);
    for (int64_t i = 0; i < n; i++) split(&x, i, pairs + 2 * i);
    machine_view_end(m, &x);
    world_part_reduce(part, pairs, 2 * n, s->parts.type == I32);
    if (s->op.kind == OP_REDUCE_SCATTER) first = n / g->size * g->rank, end = first + n / g->size;
    op_home home = { .cuda = m->options.kind == MACHINE_CUDA };
    tensor y = machine_view(m, s->result);
    while (first < end && agrees(&y, first, pairs + 2 * first, &home, g->size)) first++;
    if (first < end) note_difference(&m->delivery->report, s, first, tensor_value(&y, first), pairs[2 * first]);
    machine_view_end(m, &y);
    free(pairs);
}

void delivery_judge_sums(machine *m)
{
    delivery *d = m->delivery;
    qsort(d->sum, (size_t)d->sums, sizeof *d->sum, by_group);
    for (int i = 0, part = 0; i < d->sums; i++) {
        const group *g = d->sum[i].op.args.fabric.group;
        if (i == 0 || g != d->sum[i - 1].op.args.fabric.group) part = open_part(g);
        judge_sum(m, &d->sum[i], part);
        if (i + 1 == d->sums || g != d->sum[i + 1].op.args.fabric.group) world_part_close(part);
    }
    d->sums = 0;
    d->copies_used = 0;
}
