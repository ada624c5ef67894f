/* The selection of the sampled shadow: one operation per name, kind and phase of a step, at random. A part is correct
 * exactly if its operation is. */
#include "base/fp8.h"
#include "machine/op/limits.h"
#include "machine/op/op.h"
#include "machine/prove/op_file.h"
#include "machine/prove/prove.h"
#include "machine/queue/submit.h"
#include "units/train/trained.h"
#include <unistd.h>

#include "units/folder.h"
#include "units/tests.h"

/* ---- a step ---- */

static const char *const decks[] = {
    "shadow\n\n[llama3.1-70b]\nsize = small\nlayers = 3\nhidden = 64\nffn = 128\nheads = 8\nkv_heads = 4\nsequence = "
    "48\nvocabulary = 250\n"
    "global_batch = 3\nmicrobatch = 1\nwarmup = 0\nsteps = 1\ncheck = off\nbackend = host\nprecision = "
    "bf16\nrecompute = none\n",
    "shadow\n\n[llama3.1-70b]\nsize = small\nlayers = 2\nhidden = 64\nffn = 128\nheads = 8\nkv_heads = 4\nsequence = "
    "48\nvocabulary = 250\n"
    "global_batch = 2\nmicrobatch = 2\nwarmup = 0\nsteps = 1\ncheck = off\nbackend = host\nprecision = "
    "fp32\nrecompute = layer\n",
};

enum { SPANS = 4096, STEPS = 3 };

/* Counts the distinct names, kinds and phases of computing operations in the spans, without products. */
static int64_t distinct(const span *all, int64_t count)
{
    int64_t different = 0;
    for (int64_t i = 0; i < count; i++) {
        bool new = !op_is_transfer(all[i].kind) && all[i].kind != OP_MATMUL &&all[i].origin.phase != PHASE_SETUP;
        for (int64_t j = 0; new &&j < i; j++)
            new = all[j].kind != all[i].kind || all[j].origin.phase != all[i].origin.phase ||
                  strcmp(all[j].origin.name, all[i].origin.name) != 0;
        different += new;
    }
    return different;
}

/* names: how many distinct operations there were, those of a shadow included. */
static shadow_report shadowed_steps(const bench_case *c, shadow_mode mode, int steps, int64_t *names)
{
    trainer t = { 0 };
    mesh m;
    mesh_open(&m, &c->layout, 0, mesh_on(kind_of(c)));
    trainer_options o = { .machine = { .kind = kind_of(c), .span_capacity = SPANS, .world_rank = -1 } };
    measure share = measure_case(c, &m, &o);
    trainer_build(&t, c, &m, &o, &share);
    measure_free(&share);
    trainer_initialize(&t);
    prove_shadow(t.machine, mode);
    for (int i = 0; i < steps; i++) mark_sync(trainer_step(&t));
    machine_sync(t.machine);
    shadow_report r = { 0 };
    int64_t count;
    const span *all = machine_spans(t.machine, &count);
    assert_in_range(count, 1, SPANS - 1);
    *names = distinct(all, count);
    if (mode != SHADOW_OFF) r = *prove_shadowed(t.machine);
    trainer_dismantle(&t);
    mesh_close(&m);
    return r;
}

/* Runs the steps and holds the report to one operation of each name of a step. */
static shadow_report expect_every_name(const bench_case *c, int steps)
{
    int64_t names, unused;
    bench_case on_host = *c;
    on_host.backend = BACKEND_HOST;
    shadowed_steps(&on_host, SHADOW_OFF, 1, &names);
    shadow_report r = shadowed_steps(c, SHADOW_SAMPLED, steps, &unused);
    if (r.failed) fail_msg("%s", r.sentence);
    assert_in_range(names, 20, 100);
    assert_int_equal(r.operations, steps * names);
    assert_in_range(r.products, 10, 20); /* 15, some of which share a form; weights' gradients have two */
    assert_true(r.worst_comparison > 0.0 && r.worst_comparison < signed_sum_limit((double)r.comparisons));
    return r;
}

static void every_name_of_a_step_is_shadowed(void **state)
{
    for (int i = 0; i < (test_is_brief_emulation() ? 1 : 2); i++) {
        bench_case c = case_of(decks[i], 1);
        shadow_report one = expect_every_name(&c, 1);
        if (test_is_brief_emulation()) return;
        shadow_report two = expect_every_name(&c, 2);
        assert_int_equal(two.products, one.products);
    }
}

