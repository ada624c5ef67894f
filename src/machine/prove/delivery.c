/* Digests of moved bytes, and sums over ranks that are repeated. */
#include "machine/prove/delivery.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/random.h"
#include "machine/op/limits.h"
#include "machine/queue/machine_state.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sums of digests [arrived, sent], for each queue (queues run concurrently), kind of transfer and axis. */
enum {
    DELIVERY_AXES = 16,
    DELIVERY_ROWS = 3 * DELIVERY_AXES,
    DELIVERY_SUMS = HAZARD_QUEUES * DELIVERY_ROWS * 2,
};

/* A sum over ranks: the part of this rank, and its result. */
typedef struct {
    op op;
    tensor parts, result;
} copied_sum;

struct delivery {
    machine_kind kind;
    delivery_mode mode;
    bool proven; /* the present transfer */
    uint64_t *digests;
    const char *axis[DELIVERY_ROWS];
    uint64_t *seen; /* keys of transfers: name, group and shape */
    int seen_count;
    char *copies;
    size_t copies_bytes, copies_used;
    copied_sum *sum;
    int sums, sums_capacity;
    delivery_report report;
};

static const op_kind moving_kind[] = { OP_ALL_GATHER, OP_ALL_TO_ALL, OP_EXCHANGE };

delivery *delivery_open(machine_kind kind, delivery_mode mode, size_t sum_bytes)
{
    delivery *d = allocate(1, sizeof *d, "proving transfers");
    size_t bytes = DELIVERY_SUMS * sizeof(uint64_t);
    d->kind = kind;
    d->mode = mode;
    d->digests = machine_memory_take(kind, bytes);
    machine_memory_clear(kind, d->digests, 0, bytes);
    d->copies_bytes = sum_bytes;
    if (sum_bytes) d->copies = machine_memory_take(kind, sum_bytes);
    return d;
}

void delivery_close(delivery *d)
{
    machine_memory_give_back(d->kind, d->digests);
    if (d->copies) machine_memory_give_back(d->kind, d->copies);
    free(d->seen);
    free(d->sum);
    free(d);
}

/* ---- digests of both sides ---- */

/* The data that goes to, or came from, one member of the group. */
typedef struct {
    tensor tensor;
    int peer;
    int64_t place; /* index of its first element in the receiver's tensor */
    int number;    /* among the parcels of an exchange with this peer in this direction */
} parcel;

static bool exchange_parcel(const op *o, bool sent, int i, parcel *p)
{
    if (i == o->operands) return false;
    access_mode side = sent ? READ : WRITE;
    *p = (parcel){ .peer = o->args.fabric.peer[i] };
    for (int k = 0; k < i; k++) p->number += o->operand[k].access == side && o->args.fabric.peer[k] == p->peer;
    if (o->operand[i].access == side) p->tensor = tensor_flat(o->operand[i].tensor);
    return true;
}

/* Writes parcel i of a transfer, without a tensor if there is nothing to digest. Returns false if there are no more. */
static bool parcel_of(const op *o, bool sent, int i, parcel *p)
{
    const group *g = o->args.fabric.group;
    if (o->kind == OP_EXCHANGE) return exchange_parcel(o, sent, i, p);
    if (i == g->size) return false;
    const tensor *to = &o->operand[0].tensor, *from = &o->operand[1].tensor;
    int64_t n = tensor_elements(to) / g->size;
    bool gathers = o->kind == OP_ALL_GATHER, own = sent && gathers;
    tensor whole = tensor_flat(sent && tensor_present(from) ? *from : *to);
    int part = own ? (tensor_present(from) ? 0 : g->rank) : i;
    *p = (parcel){ tensor_slice(whole, 0, part * n, n), i, (sent ? g->rank : i) * n, 0 };
    return true;
}

/* Returns a number that is equal on all ranks of the group. */
static uint64_t group_key(const group *g)
{
    return mix64(mix64(fnv1a(g->axis) | (uint64_t)g->channel << 32) ^ (uint64_t)(int64_t)g->first);
}

static uint64_t parcel_key(const op *o, bool sent, const parcel *p)
{
    const group *g = o->args.fabric.group;
    uint64_t own = (uint64_t)group_world_rank(g, g->rank), other = (uint64_t)group_world_rank(g, p->peer);
    uint64_t key = mix64(group_key(g) ^ o->args.fabric.sequence);
    key = mix64(key ^ (sent ? own << 32 | other : other << 32 | own));
    return mix64(key ^ (uint64_t)p->number);
}

