/* The shadow: it chooses operations, runs them on the host and compares. */
#include "machine/prove/shadow.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/random.h"
#include "machine/op/activity.h"
#include "machine/op/limits.h"
#include "machine/queue/backend.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Operations of one name (products: of one form), kind and phase. count, last_count: in this and in the last step. */
typedef struct {
    op_kind kind;
    phase phase;
    char name[OP_TEXT];
    int64_t count, last_count;
    bool product;
} candidate;

struct shadow {
    shadow_mode mode;
    op_home home;
    char files[64];
    candidate *list;
    int candidates, capacity;
    int64_t step;
    shadow_part part;          /* part of the present operation that is compared, in memory of the machine */
    op_copy before, reference; /* inputs; results of the host */
    bool product;              /* the present operation is a product that is checked whole */
    void *product_before;
    uint32_t draws;
    shadow_report report;
};

shadow *shadow_open(op_home home, const char *files)
{
    shadow *s = allocate(1, sizeof *s, "a shadow");
    s->home = home;
    snprintf(s->files, sizeof s->files, "%s", files);
    return s;
}

void shadow_set(shadow *s, shadow_mode mode) { s->mode = mode; }

void shadow_step(shadow *s, int64_t step)
{
    s->step = step;
    for (int i = 0; i < s->candidates; i++) {
        s->list[i].last_count = s->list[i].count;
        s->list[i].count = 0;
    }
}

void shadow_close(shadow *s)
{
    free(s->list);
    free(s);
}

const shadow_report *shadow_read(const shadow *s) { return &s->report; }

static bool is_product(const op *o) { return o->kind == OP_MATMUL || o->kind == OP_GROUPED_MATMUL; }

/* A product's form: access, formats, shapes and strides of its operands. */
static void write_form(char text[OP_TEXT], const op *o)
{
    int used = snprintf(text, OP_TEXT, "%d", (int)o->operand[0].access);
    for (int i = 0; i < o->operands; i++) {
        const tensor *t = &o->operand[i].tensor;
        used += snprintf(text + used, (size_t)(OP_TEXT - used), "; %d", (int)t->type);
        for (int d = 0; d < t->dims && used < OP_TEXT; d++)
            used += snprintf(text + used, (size_t)(OP_TEXT - used), " %llx/%llx", (long long)t->dim[d],
                             (long long)t->stride[d]);
        if (used >= OP_TEXT) FAIL("the form of a product is longer than %d characters", OP_TEXT);
    }
}

static candidate *candidate_of(shadow *s, const op *o)
{
    candidate new = { .kind = o->kind, .phase = is_product(o) ? PHASE_SETUP : o->origin.phase };
    new.product = is_product(o);
    if (new.product) write_form(new.name, o);
    else snprintf(new.name, sizeof new.name, "%s", o->origin.name ? o->origin.name : "");
    for (int i = 0; i < s->candidates; i++)
        if (strcmp(s->list[i].name, new.name) == 0 && s->list[i].kind == new.kind && s->list[i].phase == new.phase)
            return &s->list[i];
    if (s->candidates == s->capacity)
        s->list = reallocate(s->list, s->capacity = 2 * s->capacity + 64, sizeof *s->list, "the names of operations");
    s->list[s->candidates] = new;
    return &s->list[s->candidates++];
}

/* Returns the index of the operation to compare in this step. It depends only on name and step, so that it is the same
 * in all runs. A product is checked whole and only once, in the first step that has it. */
static int64_t index_to_take(const shadow *s, const candidate *c)
{
    if (c->product) return c->last_count ? -1 : 0;
    philox_block counter = { { fnv1a(c->name), (uint32_t)c->kind, (uint32_t)c->phase, (uint32_t)s->step } };
    return c->last_count ? philox4x32(counter, 0, 4).word[0] % c->last_count : 0;
}

