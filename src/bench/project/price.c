/* Prices of operations. */
#include "bench/project/price.h"
#include "base/memory.h"
#include "bench/project/listed.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static double expected(const pricing *p, sheet_term t) { return p->sheet->term[t].value[EXPECTED]; }
static double multiprocessors(const pricing *p) { return expected(p, TERM_MULTIPROCESSORS); }
int sheet_domain(const machine_sheet *s) { return s->host ? HOST_DOMAIN : s->device->domain; }

/* ---- computing ---- */

/* `times` products of one shape: c[m, n] = a[m, k] b[k, n]. */
typedef struct {
    double m, n, k, times;
} product_shape;

static product_shape shape_of(const op *o)
{
    const tensor *c = &o->operand[0].tensor, *a = &o->operand[1].tensor;
    int last = (int)c->dims - 1;
    return (product_shape){ (double)c->dim[last - 1], (double)c->dim[last], (double)a->dim[a->dims - 1],
                            last > 1 ? (double)c->dim[0] : 1.0 };
}

/* Returns the seconds of a product on `sms` multiprocessors at the device's peak, with the fastest tile size. Fills the
 * number of blocks. */
static double seconds_of_waves(product_shape x, double sms, double peak_of_one, double *blocks)
{
    static const double tile[][2] = { { 128, 256 }, { 256, 128 }, { 128, 128 }, { 64, 128 } };
    double best = INFINITY;
    for (size_t i = 0; i < sizeof tile / sizeof *tile; i++) {
        double tiles = x.times * ceil(x.m / tile[i][0]) * ceil(x.n / tile[i][1]);
        double seconds = ceil(tiles / sms) * 2.0 * tile[i][0] * tile[i][1] * x.k / peak_of_one;
        if (seconds >= best) continue;
        best = seconds, *blocks = tiles;
    }
    return best;
}

/* blocks: a product with fewer blocks than multiprocessors leaves the others free. */
static price product_price(const pricing *p, const op *o)
{
    const product_shape shape = shape_of(o);
    dtype type = o->operand[1].tensor.type;
    bool fp8 = dtype_bytes(type) == 1, fp32 = type == F32;
    sheet_term rate = fp32 ? TERM_PRODUCT_FP32 : fp8 ? TERM_PRODUCT_FP8 : TERM_PRODUCT_BF16;
    const device_row *device = p->sheet->device;
    double sms = expected(p, TERM_MULTIPROCESSORS), free_sms = fmax(sms - (double)p->shares->left_free, 1.0),
           blocks = free_sms;
    double peak = fp32 ? expected(p, rate) : fp8 ? device->fp8 : device->bf16;
    double at_rate = op_flops(o) / expected(p, rate), in_waves = seconds_of_waves(shape, free_sms, peak / sms, &blocks);
    in_waves *= expected(p, TERM_PRODUCT_SHAPE);
    price x = { .seconds = fmax(at_rate, in_waves), .in_waves = true, .blocks = (int)fmin(blocks, free_sms) };
    x.term = (int)(at_rate >= in_waves ? rate : TERM_PRODUCT_SHAPE);
    if (!fp8 || o->origin.phase != PHASE_BACKWARD) return x;
    x.seconds *= expected(p, TERM_FP8_SPLIT);
    x.factor = TERM_FP8_SPLIT;
    return x;
}

/* A context rank computes attention in pieces, which are as slow as short sequences. */
static price attention_price(const pricing *p, const op *o)
{
    enum { SHORT = 4096 };
    const tensor *q = &o->operand[0].tensor, *k = &o->operand[1].tensor;
    sheet_term rate = o->kind == OP_ATTENTION_FORWARD ? TERM_ATTENTION_FORWARD : TERM_ATTENTION_BACKWARD;
    double seconds = op_flops(o) / expected(p, rate);
    if (k->dim[0] > SHORT && q->dim[0] == k->dim[0]) return (price){ .seconds = seconds, .term = rate };
    return (
        price){ .seconds = seconds / expected(p, TERM_ATTENTION_SHORT), .term = rate, .factor = TERM_ATTENTION_SHORT };
}