/* One of ten layers is selected per step; over many steps, most of them. */
static void any_layer_may_be_taken(void **state)
{
    enum { LAYERS = 10, MANY = 60 };
    bool taken[LAYERS] = { false };
    int layers = 0;
    shadow *s = shadow_open((op_home){ 0 }, "");
    shadow_set(s, SHADOW_SAMPLED);
    for (int step = 0; step < MANY; step++) {
        int count = 0;
        shadow_step(s, step);
        for (int layer = 0; layer < LAYERS; layer++) {
            op o = { .kind = OP_ADD,
                     .operands = 3,
                     .origin = { .layer = layer, .phase = PHASE_FORWARD, .name = "sum" } };
            bool wanted = shadow_wants(s, &o);
            count += wanted;
            taken[layer] = taken[layer] || wanted;
            if (step == 0) assert_int_equal(wanted, layer == 0);
        }
        assert_int_equal(count, 1);
    }
    for (int layer = 0; layer < LAYERS; layer++) layers += taken[layer];
    assert_in_range(layers, LAYERS - 2, LAYERS);
    shadow_close(s);
}

/* A sum of 512 MiB has no part: it is neither read nor counted as compared. */
static void what_is_too_large_is_left_out(void **state)
{
    double out = 0.0;
    shadow *s = shadow_open((op_home){ 0 }, "");
    op o = { .kind = OP_SUM, .operands = 2, .origin.name = "large" };
    o.operand[0] = (operand){ tensor_1d(&out, F64, 1), WRITE };
    o.operand[1] = (operand){ tensor_1d(&out, F64, (int64_t)1 << 26), READ };
    shadow_set(s, SHADOW_SAMPLED);
    assert_true(shadow_wants(s, &o));
    shadow_before(s, &o, NULL, NULL);
    shadow_after(s, &o, NULL, NULL);
    assert_int_equal(shadow_read(s)->operations, 0);
    assert_int_equal(shadow_read(s)->left_out, 1);
    shadow_close(s);
}

/* ---- parts of single operations ---- */

enum { MEMORY = 1 << 22, S = 80, B = 2, HEADS = 4, KV_HEADS = 2, D = 16, H = 96, FFN = 80, VOCABULARY = 130 };
static char *ground;
static size_t used;

static tensor numbers(dtype type, int dims, int64_t a, int64_t b, int64_t c, int64_t d, int64_t gap)
{
    tensor t = tensor_4d(NULL, type, dims > 3 ? a : 1,
                         dims > 3   ? b
                         : dims > 2 ? a
                                    : 1,
                         dims > 3   ? c
                         : dims > 2 ? b
                         : dims > 1 ? a
                                    : 1,
                         dims > 3   ? d
                         : dims > 2 ? c
                         : dims > 1 ? b
                                    : a);
    tensor r = { .type = type, .dims = dims, .data = ground + used };
    for (int i = 0; i < dims; i++) {
        r.dim[i] = t.dim[4 - dims + i];
        r.stride[i] = t.stride[4 - dims + i] + (i < dims - 1 ? gap * (t.stride[4 - dims + i] / t.dim[3]) : 0);
    }
    used += (tensor_span(&r) + 511) / 256 * 256;
    assert_true(used <= MEMORY);
    for (size_t i = 0; i < tensor_span(&r) / dtype_bytes(type); i++) {
        float x = (float)((i * 37 + used) % 101) / 101.0f - 0.4f;
        if (type == F32) ((float *)r.data)[i] = x;
        if (type == BF16) ((uint16_t *)r.data)[i] = bf16_round(x);
        if (type == F64) ((double *)r.data)[i] = 0.5;
        if (type == I32) ((int32_t *)r.data)[i] = (int32_t)(i * 7 % VOCABULARY);
        if (type == U64) ((uint64_t *)r.data)[i] = i;
        if (type == E4M3 || type == E5M2) ((uint8_t *)r.data)[i] = fp8_round(type, x);
    }
    return r;
}

static void read_host(void *from, void *to, tensor t) { memcpy(to, t.data, tensor_span(&t)); }

/* Changes sign and exponent of every element of an operand. */
static void spoil(const tensor *t)
{
    for (int64_t i = 0; i < tensor_elements(t); i++)
        ((unsigned char *)t->data)[((size_t)tensor_place(t, i) + 1) * dtype_bytes(t->type) - 1] ^= 0x41;
}