bool shadow_wants(shadow *s, const op *o)
{
    if (s->mode == SHADOW_OFF || op_is_transfer(o->kind) || o->operands == 0) return false;
    if (s->mode == SHADOW_FULL) return true;
    candidate *c = candidate_of(s, o);
    return c->count++ == index_to_take(s, c);
}

static void copy_bytes(void *from, void *to, tensor t) { memcpy(to, t.data, tensor_span(&t)); }

static void run_on_host(const op *o)
{
    const backend *host = host_backend();
    size_t bytes = host->scratch_of(&(machine_tuning){ 0 }, o);
    void *scratch = host->take((bytes / ARENA_ALIGNMENT + 1) * ARENA_ALIGNMENT);
    host->compute(o, scratch);
    host->give_back(scratch);
    activity_progress();
}

void shadow_before(shadow *s, const op *o, tensor_reader *read, void *from)
{
    bool sampled = s->mode == SHADOW_SAMPLED;
    s->product = sampled && is_product(o);
    if (s->product) s->product_before = product_before(o, read, from);
    if (s->product) return;
    s->part = sampled ? shadow_part_of(o, &s->draws) : shadow_part_whole(o);
    s->before = op_copy_take(&s->part.op, sampled, read, from);
    s->before.home = s->home;
    s->before.home.part = sampled;
    s->reference = op_copy_take(&s->before.op, false, copy_bytes, NULL);
    if (s->part.op.operands) run_on_host(&s->reference.op);
}

/* An element and its bits, because a double cannot hold all 64-bit integers. */
typedef struct {
    double value;
    uint64_t bits;
} element;

static element element_of(dtype type, void *data, int64_t place)
{
    const tensor t = { .data = data, .type = type };
    element e = { tensor_value(&t, place), 0 };
    memcpy(&e.bits, (char *)data + (size_t)place * dtype_bytes(type), dtype_bytes(type));
    return e;
}

static double largest_of(const tensor *t)
{
    double largest = 0.0;
    for (int64_t i = 0; i < tensor_elements(t); i++) largest = fmax(largest, fabs(tensor_value(t, tensor_place(t, i))));
    return largest;
}

shadow_limit shadow_limit_of(const op *o, const op_home *home, int which)
{
    op_limit *limit = op_rules[o->kind].limit;
    bool same_code = !home->cuda && !home->part;
    return limit && !same_code ? limit(o, home, which) : (shadow_limit){ .exact = true };
}

/* Returns the error in units of its limit; infinity if no error is allowed. added: as from added_to. */
static double ratio_of(element x, element want, shadow_limit limit, double largest, double added)
{
    double error = fabs(x.value - want.value), units = fmax(fabs(x.value), fabs(want.value));
    double rounded = limit.roundings * units, product = fabs(want.value - added) + rounded;
    double allowed = rounded + limit.absolute * largest + limit.product * product;
    if (limit.exact) allowed = 0.0;
    if (x.bits == want.bits || (isnan(x.value) && isnan(want.value))) return 0.0;
    return allowed > 0.0 && isfinite(error) ? error / allowed : INFINITY;
}

/* The worst element of one operand. */
typedef struct {
    double ratio;
    int which;
    int64_t index;
    double got, want;
} finding;

/* Returns what was added to element k of a product: the previous element, or the bias. */
static double added_to(const shadow *s, int64_t k)
{
    const op *o = &s->before.op;
    const tensor *c = &o->operand[0].tensor, *bias = product_bias(o);
    if (o->operand[0].access == UPDATE) return tensor_value(c, tensor_place(c, k));
    return tensor_present(bias) ? tensor_value(bias, tensor_place(bias, k % c->dim[c->dims - 1])) : 0.0;
}

