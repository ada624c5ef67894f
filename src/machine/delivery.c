/* Digests of what transfers move. */
#include "machine/delivery.h"
#include "base/fail.h"
#include "base/random.h"
#include "machine/delivery_state.h"
#include "machine/machine_state.h"
#include "machine/world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const op_kind moving[] = { OP_ALL_GATHER, OP_ALL_TO_ALL, OP_EXCHANGE };

delivery *delivery_open(machine_kind kind, delivery_mode mode, size_t sum_bytes)
{
    delivery *d = calloc(1, sizeof *d);
    size_t bytes = DELIVERY_SUMS * sizeof(uint64_t);
    if (!d) FAIL("no memory to prove transfers");
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

/* What goes to, or came from, one member of the group. */
typedef struct {
    tensor tensor;
    int peer;
    int64_t place; /* of its first element in the receiver's tensor */
    int number;    /* among those of an exchange with the same peer in the same direction */
} parcel;

static bool exchanged(const op *o, bool sent, int i, parcel *p)
{
    if (i == o->operands) return false;
    access_mode side = sent ? READ : WRITE;
    *p = (parcel){ .peer = o->args.fabric.peer[i] };
    for (int k = 0; k < i; k++) p->number += o->operand[k].access == side && o->args.fabric.peer[k] == p->peer;
    if (o->operand[i].access == side) p->tensor = tensor_flat(o->operand[i].tensor);
    return true;
}

/* Parcel i of a transfer; one without a tensor stands for none. False: there are no more. */
static bool parcel_of(const op *o, bool sent, int i, parcel *p)
{
    const group *g = o->args.fabric.group;
    if (o->kind == OP_EXCHANGE) return exchanged(o, sent, i, p);
    if (i == g->size) return false;
    const tensor *to = &o->operand[0].tensor, *from = &o->operand[1].tensor;
    int64_t n = tensor_elements(to) / g->size;
    bool gathers = o->kind == OP_ALL_GATHER, own = sent && gathers;
    tensor whole = tensor_flat(sent && tensor_present(from) ? *from : *to);
    int part = own ? (tensor_present(from) ? 0 : g->rank) : i;
    *p = (parcel){ tensor_slice(whole, 0, part * n, n), i, (sent ? g->rank : i) * n, 0 };
    return true;
}

static uint64_t parcel_key(const op *o, bool sent, const parcel *p)
{
    const group *g = o->args.fabric.group;
    uint64_t own = (uint64_t)group_world_rank(g, g->rank), other = (uint64_t)group_world_rank(g, p->peer);
    uint64_t key = mix64(fnv1a(g->axis) | (uint64_t)g->channel << 32);
    key = mix64(key ^ (uint64_t)(int64_t)g->first);
    key = mix64(key ^ o->args.fabric.sequence);
    key = mix64(key ^ (sent ? own << 32 | other : other << 32 | own));
    return mix64(key ^ (uint64_t)p->number);
}

/* Of transfers of one kind on one axis; axes that share a row are added up. */
static int row_of(delivery *d, const op *o)
{
    const char *axis = o->args.fabric.group->axis;
    int kind = 0, row;
    while (moving[kind] != o->kind) kind++;
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

/* ---- which transfers are proven ---- */

/* The first of its name, group and shape. The two ends of a link have different names. */
static bool is_first(delivery *d, const op *o)
{
    const group *g = o->args.fabric.group;
    uint64_t key = mix64(fnv1a(g->axis) | (uint64_t)g->channel << 32) ^ (uint64_t)o->kind << 48;
    if (o->kind != OP_EXCHANGE) key ^= fnv1a(o->origin.name ? o->origin.name : "");
    key = mix64(mix64(key ^ (uint64_t)(int64_t)g->first) ^ (uint64_t)(o->operands ? op_bytes(o) : 0.0));
    for (int i = 0; i < d->seen_count; i++)
        if (d->seen[i] == key) return false;
    d->seen = realloc(d->seen, (size_t)(d->seen_count + 1) * sizeof *d->seen);
    if (!d->seen) FAIL("no memory for the names of transfers");
    d->seen[d->seen_count++] = key;
    return true;
}

static bool moves(op_kind kind) { return kind == OP_ALL_GATHER || kind == OP_ALL_TO_ALL || kind == OP_EXCHANGE; }

void delivery_before(delivery *d, queue *q, const op *o)
{
    d->proves = op_is_transfer(o->kind) && (d->mode == DELIVERY_ALL || (moves(o->kind) && is_first(d, o)));
    if (!d->proves) return;
    d->report.transfers++;
    if (moves(o->kind)) digest_side(d, q, o, true);
    else delivery_keep_parts(d, q, o);
}

void delivery_after(delivery *d, queue *q, const op *o)
{
    if (!d->proves) return;
    if (moves(o->kind)) digest_side(d, q, o, false);
    else delivery_keep_result(d, q);
}

/* ---- judging ---- */

/* [arrived, sent] of each row. */
static void add_queues(machine *m, uint64_t *side)
{
    uint64_t sum[DELIVERY_SUMS];
    machine_read(m, sum, tensor_1d(m->delivery->digests, U64, DELIVERY_SUMS));
    for (int i = 0; i < DELIVERY_SUMS; i++) side[i % (2 * DELIVERY_ROWS)] += sum[i];
}

static void judge_row(delivery_report *r, const delivery *d, int row)
{
    char sentence[sizeof r->sentence] = "";
    if (d && d->axis[row])
        snprintf(sentence, sizeof sentence, "%s over %s: what arrived is not what was sent",
                 op_kind_name(moving[row / DELIVERY_AXES]), d->axis[row]);
    world_hear(sentence, sizeof sentence);
    if (!r->sentence[0]) memcpy(r->sentence, sentence, sizeof sentence);
    r->differing++;
}

delivery_report delivery_judge(machine *m)
{
    const delivery *d = m ? m->delivery : NULL;
    delivery_report r = d ? d->report : (delivery_report){ 0 };
    uint64_t side[2 * DELIVERY_ROWS] = { 0 }, counts[2] = { (uint64_t)r.transfers, (uint64_t)r.differing };
    if (d) add_queues(m, side);
    world_sum_words(side, 2 * DELIVERY_ROWS);
    world_sum_words(counts, 2);
    world_hear(r.sentence, sizeof r.sentence);
    r.transfers = (int64_t)counts[0];
    r.differing = (int64_t)counts[1];
    for (int row = 0; row < DELIVERY_ROWS; row++)
        if (side[2 * row] != side[2 * row + 1]) judge_row(&r, d, row);
    return r;
}
