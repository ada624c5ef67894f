/* An operation that writes its output as FP8 values gives bitwise the same as the operation followed by quantize on the
 * same machine. operations_fp8.c tests quantize. */
#include "operations.h"

typedef enum { CODES = 1, TRANSPOSED = 2, AMAX = 4, COUNTS = 8, PARTS = 16 } part;

/* groups 0: the transposed copy is one matrix. gap: between rows of operands that may have gaps. */
typedef struct {
    int64_t m, n, groups, gap;
} shape;
static const shape shapes[] = { { 1, 8, 0, 0 },    { 5, 7, 0, 3 },  { 48, 64, 0, 0 }, { 150, 136, 0, 8 },
                                { 130, 70, 0, 5 }, { 6, 33, 3, 1 }, { 268, 72, 4, 0 } };
enum { SHAPES = sizeof shapes / sizeof *shapes, IN = 5, BESIDE = 3 };

/* Operands by letters, BF16: w [m, 2n], x [m, n], y (x without gaps), v [n]; F32: r [m], g [n]. in: read; out: written
 * as FP8; beside: other results. alone: values need no scratch on the CUDA machine. */
typedef struct {
    const char *name, *in, *out, *beside;
    dtype codes;
    bool alone;
    op (*filled)(const sample *in, tensor out, const sample *beside);
} encoder;

static op swiglu(const sample *in, tensor out, const sample *beside) { return swiglu_forward_op(in[0].t, out); }
static op d_swiglu(const sample *in, tensor out, const sample *beside)
{
    return swiglu_backward_op(in[0].t, in[1].t, out);
}
static op geglu(const sample *in, tensor out, const sample *beside) { return geglu_forward_op(in[0].t, out); }
static op d_geglu(const sample *in, tensor out, const sample *beside)
{
    return geglu_backward_op(in[0].t, in[1].t, out);
}
static op squared_relu(const sample *in, tensor out, const sample *beside)
{
    return squared_relu_forward_op(in[0].t, out);
}
static op d_squared_relu(const sample *in, tensor out, const sample *beside)
{
    return squared_relu_backward_op(in[0].t, in[1].t, out);
}
static op gelu(const sample *in, tensor out, const sample *beside) { return gelu_forward_op(in[0].t, in[1].t, out); }
static op d_gelu(const sample *in, tensor out, const sample *beside)
{
    return gelu_backward_op((gelu_backward_operands){ in[0].t, in[1].t, in[2].t, .dx = out,
                                                      .bias_gradient = beside[0].t, .bias_access = WRITE });
}
static op norm(const sample *in, tensor out, const sample *beside)
{
    return norm_forward_op((norm_forward_operands){ .x = in[0].t, .gain = in[1].t, .out = out, .rstd = beside[0].t },
                           1e-5f);
}
static op added_norm(const sample *in, tensor out, const sample *beside)
{
    return norm_forward_op(
        (norm_forward_operands){
            .x = in[0].t, .gain = in[1].t, .delta = in[2].t, .out = out, .rstd = beside[0].t, .sum = beside[1].t },
        1e-5f);
}
static op layer_norm(const sample *in, tensor out, const sample *beside)
{
    return norm_forward_op((norm_forward_operands){ .x = in[0].t,
                                                    .gain = in[1].t,
                                                    .delta = in[2].t,
                                                    .bias = in[3].t,
                                                    .out = out,
                                                    .rstd = beside[0].t,
                                                    .sum = beside[1].t,
                                                    .mean = beside[2].t },
                           1e-5f);
}
static op d_norm(const sample *in, tensor out, const sample *beside)
{
    return norm_backward_op((norm_backward_operands){ .d_out = in[0].t,
                                                      .x = in[1].t,
                                                      .rstd = in[2].t,
                                                      .gain = in[3].t,
                                                      .dx = out,
                                                      .gain_gradient = beside[0].t,
                                                      .dx_access = WRITE,
                                                      .gain_access = WRITE });
}

static const encoder encoders[] = {
    { "swiglu", "w", "x", "", E4M3, true, swiglu },
    { "d_swiglu", "wx", "w", "", E5M2, true, d_swiglu },
    { "geglu", "w", "x", "", E4M3, true, geglu },
    { "d_geglu", "wx", "w", "", E5M2, true, d_geglu },
    { "squared_relu", "y", "y", "", E4M3, true, squared_relu },
    { "d_squared_relu", "yy", "y", "", E5M2, true, d_squared_relu },
    { "gelu", "xv", "x", "", E4M3, true, gelu },
    { "d_gelu", "xvx", "x", "g", E5M2, false, d_gelu },
    { "norm", "xv", "x", "r", E4M3, true, norm },
    { "added_norm", "xvx", "x", "rx", E4M3, true, added_norm },
    { "layer_norm", "xvxv", "x", "rxr", E4M3, true, layer_norm },
    { "d_norm", "xxrv", "x", "g", E5M2, false, d_norm },
};
enum { ENCODERS = sizeof encoders / sizeof *encoders };