/* Runs the operation on a host machine with the sampled shadow, then corrupts the machine's result. */
static shadow_report run_spoiled(const op *o, int which)
{
    machine_options options = { .kind = MACHINE_HOST, .world_rank = -1 };
    machine *m = machine_open(&options);
    queue *q = machine_queue(m, "test");
    static char scratch[1 << 20];
    queue_set_scratch(q, scratch, sizeof scratch);
    shadow *beside = shadow_open((op_home){ 0 }, "part");
    shadow_set(beside, SHADOW_SAMPLED);
    assert_true(shadow_wants(beside, o));
    shadow_before(beside, o, read_host, NULL);
    mark_sync(op_submit(q, o));
    if (which >= 0) spoil(&o->operand[which].tensor);
    shadow_after(beside, o, read_host, NULL);
    shadow_report r = *shadow_read(beside);
    shadow_close(beside);
    machine_close(m);
    return r;
}

/* The correct operation passes. If a result is wrong, the report names it, and the file can be read. Operands from
 * `sums` on are sums over sampled values and are not compared for a part. -1: no such operand. */
static void part_is_judged(op o, int sums)
{
    char *kept = malloc(MEMORY), reason[300], words[64];
    memcpy(kept, ground, MEMORY);
    for (int i = -1; i < o.operands; i++) {
        if (i >= 0 && (o.operand[i].access == READ || !tensor_present(&o.operand[i].tensor))) continue;
        memcpy(ground, kept, MEMORY);
        shadow_report r = run_spoiled(&o, i);
        bool sees = i >= 0 && (sums < 0 || i < sums);
        if (r.failed != sees)
            fail_msg("%s, operand %d wrong: %lld failures, %s", op_kind_name(o.kind), i, (long long)r.failed,
                     r.sentence);
        assert_true(r.elements > 0);
        if (!sees) continue;
        snprintf(words, sizeof words, "of a part of %s is", op_rules[o.kind].operand[i].name);
        if (!strstr(r.sentence, words)) fail_msg("%s: %s", words, r.sentence);
        op_copy c;
        if (!op_file_read(r.file, &c, reason, sizeof reason)) fail_msg("%s", reason);
        assert_true(c.home.part);
        op_copy_free(&c);
        remove(r.file);
    }
    memcpy(ground, kept, MEMORY);
    free(kept);
}

static op made(op_kind kind, int count, const operand *x)
{
    op o = { .kind = kind,
             .operands = count,
             .origin = {
                 .step = 1, .microbatch = -1, .chunk = -1, .layer = 1, .phase = PHASE_FORWARD, .name = "part" } };
    memcpy(o.operand, x, (size_t)count * sizeof *x);
    used = 0;
    return o;
}
#define MADE(kind, ...) made(kind, sizeof(operand[]){ __VA_ARGS__ } / sizeof(operand), (operand[]){ __VA_ARGS__ })
#define ROWS(type, n) numbers(type, 2, S *B, n, 0, 0, 0)
#define HEADS_OF(type, n) numbers(type, 4, S, B, n, D, 0)
#define KEYS_OF(type) numbers(type, 4, 2 * S, B, KV_HEADS, D, 0)

static void parts_of_rows(void **state)
{
    op norm = MADE(OP_NORM_FORWARD, { ROWS(BF16, H), READ }, { ROWS(BF16, H), READ },
                   { numbers(F32, 1, H, 0, 0, 0, 0), READ }, { ROWS(BF16, H), WRITE }, { ROWS(BF16, H), WRITE },
                   { numbers(F32, 2, S, B, 0, 0, 0), WRITE });
    norm.args.norm.epsilon = 1e-5f;
    part_is_judged(norm, -1);
    part_is_judged(MADE(OP_NORM_BACKWARD, { ROWS(BF16, H), READ }, { ROWS(BF16, H), READ },
                        { numbers(F32, 1, S * B, 0, 0, 0, 0), READ }, { numbers(F32, 1, H, 0, 0, 0, 0), READ },
                        { ROWS(BF16, H), UPDATE }, { numbers(F32, 1, H, 0, 0, 0, 0), UPDATE }),
                   5);
    part_is_judged(MADE(OP_SWIGLU_FORWARD, { ROWS(BF16, 2 * FFN), READ }, { ROWS(BF16, FFN), WRITE }), -1);
    part_is_judged(
        MADE(OP_SWIGLU_BACKWARD, { ROWS(F32, 2 * FFN), READ }, { ROWS(F32, FFN), READ }, { ROWS(F32, 2 * FFN), WRITE }),
        -1);
    for (op_kind kind = OP_ROPE_FORWARD; kind <= OP_ROPE_BACKWARD; kind++)
        part_is_judged(
            MADE(kind, { numbers(BF16, 4, S, B, HEADS, D, 8), UPDATE }, { numbers(F32, 3, S, D / 2, 2, 0, 0), READ }),
            -1);
}