static price memory_price(const pricing *p, const op *o)
{
    return (price){ .seconds = operation_bytes(o) / expected(p, TERM_MEMORY),
                    .term = TERM_MEMORY,
                    .uses[USES_MEMORY] = 1.0 };
}

static price computing_price(const pricing *p, const op *o)
{
    bool product = o->kind == OP_MATMUL || o->kind == OP_GROUPED_MATMUL;
    bool attention = o->kind == OP_ATTENTION_FORWARD || o->kind == OP_ATTENTION_BACKWARD;
    price moving = memory_price(p, o), x = product ? product_price(p, o) : attention ? attention_price(p, o) : moving;
    if (product && moving.seconds > x.seconds) x.seconds = moving.seconds, x.term = TERM_MEMORY;
    x.fixed = expected(p, TERM_GAP), x.fixed_term = TERM_GAP;
    return x;
}

/* ---- transfers ---- */

/* Position of a group in NVLink domains, which begin at multiples of their size. */
typedef struct {
    int within;         /* members in the domain of the first rank */
    bool spans_domains; /* this group, or another group of its axis, has members in several domains */
} group_place;

static group_place place_of(const group *g, int domain)
{
    group_place place = { .within = 0 };
    int extent = 1;
    for (int i = 0; i < g->size; i++) place.within += group_world_rank(g, i) / domain == g->first / domain;
    for (int i = 0; i < g->dims; i++)
        if (g->dim[i].count * g->dim[i].stride > extent) extent = g->dim[i].count * g->dim[i].stride;
    place.spans_domains = extent > domain || domain % extent != 0;
    return place;
}

int group_within(const group *g, int domain) { return place_of(g, domain).within; }

double transfer_bytes(const op *o) { return (double)tensor_span(&o->operand[0].tensor); }

/* Returns the bytes that a rank sends in a ring. */
static double bytes_sent(const op *o, const group *g)
{
    double share = (double)(g->size - 1) / g->size;
    if (o->kind == OP_EXCHANGE) return transfer_bytes(o);
    return (o->kind == OP_ALL_REDUCE ? 2.0 : 1.0) * share * transfer_bytes(o);
}

static int blocks_of(const pricing *p, const op *o, const group *g)
{
    enum { BYTES_OF_A_BLOCK = 32 << 10 }; /* NCCL 2.28 uses one more block for each 32 KiB */
    bool link = o->kind == OP_EXCHANGE;
    int most = link ? p->shares->link_blocks : g->apart ? p->shares->separate_blocks : p->shares->shared_blocks;
    double needed = transfer_bytes(o) / BYTES_OF_A_BLOCK;
    return link || needed >= most ? most : needed < 1.0 ? 1 : (int)needed;
}

static price copy_engine_price(const pricing *p, double sent)
{
    return (price){
        .seconds = sent / expected(p, TERM_NVLINK),
        .term = TERM_NVLINK,
        .fixed = expected(p, TERM_COPY_LATENCY),
        .fixed_term = TERM_COPY_LATENCY,
        .uses = { [USES_MEMORY] = 2.0 * expected(p, TERM_NVLINK) / expected(p, TERM_MEMORY), [USES_NVLINK] = 1.0 }
    };
}

/* A ring between domains uses the network cards of all its ranks in a domain. In an all-to-all each rank's own card
 * carries what the rank sends to other domains. */
