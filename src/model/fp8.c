/* Buffers and state of FP8. */
#include "model/fp8.h"
#include "machine/op/kernels.h"

const char *fp8_kind_name(fp8_kind kind)
{
    static const char *const names[FP8_KINDS] = { "input", "weight", "gradient" };
    return names[kind];
}

fp8_mode fp8_mode_of(const bench_case *c)
{
    return c->calibrates ? FP8_OBSERVES : c->precision == PRECISION_FP8 ? FP8_ENCODES : FP8_OFF;
}

bool fp8_delays(const bench_case *c) { return c->precision == PRECISION_FP8 && c->fp8_scaling == FP8_DELAYED; }

int64_t fp8_tensors(const bench_case *c) { return c->model.layers * FP8_PRODUCTS * FP8_KINDS; }

static int64_t columns_of(const tensor *t) { return t->dim[t->dims - 1]; }
static int64_t rows_of(const tensor *t) { return tensor_elements(t) / columns_of(t); }

static tensor take(arena *a, tensor shape) { return tensor_taken(a, ACTIVATIONS, shape); }

static fp8_product describe(const layer_step *s, const family *net, const rank_extents *n, slot_set as_rows)
{
    fp8_product p = { .step = s };
    tensor input = net->slot[s->reads[0]].shape(n), output = net->slot[s->makes[0]].shape(n);
    p.k = columns_of(&input);
    p.n = columns_of(&output);
    p.groups = s->kind->product == PRODUCT_OF_EXPERTS ? n->experts / n->expert_ranks : 0;
    p.parts = p.groups ? n->expert_parts : 1;
    p.input_rows = rows_of(&input);
    p.output_rows = rows_of(&output);
    p.gathered_rows = p.input_rows > p.output_rows ? p.input_rows : p.output_rows;
    p.keeps_rows = p.gathered_rows > p.input_rows || as_rows & slot_bit(slot_fp8(s->reads[0]));
    return p;
}

static tensor transposed_shape(const fp8_product *p, dtype type, int64_t columns)
{
    int64_t groups = p->groups * p->parts;
    return fp8_transposed_shape(type, groups, groups ? p->gathered_rows / groups : p->gathered_rows, columns);
}

static void take_buffers(fp8_product *p, arena *a)
{
    if (!p->keeps_rows) p->input = take(a, tensor_2d(NULL, E4M3, p->input_rows, p->k));
    if (p->keeps_rows) p->input_transposed = take(a, transposed_shape(p, E4M3, p->k));
    p->gradient = take(a, tensor_2d(NULL, E5M2, p->output_rows, p->n));
    p->gradient_transposed = take(a, transposed_shape(p, E5M2, p->n));
}

static int64_t weight_elements(const fp8_product *p) { return (p->groups ? p->groups : 1) * p->k * p->n; }

static void open_state(fp8_state *f, const bench_case *c, arena *a)
{
    int64_t tensors = fp8_tensors(c);
    bool current = c->fp8_scaling == FP8_CURRENT;
    f->amax = tensor_taken(a, OPTIMIZER, tensor_1d(NULL, I32, tensors));
    f->counts = tensor_taken(a, OPTIMIZER, tensor_2d(NULL, U64, tensors, FP8_COUNTS));
    if (current) f->current_amax = tensor_taken(a, OPTIMIZER, tensor_1d(NULL, I32, 1));
    else f->history = tensor_taken(a, OPTIMIZER, tensor_2d(NULL, I32, FP8_HISTORY, tensors));
    int64_t times = current ? f->in_flight * (c->imitated.experts ? c->imitated.experts : 1) : 1;
    f->scales = tensor_taken(a, OPTIMIZER, tensor_2d(NULL, F32, tensors * times, FP8_FACTORS));
}

void fp8_open(fp8_state *f, const bench_case *c, const family *net, const rank_extents *n, slot_set as_rows, arena *a)
{
    int64_t largest = 0;
    *f = (fp8_state){ .mode = fp8_mode_of(c), .in_flight = f->in_flight };
    if (f->mode == FP8_OFF) return;
    open_state(f, c, a);
    for (const layer_step *s = net->layer.step; s < net->layer.step + net->layer.count; s++)
        if (s->kind->product) f->product[f->products++] = describe(s, net, n, as_rows);
    if (f->mode == FP8_OBSERVES) return;
    for (fp8_product *p = f->product; p < f->product + f->products; p++) {
        take_buffers(p, a);
        if (weight_elements(p) > largest) largest = weight_elements(p);
    }
    f->weight = take(a, tensor_1d(NULL, E4M3, largest));
}

tensor fp8_kept_shape(const fp8_state *f, int slot)
{
    if (f->mode != FP8_ENCODES) return tensor_none();
    for (const fp8_product *p = f->product; p < f->product + f->products; p++)
        if (p->step->reads[0] == slot)
            return p->keeps_rows ? tensor_2d(NULL, E4M3, p->input_rows, p->k) : transposed_shape(p, E4M3, p->k);
    return tensor_none();
}
