/* Conjugate pairs. */
#include "parallel/conjugate.h"
#include "machine/submit.h"
#include <string.h>

tensor sequence_gather_end(const queues *l, gathering x)
{
    queue_wait(l->compute, x.done);
    return x.whole;
}

gathering sequence_gather_begin(const queues *l, const char *name, group *g, tensor part, tensor whole, mark after)
{
    if (g->size == 1) return (gathering){ .whole = part };
    queue_wait(l->tensor, l->overlap ? after : queue_mark(l->compute));
    gathering x = { whole, submit(l->tensor, name, all_gather_op(g, whole, part)) };
    return l->overlap ? x : (gathering){ .whole = sequence_gather_end(l, x) };
}

tensor sequence_gather(const queues *l, const char *name, group *g, tensor part, tensor whole)
{
    return sequence_gather_end(l, sequence_gather_begin(l, name, g, part, whole, queue_mark(l->compute)));
}

/* ---- rings ---- */

enum { WAYS = 2 };
/* One way round the ring: its queue, the distance to the next rank, and its half of every rank's rows. */
typedef struct {
    queue *queue;
    int step;
    int64_t part, first, rows;
} way;

static void open_ways(way w[WAYS], const queues *l, int64_t part)
{
    int64_t half = (part + 1) / 2;
    w[0] = (way){ l->tensor, 1, part, 0, half };
    w[1] = (way){ l->tensor_back, -1, part, half, part - half };
}

/* The rank that many steps further this way. */
static int rank_at(const way *w, const group *g, int steps)
{
    return ((g->rank + w->step * steps) % g->size + g->size) % g->size;
}

/* This way's rows among those of one rank, the index-th in x. */
static tensor way_rows(const way *w, tensor x, int64_t index)
{
    return tensor_slice(x, 0, index * w->part + w->first, w->rows);
}

/* The rows of one rank, the index-th in x. */
static tensor part_rows(tensor x, int64_t index, int64_t part) { return tensor_slice(x, 0, index * part, part); }

/* To the next rank, from the one before; nothing where the ranks have one row each and the other way takes it. */
static mark pass(const way *w, const char *name, group *g, tensor send, tensor receive)
{
    transfer list[] = { { true, rank_at(w, g, 1), send }, { false, rank_at(w, g, -1), receive } };
    return w->rows ? submit(w->queue, name, exchange_op(g, list, 2)) : (mark){ 0 };
}

static mark product(const queues *l, const char *name, tensor c, access_mode how, tensor a, tensor w)
{
    return c.dim[0] ? submit(l->compute, name, matmul_op(c, how, a, w)) : queue_mark(l->compute);
}

typedef struct {
    const queues *queues;
    const char *name;
    group *group;
    way way[WAYS];
    tensor own, whole, y, weight;
} gather_ring;

/* The rows that this way brings in a hop; hop 0 stands for own ones. */
static tensor brought(const gather_ring *r, const way *w, int hop)
{
    return hop ? way_rows(w, r->whole, rank_at(w, r->group, -hop)) : way_rows(w, r->own, 0);
}

/* The product of what a hop brought; of both ways' halves at once where they are of the same rank. */
static void multiply_brought(const gather_ring *r, int hop, const mark arrived[WAYS])
{
    int64_t part = r->own.dim[0], of[WAYS];
    for (int i = 0; i < WAYS; i++) of[i] = rank_at(&r->way[i], r->group, -hop);
    if (of[0] == of[1]) {
        for (int i = 0; i < WAYS; i++) queue_wait(r->queues->compute, arrived[i]);
        product(r->queues, r->name, part_rows(r->y, of[0], part), WRITE,
                hop ? part_rows(r->whole, of[0], part) : r->own, r->weight);
        return;
    }
    for (int i = 0; i < WAYS; i++) {
        queue_wait(r->queues->compute, arrived[i]);
        product(r->queues, r->name, way_rows(&r->way[i], r->y, of[i]), WRITE, brought(r, &r->way[i], hop), r->weight);
    }
}