/* Returns the row of a kind of transfer on an axis. Axes can share a row, which then sums the digests of both. */
static int row_of(delivery *d, const op *o)
{
    const char *axis = o->args.fabric.group->axis;
    int kind = 0, row;
    while (moving_kind[kind] != o->kind) kind++;
    row = kind * DELIVERY_AXES + (int)(fnv1a(axis) % DELIVERY_AXES);
    d->axis[row] = axis;
    return row;
}

static void digest_side(delivery *d, queue *q, const op *o, bool sent)
{
    parcel p;
    int at = (q->index * DELIVERY_ROWS + row_of(d, o)) * 2 + sent;
    op digest = { .kind = OP_DIGEST, .operands = 2, .origin = o->origin };
    digest.operand[1] = (operand){ tensor_1d(d->digests + at, U64, 1), UPDATE };
    for (int i = 0; parcel_of(o, sent, i, &p); i++) {
        if (tensor_elements(&p.tensor) == 0) continue;
        digest.operand[0] = (operand){ p.tensor, READ };
        digest.args.digest = (digest_args){ parcel_key(o, sent, &p), p.place };
        submit_run(q, &digest);
    }
}

/* ---- sums ---- */

static size_t copy_bytes(const op *o) { return tally_sum_bytes(o) / 2; }

static bool is_sum(op_kind kind) { return kind == OP_REDUCE_SCATTER || kind == OP_ALL_REDUCE; }

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

static void copy_parts(delivery *d, queue *q, const op *o)
{
    if (d->sums == d->sums_capacity) {
        d->sums_capacity = 2 * d->sums_capacity + 64;
        d->sum = reallocate(d->sum, d->sums_capacity, sizeof *d->sum, "sums over ranks");
    }
    d->sum[d->sums++] = (copied_sum){ .op = *o, .parts = copy_of(d, q, o) };
}

static void copy_result(delivery *d, queue *q)
{
    copied_sum *s = &d->sum[d->sums - 1];
    s->result = copy_of(d, q, &s->op);
}

/* ---- which transfers are proven ---- */

/* Returns whether it is the first of its name, group and shape. Ignores names of exchanges: the two ends differ. */
static bool is_first(delivery *d, const op *o)
{
    uint64_t key = group_key(o->args.fabric.group) ^ (uint64_t)o->kind << 48;
    if (o->kind != OP_EXCHANGE) key ^= fnv1a(o->origin.name ? o->origin.name : "");
    key = mix64(mix64(key) ^ (uint64_t)(o->operands ? op_bytes(o) : 0.0));
    for (int i = 0; i < d->seen_count; i++)
        if (d->seen[i] == key) return false;
    d->seen = reallocate(d->seen, d->seen_count + 1, sizeof *d->seen, "the names of transfers");
    d->seen[d->seen_count++] = key;
    return true;
}

void delivery_before(delivery *d, queue *q, const op *o)
{
    d->proven = op_is_transfer(o->kind) && (d->mode == DELIVERY_ALL || (!is_sum(o->kind) && is_first(d, o)));
    if (!d->proven) return;
    d->report.transfers++;
    if (is_sum(o->kind)) copy_parts(d, q, o);
    else digest_side(d, q, o, true);
}

void delivery_after(delivery *d, queue *q, const op *o)
{
    if (!d->proven) return;
    if (is_sum(o->kind)) copy_result(d, q);
    else digest_side(d, q, o, false);
}

/* ---- judging ---- */