static void parts_of_heads(void **state)
{
    op forward = MADE(OP_ATTENTION_FORWARD, { numbers(BF16, 4, S, B, HEADS, D, 4), READ },
                      { HEADS_OF(BF16, KV_HEADS), READ }, { HEADS_OF(BF16, KV_HEADS), READ },
                      { HEADS_OF(BF16, HEADS), WRITE }, { numbers(F32, 3, B, HEADS, S, 0, 0), WRITE });
    forward.args.attention = (attention_args){ .scale = 0.25f, .causal = true };
    part_is_judged(forward, -1);
    op backward = MADE(OP_ATTENTION_BACKWARD, { HEADS_OF(BF16, HEADS), READ }, { HEADS_OF(BF16, KV_HEADS), READ },
                       { HEADS_OF(BF16, KV_HEADS), READ }, { HEADS_OF(BF16, HEADS), READ },
                       { numbers(F32, 3, B, HEADS, S, 0, 0), READ }, { HEADS_OF(BF16, HEADS), READ },
                       { HEADS_OF(BF16, HEADS), WRITE }, { HEADS_OF(F32, KV_HEADS), UPDATE },
                       { HEADS_OF(F32, KV_HEADS), UPDATE });
    backward.args.attention = (attention_args){ .scale = 0.25f, .causal = true };
    part_is_judged(backward, -1);
    op of_more_keys = MADE(OP_ATTENTION_BACKWARD, { HEADS_OF(BF16, HEADS), READ }, { KEYS_OF(BF16), READ },
                           { KEYS_OF(BF16), READ }, { HEADS_OF(BF16, HEADS), READ },
                           { numbers(F32, 3, B, HEADS, S, 0, 0), READ }, { HEADS_OF(BF16, HEADS), READ },
                           { HEADS_OF(BF16, HEADS), WRITE }, { KEYS_OF(F32), UPDATE }, { KEYS_OF(F32), UPDATE });
    of_more_keys.args = backward.args;
    part_is_judged(of_more_keys, -1);
}

static void parts_of_sums(void **state)
{
    part_is_judged(
        MADE(OP_SUM_PARTS, { numbers(BF16, 3, S, B, H, 0, 0), WRITE }, { numbers(BF16, 3, 4, S * B, H, 0, 0), READ }),
        -1);
}

static void parts_of_ends(void **state)
{
    part_is_judged(MADE(OP_EMBEDDING_FORWARD, { numbers(I32, 2, S, B, 0, 0, 0), READ },
                        { numbers(BF16, 2, VOCABULARY, H, 0, 0, 0), READ }, { numbers(BF16, 3, S, B, H, 0, 0), WRITE }),
                   -1);
    part_is_judged(MADE(OP_EMBEDDING_BACKWARD, { numbers(I32, 2, S, B, 0, 0, 0), READ },
                        { numbers(BF16, 3, S, B, H, 0, 0), READ }, { numbers(F32, 2, VOCABULARY, H, 0, 0, 0), UPDATE }),
                   -1);
    op partial = MADE(OP_CROSS_ENTROPY, { numbers(BF16, 3, S, B, VOCABULARY, 0, 0), READ },
                      { numbers(I32, 2, S, B, 0, 0, 0), READ }, { numbers(F32, 3, S, B, 3, 0, 0), WRITE },
                      { tensor_none(), WRITE });
    partial.args.cross_entropy = (cross_entropy_args){ CROSS_ENTROPY_PARTIAL, 0, VOCABULARY - 3, 1.0f };
    part_is_judged(partial, -1);
    op finish = MADE(OP_CROSS_ENTROPY, { numbers(BF16, 3, S, B, VOCABULARY, 0, 0), UPDATE },
                     { numbers(I32, 2, S, B, 0, 0, 0), READ }, { numbers(F32, 4, 2, S, B, 3, 0), READ },
                     { numbers(F64, 1, B, 0, 0, 0, 0), WRITE });
    finish.args.cross_entropy = (cross_entropy_args){ CROSS_ENTROPY_FINISH, 0, VOCABULARY - 3, 1.0f };
    for (int64_t i = 0; i < 2 * S * B; i++) ((float *)finish.operand[2].tensor.data)[3 * i + 1] = 40.0f;
    part_is_judged(finish, 3);
}

