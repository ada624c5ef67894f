/* Builder of the table: rows from the list of parameters, buckets from rows with the same storage. */
#include "base/fail.h"
#include "base/memory.h"
#include "model/fp8.h"
#include "plan/model/chunks.h"
#include <stdio.h>
#include <string.h>

enum { BUCKET_PARTS = 8, SHARD_ALIGNMENT = 32 };
static const int64_t bucket_limit = (int64_t)128 << 20; /* elements, as in the recipes */

typedef struct {
    param_table *t;
    const bench_case *c;
    mesh *m;
    param_list list;
    int logical; /* rows of the whole model so far, on one rank */
} builder;

/* Adjacent rules with the same places and storage, which are repeated together. */
typedef struct {
    const param_rule *rule;
    int count;
} section;

static bool same_storage(const param_rule *a, const param_rule *b)
{
    return (a->split == SPLIT_NONE) == (b->split == SPLIT_NONE) && (a->columns > 1) == (b->columns > 1) &&
           (a->experts > 0) == (b->experts > 0) && a->decays == b->decays &&
           memcmp(&a->kept, &b->kept, sizeof a->kept) == 0;
}

static section section_at(const param_list *l, int first)
{
    section s = { &l->rule[first], 1 };
    while (first + s.count < l->count && s.rule[s.count].places == s.rule->places &&
           same_storage(s.rule, &s.rule[s.count]))
        s.count++;
    return s;
}

static bucket *last_bucket(const param_table *t) { return t->bucket_count ? &t->buckets[t->bucket_count - 1] : NULL; }

static const param_rule *bucket_rule(const param_table *t, const bucket *b) { return &t->row[b->first_param].rule; }

/* Gradients of experts are summed over the ranks that hold the same experts. */
static group *gradient_ranks(const builder *b, const param_rule *p)
{
    return p->experts && b->m->layout.expert > 1 ? &b->m->expert_gradient : &b->m->gradient;
}

static void open_bucket(builder *b, const param_rule *p, int unit)
{
    param_table *t = b->t;
    group *shard = &b->m->axis[AXIS_SHARD], *sum = gradient_ranks(b, p);
    bool shards_optimizer = b->c->sharding == SHARDING_OPTIMIZER;
    t->buckets[t->bucket_count++] = (bucket){ .first_param = t->rows,
                                              .decays = p->decays,
                                              .holders = p->split == SPLIT_NONE ? &b->m->axis[AXIS_TENSOR] : NULL,
                                              .parts = shard->size > 1 ? shard : NULL,
                                              .sum = sum,
                                              .owners = shards_optimizer ? sum : NULL,
                                              .gathered_for_use = param_is_gathered(p),
                                              .unit = unit };
}

static int *row_number_of(const param_table *t, param_name name, int64_t layer)
{
    return &t->row_number[(layer + 1) * PARAM_NAMES + name];
}

int param_row(const param_table *t, param_name name, int64_t layer) { return *row_number_of(t, name, layer) - 1; }

static void name_row(param *p, int64_t layer, int64_t expert)
{
    char of_layer[24] = "", of_expert[24] = "";
    if (layer != NO_LAYER) snprintf(of_layer, sizeof of_layer, "layers.%d.", (int)layer);
    if (expert != NO_EXPERT) snprintf(of_expert, sizeof of_expert, "experts.%d.", (int)expert);
    snprintf(p->name, sizeof p->name, "%s%s%s", of_layer, of_expert, p->rule.label);
}

static int product_of(param_name name)
{
    static const int product[PARAM_NAMES] = {
        [PARAM_ATTENTION_OUTPUT] = 1, [PARAM_GATE] = 2, [PARAM_UP] = 2, [PARAM_DOWN] = 3
    };
    return product[name];
}