/* While the next hop is under way, what the last one brought is multiplied. */
static void ring_gather(const queues *l, const char *name, group *g, const gathered_product *p)
{
    mark arrived[WAYS] = { { 0 } }, next[WAYS] = { { 0 } };
    gather_ring r = { .queues = l,
                      .name = name,
                      .group = g,
                      .own = tensor_rows(p->part),
                      .whole = tensor_rows(p->whole),
                      .y = tensor_rows(p->y),
                      .weight = p->w };
    open_ways(r.way, l, r.own.dim[0]);
    for (int i = 0; i < WAYS; i++) queue_follow(r.way[i].queue, l->compute);
    for (int hop = 0; hop < g->size; hop++) {
        for (int i = 0; i < WAYS && hop < g->size - 1; i++)
            next[i] = pass(&r.way[i], name, g, brought(&r, &r.way[i], hop), brought(&r, &r.way[i], hop + 1));
        multiply_brought(&r, hop, arrived);
        memcpy(arrived, next, sizeof arrived);
    }
    if (p->keeps_whole) submit(l->compute, name, copy_op(part_rows(r.whole, g->rank, r.own.dim[0]), WRITE, r.own));
}

/* Where a sum is in this step: on its way, or at home in the last one unless it is yet to be rounded. */
static tensor sum_rows(const way *w, const group *g, tensor sums, tensor out, int step)
{
    return step == g->size && out.type == F32 ? way_rows(w, out, 0) : way_rows(w, sums, step % 2);
}

/* In step i this rank adds its product to the sum that the rank before added to in step i - 1; in the last to its own.
 */
static void ring_scatter(const queues *l, const char *name, group *g, const scattered_product *p)
{
    way ways[WAYS];
    mark arrived[WAYS] = { { 0 } };
    tensor a = tensor_rows(p->a), sums = tensor_rows(p->partial), out = tensor_rows(p->out);
    open_ways(ways, l, out.dim[0]);
    for (int step = 1; step <= g->size; step++)
        for (int i = 0; i < WAYS; i++) {
            const way *w = &ways[i];
            tensor sum = sum_rows(w, g, sums, out, step);
            queue_wait(l->compute, arrived[i]);
            mark made = product(l, name, sum, step == 1 ? WRITE : UPDATE, way_rows(w, a, rank_at(w, g, -step)), p->w);
            if (step == g->size) continue;
            queue_wait(w->queue, made);
            arrived[i] = pass(w, name, g, sum, sum_rows(w, g, sums, out, step + 1));
        }
    if (out.type != F32) submit(l->compute, name, copy_op(out, WRITE, part_rows(sums, g->size % 2, out.dim[0])));
}

/* ---- a product with its gather or scatter ---- */

tensor gather_matmul(const queues *l, const char *name, group *g, gathered_product p)
{
    if (g->size > 1 && l->overlap) {
        ring_gather(l, name, g, &p);
        return p.whole;
    }
    tensor whole = sequence_gather(l, name, g, p.part, p.whole);
    submit(l->compute, name, matmul_op(tensor_rows(p.y), WRITE, tensor_rows(whole), p.w));
    return whole;
}

void matmul_scatter(const queues *l, const char *name, group *g, scattered_product p)
{
    if (g->size > 1 && l->overlap) {
        ring_scatter(l, name, g, &p);
        return;
    }
    tensor result = g->size == 1 ? p.out : p.partial;
    submit(l->compute, name, matmul_op(tensor_rows(result), WRITE, tensor_rows(p.a), p.w));
    if (g->size == 1) return;
    queues_transfer(l, l->tensor, name, reduce_scatter_op(g, p.out, result));
}

int scatter_partial_parts(const queues *l, const group *g) { return l->overlap ? 2 : g->size; }