/* Orders sums by group, then by submission, the same on all ranks. A rank has one group of each axis and channel. */
static int by_group(const void *a, const void *b)
{
    const fabric_args *x = &((const copied_sum *)a)->op.args.fabric, *y = &((const copied_sum *)b)->op.args.fabric;
    int order = strcmp(x->group->axis, y->group->axis);
    if (!order) order = (x->group->channel > y->group->channel) - (x->group->channel < y->group->channel);
    return order ? order : (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* Splits an element into two numbers: U64 into its halves, others into the value and its magnitude. */
static void to_pair(const tensor *x, int64_t i, double pair[2])
{
    uint64_t word = x->type == U64 ? ((const uint64_t *)x->data)[i] : 0;
    double value = tensor_value(x, i);
    pair[0] = x->type == U64 ? (double)(word & 0xFFFFFFFFu) : value;
    pair[1] = x->type == U64 ? (double)(word >> 32) : fabs(value);
}

/* Returns whether element i of the result agrees with the sum of the parts. */
static bool agrees(const tensor *x, int64_t i, const double pair[2], const op_home *home, int ranks)
{
    double value = tensor_value(x, i);
    if (x->type == U64) return ((const uint64_t *)x->data)[i] == (uint64_t)pair[0] + ((uint64_t)pair[1] << 32);
    if (x->type == I32 || !isfinite(pair[0]) || !isfinite(value))
        return value == pair[0] || (isnan(value) && isnan(pair[0]));
    return fabs(value - pair[0]) <= limit_of_rank_sum(home, x->type, ranks, value, pair[1]);
}

static void note_difference(delivery_report *r, const copied_sum *s, int64_t i, double value, double want)
{
    char what[OP_TEXT];
    if (r->differing++) return;
    snprintf(r->sentence, sizeof r->sentence,
             "%s over %s: element %lld is %.9g, the parts of its %d ranks add up to %.9g",
             op_describe(&s->op, what, sizeof what), s->op.args.fabric.group->axis, (long long)i, value,
             s->op.args.fabric.group->size, want);
}

/* Compares the result with the sum of all ranks' parts; of a reduce-scatter, only this rank's part. */
static void judge_sum(delivery *d, machine *m, const copied_sum *s)
{
    const group *g = s->op.args.fabric.group;
    int64_t n = tensor_elements(&s->parts), first = 0, end = n;
    double *pairs = allocate(2 * n, sizeof *pairs, "adding numbers");
    tensor x = machine_view(m, s->parts);
    for (int64_t i = 0; i < n; i++) to_pair(&x, i, pairs + 2 * i);
    machine_view_end(m, &x);
    world_reduce_group(g, pairs, 2 * n, s->parts.type == I32);
    if (s->op.kind == OP_REDUCE_SCATTER) first = n / g->size * g->rank, end = first + n / g->size;
    op_home home = { .cuda = d->kind == MACHINE_CUDA };
    tensor y = machine_view(m, s->result);
    while (first < end && agrees(&y, first, pairs + 2 * first, &home, g->size)) first++;
    if (first < end) note_difference(&d->report, s, first, tensor_value(&y, first), pairs[2 * first]);
    machine_view_end(m, &y);
    free(pairs);
}

void delivery_judge_sums(delivery *d, machine *m)
{
    if (d->sums) qsort(d->sum, (size_t)d->sums, sizeof *d->sum, by_group);
    for (int i = 0; i < d->sums; i++) judge_sum(d, m, &d->sum[i]);
    d->sums = 0;
    d->copies_used = 0;
}

/* Adds up the digests of all queues in `side`: [arrived, sent] of each row. */
static void add_queues(const delivery *d, machine *m, uint64_t *side)
{
    uint64_t sum[DELIVERY_SUMS];
    machine_read(m, sum, tensor_1d(d->digests, U64, DELIVERY_SUMS));
    for (int i = 0; i < DELIVERY_SUMS; i++) side[i % (2 * DELIVERY_ROWS)] += sum[i];
}

static void judge_row(delivery_report *r, const delivery *d, int row)
{
    char sentence[sizeof r->sentence] = "";
    if (d && d->axis[row])
        snprintf(sentence, sizeof sentence, "%s over %s: what arrived is not what was sent",
                 op_kind_name(moving_kind[row / DELIVERY_AXES]), d->axis[row]);
    int rank = world_share_sentence(sentence, sizeof sentence);
    if (!r->sentence[0]) memcpy(r->sentence, sentence, sizeof sentence), r->rank = rank;
    r->differing++;
}

delivery_report delivery_judge(const delivery *d, machine *m)
{
    delivery_report r = d ? d->report : (delivery_report){ 0 };
    uint64_t side[2 * DELIVERY_ROWS + 2] = { 0 }, *counts = side + 2 * DELIVERY_ROWS;
    if (d) add_queues(d, m, side);
    counts[0] = (uint64_t)r.transfers, counts[1] = (uint64_t)r.differing;
    world_sum_words(side, 2 * DELIVERY_ROWS + 2);
    r.rank = world_share_sentence(r.sentence, sizeof r.sentence);
    r.transfers = (int64_t)counts[0], r.differing = (int64_t)counts[1];
    for (int row = 0; row < DELIVERY_ROWS; row++)
        if (side[2 * row] != side[2 * row + 1]) judge_row(&r, d, row);
    return r;
}