static void add_row(builder *b, const param_rule *rule, int64_t layer, int64_t expert, int logical)
{
    param_table *t = b->t;
    bucket *to = last_bucket(t);
    bool keeps_fp8 = rule->kept.weight == KEPT_FP8_TWICE;
    param *p = &t->row[t->rows++];
    *p = (param){ .rule = *rule,
                  .part = param_part_of(rule, b->m->layout.degree[AXIS_TENSOR], b->m->at[AXIS_TENSOR]),
                  .logical = logical,
                  .bucket = t->bucket_count - 1,
                  .offset = to->elements,
                  .expert = (int)expert,
                  .fp8_tensor = keeps_fp8 ? fp8_number(layer, product_of(rule->name), FP8_WEIGHT) : NO_FP8 };
    name_row(p, layer, expert);
    to->elements += p->part.rows * p->part.columns;
    to->params++;
    int *number = row_number_of(t, rule->name, layer);
    if (*number == 0) *number = t->rows;
}

/* Counts the rules from `first` that are multiplied as one, because they are split alike. */
static int fused_count(section s, int first)
{
    int count = 1;
    while (first + count < s.count && s.rule[first + count].split == s.rule[first].split) count++;
    return count;
}

/* Adds the matrices of all own experts, expert by expert; those multiplied as one are adjacent. */
static void add_experts(builder *b, section s, int64_t layer, int logical)
{
    int64_t experts = s.rule->experts, local = experts / b->m->layout.expert, first = b->m->expert.rank * local;
    for (int i = 0, count; i < s.count; i += count) {
        count = fused_count(s, i);
        for (int64_t e = first; e < first + local; e++)
            for (int k = 0; k < count; k++)
                add_row(b, &s.rule[i + k], layer, e, logical + (int)(i * experts + e * count) + k);
    }
}

static int rows_per_layer(const param_rule *p) { return p->experts ? (int)p->experts : 1; }

static void add_section(builder *b, section s, int64_t layer)
{
    int first = b->logical + (layer == NO_LAYER ? 0 : (int)layer * s.count * rows_per_layer(s.rule));
    if (s.rule->experts) add_experts(b, s, layer, first);
    for (int i = 0; !s.rule->experts && i < s.count; i++) add_row(b, &s.rule[i], layer, NO_EXPERT, first + i);
}

/* Puts matrices of a few layers of a chunk into a bucket, of one layer if they are gathered for use. Vectors are small:
 * all with the same storage share a bucket. */
static void add_chunk(builder *b, section s, chunk_extent e, int64_t stage_layers)
{
    bool vectors = s.rule->columns == 1, opens = !vectors;
    int64_t limit = bucket_limit;
    for (int64_t l = e.first_layer; l < e.first_layer + e.layers; l++) {
        if (opens) open_bucket(b, s.rule, (int)l);
        add_section(b, s, l);
        int64_t n = last_bucket(b->t)->elements;
        if (l == e.first_layer && n * stage_layers / BUCKET_PARTS < limit) limit = n * stage_layers / BUCKET_PARTS;
        opens = !vectors && (n >= limit || param_is_gathered(s.rule));
    }
}

static void add_places(builder *b, section s)
{
    const bucket *last = last_bucket(b->t);
    bool layers = s.rule->places & AT_LAYER, vectors = s.rule->columns == 1;
    bool shares = vectors && last && same_storage(bucket_rule(b->t, last), s.rule);
    int stage = b->m->at[AXIS_PIPELINE];
    if (!shares && (vectors || !layers)) open_bucket(b, s.rule, (int)b->c->model.layers + (int)s.rule->name);
    if (!layers) add_section(b, s, NO_LAYER);
    for (int i = 0; layers && i < b->c->layout.chunks_per_stage; i++)
        add_chunk(b, s, chunk_of(b->c, stage, i), stage_layers(b->c, stage));
}

static void add_rows(builder *b)
{
    section s;
    for (int i = 0; i < b->list.count; i += s.count) {
        s = section_at(&b->list, i);
        if (s.rule->places & b->t->places) add_places(b, s);
        b->logical += s.count * rows_per_layer(s.rule) * (int)param_repeats(s.rule, b->c->model.layers);
    }
}

/* Adds a row and a bucket for the head's gradient, because this stage has both ends. */
static void open_head(builder *b, param *table)
{
    param_table *t = b->t;
    param *head = &t->row[t->rows];
    *head = *table;
    head->bucket = t->bucket_count;
    head->rule.places = AT_LOSS;
    table->rule.places = AT_EMBEDDING;
    t->head = &t->buckets[t->bucket_count];
    *t->head = *t->tied_embedding;
    t->head->first_param = t->rows;
    t->head->tied = t->tied_embedding;
}