static price nccl_price(const pricing *p, const op *o, const group *g, group_place place)
{
    int blocks = blocks_of(p, o, g), cards = o->kind == OP_ALL_TO_ALL || o->kind == OP_EXCHANGE ? 1 : place.within;
    double sent = bytes_sent(o, g), nvlink = expected(p, TERM_NVLINK), network = cards * expected(p, TERM_NETWORK);
    double by_blocks = sent / (blocks * expected(p, TERM_THREAD_BLOCK)), by_link = sent / nvlink, by_network = 0.0;
    if (place.spans_domains)
        by_network =
            (o->kind == OP_ALL_TO_ALL ? transfer_bytes(o) * (g->size - place.within) / g->size : sent) / network;
    double seconds = fmax(by_blocks, fmax(by_link, by_network));
    price x = { .seconds = seconds, .fixed_term = TERM_KERNEL_LATENCY, .blocks = blocks };
    x.fixed = expected(p, TERM_KERNEL_LATENCY) * (place.spans_domains ? 2.0 : 1.0);
    x.term = seconds == by_network ? TERM_NETWORK : seconds == by_link ? TERM_NVLINK : TERM_THREAD_BLOCK;
    x.uses[USES_NVLINK] = seconds > 0.0 ? by_link / seconds : 0.0;
    x.uses[USES_NETWORK] = seconds > 0.0 ? by_network / seconds : 0.0;
    return x;
}

static price transfer_price(const pricing *p, const op *o, const group *g)
{
    group_place place = place_of(g, sheet_domain(p->sheet));
    bool copy_engines = o->kind == OP_ALL_GATHER || o->kind == OP_ALL_TO_ALL;
    return copy_engines && !place.spans_domains ? copy_engine_price(p, bytes_sent(o, g)) : nccl_price(p, o, g, place);
}

/* ---- listed times ---- */

static void note_missing(pricing *p, op_kind kind)
{
    size_t used = strlen(p->missing);
    if (strstr(p->missing, op_kind_name(kind))) return;
    snprintf(p->missing + used, MISSING_TEXT - used, "%s%s", used ? ", " : "", op_kind_name(kind));
}

/* Replaces the price by a listed time, of this shape or of the nearest. Listed products ran on all multiprocessors, so
 * here they are slower in proportion if some are left to transfers. */
static void use_listed(pricing *p, const op *o, const group *g, price *x)
{
    const machine_sheet *s = p->sheet;
    bool same = true;
    double seconds = g ? listed_transfer(s, o->kind, g->size, group_within(g, sheet_domain(s)), transfer_bytes(o))
                       : listed_operation(s, o, &same);
    sheet_term term = g ? TERM_TRANSFERS : same ? TERM_OPERATIONS : TERM_NEAREST;
    x->estimated = !g && (!same || isnan(seconds));
    if (isnan(seconds) && s->host) note_missing(p, o->kind);
    if (isnan(seconds)) return;
    x->seconds = seconds * expected(p, term);
    x->term = (int)term, x->factor = 0;
    if (!g && !s->host) x->seconds = fmax(x->seconds, x->fixed);
    if (g || !s->host) x->fixed = 0.0; /* times measured on a GPU include the gap */
    if (x->in_waves && p->shares->left_free && x->blocks >= multiprocessors(p) - p->shares->left_free)
        x->seconds *= multiprocessors(p) / (multiprocessors(p) - p->shares->left_free);
}

price price_of_op(pricing *p, const op *o, const group *g)
{
    price x = { .fixed_term = TERM_GAP };
    if (g && g->size == 1) return x;
    if (p->sheet->host) x.fixed = expected(p, TERM_GAP), x.on_thread = g != NULL;
    else x = g ? transfer_price(p, o, g) : computing_price(p, o);
    use_listed(p, o, g, &x);
    return x;
}

price *prices_of(pricing *p, const preparation *work)
{
    const submissions *s = work->order;
    price *list = allocate(s->items, sizeof *list, "prices of operations");
    for (int i = 0; i < s->items; i++) {
        const work_item *x = &s->item[i];
        if (x->note < 0 || note_count(&work->note[x->note]) == 0) continue; /* set-up takes no time here */
        op o = work->note[x->note].op;
        o.origin.phase = x->phase;
        list[i] = price_of_op(p, &o, x->group >= 0 ? &s->group[x->group] : NULL);
    }
    return list;
}