static sample sample_like(char letter, const shape *s)
{
    const int64_t dim[] = { s->m, s->n * (letter == 'w' ? 2 : 1) };
    bool vector = strchr("vrg", letter), wide = strchr("rg", letter);
    return sample_open(wide ? F32 : BF16, vector ? 1 : 2, vector && letter != 'r' ? dim + 1 : dim,
                       letter == 'w' || letter == 'x' ? s->gap : 0);
}

/* Sets magnitudes below and above the FP8 range, zeros of both signs, and NaN and infinity unless all_numbers. */
static void set_wide(sample *x, uint32_t number, bool all_numbers)
{
    static const double no_number[] = { (double)NAN, (double)INFINITY, (double)-INFINITY };
    for (int64_t i = 0; i < x->elements; i++) {
        double value = random_value(number, i) * exp2(floor(12 * random_value(number + 100, i)));
        if (i % 13 == 5) value = i % 2 ? 0.0 : -0.0;
        if (!all_numbers && i % 97 == 3) value = no_number[i % 3];
        element_set(&x->t, i, value);
    }
}

/* The FP8 results of one way of computing them. */
typedef struct {
    sample codes, transposed;
    _Alignas(16) float scale[FP8_FACTORS];
    int32_t amax;
    uint64_t counts[FP8_COUNTS];
} made;

static made made_open(const shape *s, int64_t columns, dtype type)
{
    tensor t = fp8_transposed_shape(type, s->groups, s->groups ? s->m / s->groups : s->m, columns);
    made m = { .codes = sample_open(type, 2, (int64_t[]){ s->m, columns }, 0),
               .transposed = sample_open(type, t.dims, t.dim, 0),
               .amax = 1,
               .counts = { 1, 2, 3 } };
    fp8_set_factors(m.scale, 3.7f);
    return m;
}

static encoding encoding_of(made *m, int parts)
{
    encoding e = { .codes = tensor_none(), .transposed = tensor_none() };
    m->codes.t.scale = m->transposed.t.scale = m->scale;
    if (parts & CODES) e.codes = m->codes.t;
    if (parts & TRANSPOSED) e.transposed = m->transposed.t;
    if (parts & AMAX) e.amax = tensor_1d(&m->amax, I32, 1);
    if (parts & COUNTS) e.counts = tensor_1d(m->counts, U64, FP8_COUNTS);
    return e;
}

static void made_compare(const char *name, made *a, made *b)
{
    if (memcmp(a->codes.memory, b->codes.memory, a->codes.bytes)) fail_msg("%s: other codes", name);
    if (memcmp(a->transposed.memory, b->transposed.memory, a->transposed.bytes))
        fail_msg("%s: other transposed codes", name);
    assert_int_equal(a->amax, b->amax);
    assert_memory_equal(a->counts, b->counts, sizeof a->counts);
    for (made *m = a; m; m = m == a ? b : NULL) sample_close(&m->codes), sample_close(&m->transposed);
}

static void needs_no_scratch(const char *name, op o)
{
    preparation noted = { .notes = 0 };
    pass p = pass_open(0, &noted);
    submit(p.queue, name, o);
    pass_close(&p, &noted);
    assert_int_equal(noted.scratch[0], 0);
    preparation_free(&noted);
}

static void submit_both(queue *q, const char *name, op values, op codes)
{
    submit(q, name, values);
    submit(q, "quantize", codes);
}