static finding compare_operand(shadow *s, int i, void *got)
{
    const tensor *t = &s->reference.op.operand[i].tensor;
    finding worst = { .ratio = 0.0, .which = i };
    s->report.elements += tensor_elements(t);
    if (memcmp(got, t->data, tensor_span(t)) == 0) return worst;
    shadow_limit limit = shadow_limit_of(&s->reference.op, &s->before.home, i);
    double largest = largest_of(t);
    worst.ratio = -1.0;
    for (int64_t k = 0; k < tensor_elements(t); k++) {
        int64_t place = tensor_place(t, k);
        element x = element_of(t->type, got, place), want = element_of(t->type, t->data, place);
        double ratio = ratio_of(x, want, limit, largest, limit.product > 0.0 ? added_to(s, k) : 0.0);
        if (ratio > worst.ratio) worst = (finding){ ratio, i, k, x.value, want.value };
    }
    return worst;
}

/* Writes a new file, with the first free name. */
static void write_mismatch(shadow *s)
{
    enum { FILES = 100 };
    shadow_report *r = &s->report;
    for (int i = 0; i < FILES; i++) {
        snprintf(r->file, sizeof r->file, i ? "xgsw-mismatch-%s.%d.op" : "xgsw-mismatch-%s.op", s->files, i);
        errno = 0;
        if (op_file_write(r->file, &s->before, r->unwritten, sizeof r->unwritten)) {
            r->unwritten[0] = 0;
            return;
        }
        if (errno != EEXIST) break;
    }
    r->file[0] = 0;
}

static void record_mismatch(shadow *s, const op *o, const finding *f)
{
    char what[OP_TEXT];
    shadow_report *r = &s->report;
    if (r->failed++) return;
    snprintf(r->sentence, sizeof r->sentence,
             "%s: element %lld of %s%s is %.9g, the host has %.9g, %.3g times what is allowed",
             op_describe(o, what, sizeof what), (long long)f->index, s->before.home.part ? "a part of " : "",
             op_rules[o->kind].operand[f->which].name, f->got, f->want, f->ratio);
    if (s->files[0]) write_mismatch(s);
}

static void record(shadow *s, const op *o, const finding *f)
{
    shadow_report *r = &s->report;
    r->operations++;
    if (f->ratio >= r->worst) {
        r->worst = f->ratio;
        op_describe(o, r->worst_operation, sizeof r->worst_operation);
    }
    if (!(f->ratio <= 1.0)) record_mismatch(s, o, f);
}

/* Returns an operand from the machine in the layout of the reference. The caller frees it. */
static void *result_of(const shadow *s, int i, tensor_reader *read, void *from)
{
    tensor like = s->reference.op.operand[i].tensor, t = s->part.op.operand[i].tensor;
    like.data = allocate(1, tensor_span(&like), "a copy of an operand");
    if (s->before.home.part) tensor_gather(like, t, read, from);
    else read(from, like.data, t);
    return like.data;
}

static void record_product(shadow *s, const op *o, tensor_reader *read, void *from)
{
    shadow_report *r = &s->report;
    product_finding f = product_compare(&(checked_product){ o, s->home, s->product_before, s->draws++, read, from });
    free(s->product_before);
    r->products++;
    r->comparisons += f.comparisons;
    if (f.worst > r->worst_comparison || !r->worst_product[0]) {
        r->worst_comparison = f.worst;
        op_describe(o, r->worst_product, sizeof r->worst_product);
    }
}

void shadow_after(shadow *s, const op *o, tensor_reader *read, void *from)
{
    if (s->product) {
        record_product(s, o, read, from);
        return;
    }
    finding worst = { .ratio = 0.0 };
    for (int i = 0; i < s->part.op.operands; i++) {
        if (!s->part.compared[i]) continue;
        void *got = result_of(s, i, read, from);
        finding f = compare_operand(s, i, got);
        if (f.ratio > worst.ratio) worst = f;
        free(got);
    }
    if (s->part.op.operands) record(s, o, &worst);
    else if (!s->report.left_out++) op_describe(o, s->report.first_left_out, sizeof s->report.first_left_out);
    op_copy_free(&s->before);
    op_copy_free(&s->reference);
}