static void parts_of_elements(void **state)
{
    enum { N = 100000 };
    op update = MADE(OP_ADAMW, { numbers(F64, 1, STEP_SCALARS, 0, 0, 0, 0), READ },
                     { numbers(F32, 2, N / 100, 100, 0, 0, 0), READ }, { numbers(BF16, 1, N, 0, 0, 0, 0), WRITE },
                     { numbers(F32, 1, N, 0, 0, 0, 0), UPDATE }, { numbers(F32, 1, N, 0, 0, 0, 0), UPDATE },
                     { numbers(F32, 1, N, 0, 0, 0, 0), UPDATE });
    update.args.adamw = (adamw_rule){ .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f };
    for (int i = 0; i < N; i++) ((float *)update.operand[5].tensor.data)[i] = 0.5f;
    part_is_judged(update, -1);
    part_is_judged(MADE(OP_ADD, { ROWS(F32, H), WRITE }, { ROWS(F32, H), READ }, { ROWS(F32, H), READ }), -1);
    part_is_judged(
        MADE(OP_COPY, { numbers(F32, 4, S, B, HEADS, D, 0), UPDATE }, { numbers(BF16, 4, S, B, HEADS, D, 8), READ }),
        -1);
    part_is_judged(MADE(OP_FILL, { ROWS(F32, H), WRITE }), -1);
}

/* Columns of FP8 values. amax and counts cover all columns. */
static void parts_of_codes(void **state)
{
    enum { N = 100000, GROUPS = 4, PADDED = 48 };
    float sixteen = 16.0f;
    tensor scale = tensor_1d(&sixteen, F32, 1);
    for (int64_t groups = 0; groups <= GROUPS; groups += GROUPS)
        part_is_judged(
            MADE(OP_QUANTIZE, { ROWS(BF16, H), READ }, { ROWS(E4M3, H), WRITE },
                 { groups ? numbers(E4M3, 3, GROUPS, H, PADDED, 0, 0) : numbers(E4M3, 2, H, S * B, 0, 0, 0), WRITE },
                 { scale, READ }, { numbers(I32, 1, 1, 0, 0, 0, 0), UPDATE },
                 { numbers(U64, 1, FP8_COUNTS, 0, 0, 0, 0), UPDATE }),
            4);
    part_is_judged(MADE(OP_TRANSPOSE, { numbers(E5M2, 2, H, S * B, 0, 0, 0), WRITE }, { ROWS(E5M2, H), READ }), -1);
    op update =
        MADE(OP_ADAMW, { numbers(F64, 1, STEP_SCALARS, 0, 0, 0, 0), READ }, { numbers(F32, 1, N, 0, 0, 0, 0), READ },
             { numbers(E4M3, 1, N, 0, 0, 0, 0), WRITE }, { numbers(F32, 1, N, 0, 0, 0, 0), UPDATE },
             { numbers(F32, 1, N, 0, 0, 0, 0), UPDATE }, { numbers(F32, 1, N, 0, 0, 0, 0), UPDATE }, { scale, READ },
             { numbers(I32, 1, 1, 0, 0, 0, 0), UPDATE });
    update.args.adamw = (adamw_rule){ .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f };
    for (int i = 0; i < N; i++) ((float *)update.operand[5].tensor.data)[i] = 0.5f;
    part_is_judged(update, 7);
}

int main(void)
{
    TESTS(tests, every_name_of_a_step_is_shadowed, any_layer_may_be_taken, what_is_too_large_is_left_out, parts_of_rows,
          parts_of_heads, parts_of_sums, parts_of_ends, parts_of_elements, parts_of_codes);
    ground = aligned_alloc(256, MEMORY);
    memset(ground, 0, MEMORY);
    /* All but the first take the host in any case. */
    size_t count = tests_cuda() ? 1 : sizeof tests / sizeof *tests;
    int failed = _cmocka_run_group_tests("shadow_parts", tests, count, enter_folder, leave_folder);
    free(ground);
    return failed;
}