static void check_encoder(const encoder *e, const shape *s, int parts, bool all_numbers)
{
    sample in[IN], beside[2][BESIDE], out[2] = { sample_like(*e->out, s), sample_like(*e->out, s) };
    int64_t columns = out[0].t.dim[1];
    made apart = made_open(s, columns, e->codes), together = made_open(s, columns, e->codes);
    for (int i = 0; e->in[i]; i++) in[i] = sample_like(e->in[i], s), set_wide(&in[i], (uint32_t)i, all_numbers);
    for (int i = 0; i < 2; i++)
        for (int k = 0; e->beside[k]; k++) beside[i][k] = sample_like(e->beside[k], s);
    RUN(q,
        submit_both(q, e->name, e->filled(in, out[0].t, beside[0]), quantize_op(out[0].t, encoding_of(&apart, parts))));
    RUN(q, submit(q, e->name, encode_op(e->filled(in, out[1].t, beside[1]), encoding_of(&together, parts))));
    if (e->alone && tested_machine() == MACHINE_CUDA)
        needs_no_scratch(e->name, encode_op(e->filled(in, out[1].t, beside[1]), encoding_of(&together, parts)));
    made_compare(e->name, &apart, &together);
    for (int k = 0; e->beside[k]; k++)
        assert_memory_equal(beside[0][k].memory, beside[1][k].memory, beside[0][k].bytes);
    for (int i = 0; e->in[i]; i++) sample_close(&in[i]);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; e->beside[k]; k++) sample_close(&beside[i][k]);
        sample_close(&out[i]);
    }
}

static void encodes_every_shape(void **state)
{
    for (int e = 0; e < ENCODERS; e++)
        for (int i = 0; i < SHAPES; i++) check_encoder(&encoders[e], &shapes[i], PARTS - 1, i % 2);
}

static void encodes_in_parts(void **state)
{
    for (int e = 0; e < ENCODERS; e++)
        for (int parts = 0; parts < PARTS; parts++)
            if (parts & (CODES | TRANSPOSED)) check_encoder(&encoders[e], &shapes[2 + parts % 2 * 4], parts, true);
}

/* ---- rotation ---- */

/* [s, b, heads, d]: rotates the first `rotated` heads, the first `width` channels of each. */
typedef struct {
    int64_t s, b, heads, d, rotated, width;
} rotation;

static tensor rotated_of(tensor whole, const rotation *r)
{
    return tensor_slice(tensor_slice(whole, 2, 0, r->rotated), 3, 0, r->width);
}

static void check_rotation(const rotation *r, dtype type, int parts)
{
    const int64_t dim[] = { r->s, r->b, r->heads, r->d }, angles[] = { r->s, r->width / 2, 2 };
    const shape rows = { r->s * r->b, r->heads * r->d, 0, 0 };
    sample x = sample_open(BF16, 4, dim, 0), copy = sample_open(BF16, 4, dim, 0),
           table = sample_open(F32, 3, angles, 0);
    made apart = made_open(&rows, rows.n, type), together = made_open(&rows, rows.n, type);
    set_wide(&x, 1, true);
    sample_randomize(&table, 2, 1.0, 0.0);
    memcpy(copy.memory, x.memory, x.bytes);
    RUN(q,
        submit(q, "rope",
               encode_rotated_op(rope_backward_op(rotated_of(x.t, r), table.t), x.t, encoding_of(&together, parts))));
    assert_memory_equal(copy.memory, x.memory, x.bytes);
    if (type == E5M2 && r->width == r->d && r->d % 16 == 0 && tested_machine() == MACHINE_CUDA)
        needs_no_scratch("rope", encode_rotated_op(rope_backward_op(rotated_of(x.t, r), table.t), x.t,
                                                   encoding_of(&together, parts)));
    RUN(q, submit(q, "rope", rope_backward_op(rotated_of(copy.t, r), table.t)));
    RUN(q,
        submit(q, "quantize", quantize_op(tensor_2d(copy.memory, BF16, rows.m, rows.n), encoding_of(&apart, parts))));
    made_compare("rope", &apart, &together);
    sample *all[] = { &x, &copy, &table };
    for (int i = 0; i < 3; i++) sample_close(all[i]);
}

static void encodes_what_is_rotated(void **state)
{
    static const rotation all[] = { { 1, 1, 1, 2, 1, 2 },       { 5, 2, 3, 16, 2, 16 }, { 33, 2, 6, 64, 5, 64 },
                                    { 70, 1, 4, 128, 3, 128 },  { 9, 3, 3, 48, 3, 16 }, { 20, 1, 4, 24, 2, 24 },
                                    { 140, 1, 2, 256, 1, 256 }, { 16, 2, 3, 32, 3, 32 } };
    for (int i = 0; i < 8; i++) {
        check_rotation(&all[i], E5M2, PARTS - 1);
        check_rotation(&all[i], E4M3, PARTS - 1);
    }
    for (int parts = 0; parts < PARTS; parts++)
        if (parts & (CODES | TRANSPOSED)) check_rotation(&all[2], E5M2, parts);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_every_shape),
        cmocka_unit_test(encodes_in_parts),
        cmocka_unit_test(encodes_what_is_rotated),
    };
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("operations_encode", tests, NULL, NULL);
    world_stop();
    return failed;
}