static void tie_ends(builder *b)
{
    param_table *t = b->t;
    int row = param_row(t, PARAM_EMBEDDING, NO_LAYER);
    group *stages = &b->m->axis[AXIS_PIPELINE];
    if (row < 0) return;
    t->tied_embedding = &t->buckets[t->row[row].bucket];
    if (stages->size > 1) t->tied_embedding->ends = stages;
    else open_head(b, &t->row[row]);
    if (t->places & AT_LOSS) *row_number_of(t, PARAM_HEAD, NO_LAYER) = t->head ? t->rows + 1 : row + 1;
}

dtype kept_type(kept_format format)
{
    static const dtype types[KEPT_FORMATS] = { [KEPT_FP8_TWICE] = E4M3, [KEPT_BF16] = BF16, [KEPT_FP32] = F32 };
    if (format == KEPT_NOT) FAIL("the trainer keeps no %s", kept_name(format));
    return types[format];
}

static tensor take(arena *a, arena_kind kind, kept_format format, int64_t elements)
{
    if (format == KEPT_NOT) return tensor_none();
    return tensor_taken(a, kind, tensor_1d(NULL, kept_type(format), elements));
}

static void take_memory(bucket *b, const param_kept *kept, arena *a)
{
    int shards = b->owners ? b->owners->size : 1, parts = b->parts ? b->parts->size : 1;
    int64_t unit = (int64_t)parts * shards * SHARD_ALIGNMENT;
    b->elements = (b->elements + unit - 1) / unit * unit;
    b->shard_elements = b->elements / parts / shards;
    b->shard_first = bucket_part(b).first + (b->owners ? b->owners->rank * b->shard_elements : 0);
    b->weight = take(a, WEIGHTS, kept->weight, bucket_held(b).count);
    if (kept->weight == KEPT_FP8_TWICE && !b->gathered_for_use)
        b->transposed = take(a, WEIGHTS, kept->weight, b->elements);
    b->gradient = take(a, GRADIENTS, kept->gradient, bucket_held(b).count);
    b->partial = take(a, GRADIENTS, kept->partial, b->elements);
    if (b->holders && kept->partial == KEPT_NOT) b->partial = b->gradient;
    if (b->ends) b->other_end = take(a, GRADIENTS, kept->gradient, b->shard_elements);
    b->master = take(a, OPTIMIZER, kept->master, b->shard_elements);
    b->first = take(a, OPTIMIZER, kept->moment, b->shard_elements);
    b->second = take(a, OPTIMIZER, kept->moment, b->shard_elements);
}

void param_table_open(param_table *t, const bench_case *c, mesh *m, arena *a)
{
    builder b = { .t = t, .c = c, .m = m, .list = params_of_case(c) };
    int64_t blocks = 1 + c->model.layers, rules = b.list.count, experts = c->model.experts + 1;
    *t = (param_table){ .microbatches = c->microbatches,
                        .places = stage_places(c, m->at[AXIS_PIPELINE]),
                        .norm_ranks = c->sharding == SHARDING_OPTIMIZER || c->layout.expert > 1 ? &m->all : &m->model };
    t->row = allocate(blocks * rules * experts + 1, sizeof *t->row, "the table of parameters");
    t->buckets = allocate(blocks * rules + 1, sizeof *t->buckets, "the buckets of parameters");
    t->row_number = allocate(blocks * PARAM_NAMES, sizeof *t->row_number, "the numbers of parameters");
    add_rows(&b);
    if (c->model.tied_embedding) tie_ends(&b);
    for (int i = 0; i < t->bucket_count; i++) take_memory(&t->buckets[i], &bucket_rule(t, &t->buckets[i])->kept, a);
    if (t->head) take_memory(t->head, &(param_kept){ .gradient = bucket_rule(t, t->head)->kept.gradient }, a);
}

void param_table_close(param_table *t)
{
    free(t->row);
    free(t->buckets);
    free(t->row_number);
}
