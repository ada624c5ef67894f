/* Kernels of the CUDA machine whose results are the host's to the last bit: rows of the embedding, cross-entropy's
 * finish, AdamW, exact squares, the step's scalars, first weights, tokens. Each runs beside the host's on the same
 * bytes, gaps included, at addresses that allow 16-byte packs and at ones that do not. */
#include "base/random.h"
#include "machine/cuda/kernels/kernels.h"
#include "machine/host/host.h"
#include "units/machine/operations/operations.h"

typedef struct {
    void (*run)(const cuda_call *);
    size_t (*scratch)(const cuda_call *);
} cuda_kernel;

static const cuda_kernel kernels[OP_KINDS] = {
    [OP_EMBEDDING_FORWARD] = { cuda_embedding_forward, NULL },
    [OP_EMBEDDING_BACKWARD] = { cuda_embedding_backward, cuda_embedding_backward_scratch },
    [OP_CROSS_ENTROPY] = { cuda_cross_entropy, cuda_cross_entropy_scratch },
    [OP_ADAMW] = { cuda_adamw, NULL },
    [OP_INITIALIZE] = { cuda_initialize, NULL },
    [OP_TOKENS] = { cuda_tokens, NULL },
    [OP_STEP_BEGIN] = { cuda_step_begin, NULL },
    [OP_SQUARE_SUM] = { cuda_square_sum, cuda_square_sum_scratch },
    [OP_STEP_CLIP] = { cuda_step_clip, NULL },
};

static void *device_memory(const void *from, size_t bytes)
{
    void *p;
    CUDA_CHECK(cudaMalloc(&p, bytes + 1));
    if (from) CUDA_CHECK(cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice));
    return p;
}

static void run_cuda(const op *o, sample *const *x)
{
    cuda_call c = { .args = o->args };
    void *memory[OP_OPERANDS] = { NULL };
    for (int i = 0; i < o->operands; i++) {
        c.x[i] = o->operand[i].tensor;
        c.update[i] = o->operand[i].access == UPDATE;
        if (!x[i]) continue;
        memory[i] = device_memory(x[i]->memory, x[i]->bytes);
        c.x[i].data = (char *)memory[i] + ((char *)x[i]->t.data - x[i]->memory);
    }
    if (kernels[o->kind].scratch) c.scratch_bytes = kernels[o->kind].scratch(&c);
    c.scratch = device_memory(NULL, c.scratch_bytes);
    CUDA_CHECK(cudaStreamCreateWithFlags(&c.stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaMemsetAsync(c.scratch, GAP_VALUE, c.scratch_bytes, c.stream));
    kernels[o->kind].run(&c);
    CUDA_CHECK(cudaStreamSynchronize(c.stream));
    for (int i = 0; i < o->operands; i++) {
        if (!x[i]) continue;
        CUDA_CHECK(cudaMemcpy(x[i]->memory, memory[i], x[i]->bytes, cudaMemcpyDeviceToHost));
        CUDA_CHECK(cudaFree(memory[i]));
    }
    CUDA_CHECK(cudaFree(c.scratch));
    CUDA_CHECK(cudaStreamDestroy(c.stream));
}

/* Runs the operation on the samples (NULL: absent) by the host, then from the same bytes on the device; what each left
 * of operand i is in before the call's x[i] (device) and host[i]. */
static void run_both(op *o, int operands, sample *const *x, const access_mode *access, char **host)
{
    char *first[OP_OPERANDS] = { NULL };
    o->operands = operands;
    for (int i = 0; i < operands; i++) {
        o->operand[i] = (operand){ x[i] ? x[i]->t : tensor_none(), access[i] };
        if (!x[i]) continue;
        first[i] = memcpy(malloc(x[i]->bytes + 1), x[i]->memory, x[i]->bytes);
        host[i] = malloc(x[i]->bytes + 1);
    }
    size_t bytes = host_scratch_of(NULL, o);
    void *scratch = aligned_alloc(ARENA_ALIGNMENT, (bytes / ARENA_ALIGNMENT + 1) * ARENA_ALIGNMENT);
    host_compute(o, scratch);
    free(scratch);
    for (int i = 0; i < operands; i++) {
        if (!x[i]) continue;
        memcpy(host[i], x[i]->memory, x[i]->bytes);
        memcpy(x[i]->memory, first[i], x[i]->bytes);
        free(first[i]);
    }
    run_cuda(o, x);
}

static void free_hosts(char **host, int operands)
{
    for (int i = 0; i < operands; i++) free(host[i]);
}

/* All bytes of all operands are the host's. */
static void same_bits(op *o, int operands, sample *const *x, const access_mode *access, const char *what)
{
    char *host[OP_OPERANDS] = { NULL };
    run_both(o, operands, x, access, host);
    for (int i = 0; i < operands; i++)
        for (size_t k = 0; x[i] && k < x[i]->bytes; k++)
            if (host[i][k] != x[i]->memory[k]) {
                fail_msg("%s: operand %d differs at byte %zu of %zu", what, i, k, x[i]->bytes);
                return;
            }
    free_hosts(host, operands);
}

static void close_all(sample *const *x, int n)
{
    for (int i = 0; i < n; i++)
        if (x[i]) sample_close(x[i]);
}

/* A 1-D sample that starts `skip` elements into its memory. */
static sample skipped(dtype type, int64_t n, int64_t skip, uint32_t number, double scale, double offset)
{
    sample x = sample_open(type, 1, (int64_t[]){ n + skip }, 0);
    x.t = tensor_slice(x.t, 0, skip, n);
    x.elements = n;
    sample_randomize(&x, number, scale, offset);
    return x;
}

static void randomize_tokens(sample *token, int64_t below)
{
    for (int64_t i = 0; i < token->elements; i++)
        element_set(&token->t, i, floor((random_value(5, i) + 1.0) / 2.0 * (double)below));
}

/* tokens 0 .. below - 1; rows first .. first + rows - 1 are held here */
static void check_embedding(dtype from, dtype to, int64_t s, int64_t columns, int64_t rows, int64_t below,
                            int64_t first, int64_t gap)
{
    sample token = sample_open(I32, 2, (int64_t[]){ s, 2 }, 0),
           table = sample_open(from, 2, (int64_t[]){ rows, columns }, gap);
    sample out = sample_open(to, 3, (int64_t[]){ s, 2, columns }, gap),
           gradient = sample_open(to, 2, (int64_t[]){ rows, columns }, gap);
    sample d_out = sample_open(from, 3, (int64_t[]){ s, 2, columns }, gap);
    op o = { .kind = OP_EMBEDDING_FORWARD, .args.embedding.first = first };
    randomize_tokens(&token, below);
    sample_randomize(&table, 1, 1.0, 0.0);
    sample_randomize(&d_out, 2, 1.0, 0.0);
    sample_randomize(&gradient, 3, 1.0, 0.0);
    same_bits(&o, 3, (sample *[]){ &token, &table, &out }, (access_mode[]){ READ, READ, WRITE }, "embedding_forward");
    o.kind = OP_EMBEDDING_BACKWARD;
    for (access_mode how = WRITE; how <= UPDATE; how++)
        same_bits(&o, 3, (sample *[]){ &token, &d_out, &gradient }, (access_mode[]){ READ, READ, how },
                  "embedding_backward");
    close_all((sample *[]){ &token, &table, &out, &gradient, &d_out }, 5);
}

static void embeddings(void **state)
{
    for (dtype from = F32; from <= BF16; from++)
        for (dtype to = F32; to <= BF16; to++) {
            check_embedding(from, to, 20, 7, 5, 9, 2, 3);
            check_embedding(from, to, 150, 40, 30, 30, 0, 8);
            check_embedding(from, to, 9, 2100, 600, 700, 50, 0);
            check_embedding(from, to, 200, 16, 3, 1, 0, 8); /* one row gets all */
        }
}

static void check_adamw(const dtype *format, bool master, int64_t n, int64_t skip)
{
    const double scalar[STEP_SCALARS] = { 4, 1e-3, 1 / (1 - pow(0.9, 5)), 1 / (1 - pow(0.95, 5)), 0.37, 0, 0 };
    sample s = sample_open(F64, 1, (int64_t[]){ STEP_SCALARS }, 0), g = skipped(format[0], n, skip, 1, 1e-2, 0.0);
    sample w = skipped(format[1], n, skip, 2, 0.05, 0.0), values = skipped(format[2], n, skip, 3, 0.05, 0.0);
    sample m = skipped(format[3], n, skip, 4, 1e-3, 0.0), v = skipped(format[4], n, skip, 5, 1e-5, 1.1e-5);
    op o = { .kind = OP_ADAMW, .args.adamw = { 0.9f, 0.95f, 1e-5f, 0.1f } };
    memcpy(s.memory, scalar, sizeof scalar);
    same_bits(&o, 6, (sample *[]){ &s, &g, &w, master ? &values : NULL, &m, &v },
              (access_mode[]){ READ, READ, master ? WRITE : UPDATE, UPDATE, UPDATE, UPDATE }, "adamw");
    close_all((sample *[]){ &s, &g, &w, &values, &m, &v }, 6);
}

/* Every mix of formats. */
static void adamw_updates(void **state)
{
    static const int64_t lengths[] = { 1, 8, 37, 2100 };
    for (int mix = 0; mix < 64; mix++) {
        dtype format[5];
        for (int i = 0; i < 5; i++) format[i] = mix >> i & 1 ? BF16 : F32;
        for (int i = 0; i < 4; i++)
            for (int64_t skip = 0; skip < 2; skip++) check_adamw(format, mix >> 5, lengths[i], skip);
    }
}

/* Magnitudes 2^low .. 2^high, one of them `bad` if that is not 0. */
static void check_squares(dtype type, int64_t n, int low, int high, int64_t skip, double bad)
{
    sample x = skipped(type, n, skip, 1, 1.0, 0.0), total = sample_open(U64, 1, (int64_t[]){ EXACT_SUM_WORDS }, 0);
    char *host[2] = { NULL };
    op o = { .kind = OP_SQUARE_SUM };
    for (int64_t i = 0; i < n; i++) {
        double exponent = low + floor((double)(high - low + 1) * fabs(random_value(2, i)));
        element_set(&x.t, i, random_value(1, i) * exp2(exponent));
    }
    if (bad != 0.0) element_set(&x.t, n / 2, bad);
    memcpy(total.memory, (uint64_t[EXACT_SUM_WORDS]){ 0xFFFFFFFFu, 7, 0, 5 }, sizeof(uint64_t[EXACT_SUM_WORDS]));
    run_both(&o, 2, (sample *[]){ &x, &total }, (access_mode[]){ READ, UPDATE }, host);
    const uint64_t *expected = (const uint64_t *)(void *)host[1], *got = (const uint64_t *)(void *)total.memory;
    for (int i = 0; i < EXACT_SUM_WORDS; i++) assert_true(got[i] == expected[i]);
    free_hosts(host, 2);
    close_all((sample *[]){ &x, &total }, 2);
}

static void squares(void **state)
{
    for (dtype type = F32; type <= BF16; type++)
        for (int64_t skip = 0; skip < 2; skip++) {
            check_squares(type, 1, 0, 0, skip, 0.0);
            check_squares(type, 5003, -140, -20, skip, 0.0);
            check_squares(type, 3001, -60, 23, skip, 0.0);
            check_squares(type, 150001, -30, 7, skip, 0.0);
            check_squares(type, 70000, 7, 23, skip, 0.0);
            check_squares(type, 4096, -45, -38, skip, 0.0);
            check_squares(type, 100, 0, 0, skip, (double)NAN);
            check_squares(type, 100, 0, 0, skip, (double)-INFINITY);
            check_squares(type, 100, 0, 0, skip, 0x1p24);
        }
}

static void check_initialize(dtype type, int64_t rows, int64_t columns, int64_t gap, initialize_args args)
{
    sample x = sample_open(type, 2, (int64_t[]){ rows, columns }, gap);
    op o = { .kind = OP_INITIALIZE, .args.initialize = args };
    same_bits(&o, 1, (sample *[]){ &x }, (access_mode[]){ WRITE }, "initialize");
    sample_close(&x);
}

static void first_weights(void **state)
{
    initialize_args args = {
        .seed = 1234, .key = fnv1a("layers.0.q"), .scale = normal_scale(0.02), .rows = 40, .columns = 70
    };
    for (dtype type = F32; type <= BF16; type++) {
        check_initialize(type, 40, 70, 0, args);
        args.first_row = 30, args.first_column = 60;
        check_initialize(type, 12, 16, 8, args);
        check_initialize(type, 12, 9, 3, args);
        args.rows = 1 << 20, args.columns = 1 << 16, args.first_row = 70000,
        args.first_column = 0; /* indices beyond 32 bits */
        check_initialize(type, 3, 2504, 8, args);
        args.rows = 40, args.columns = 70, args.first_row = 0;
    }
}

static void check_tokens(int64_t s, int64_t b, tokens_args args)
{
    sample scalars = sample_open(F64, 1, (int64_t[]){ STEP_SCALARS }, 0);
    sample token = sample_open(I32, 2, (int64_t[]){ s, b }, 0), label = sample_open(I32, 2, (int64_t[]){ s, b }, 0);
    op o = { .kind = OP_TOKENS, .args.tokens = args };
    element_set(&scalars.t, SCALAR_STEP, 3);
    same_bits(&o, 3, (sample *[]){ &scalars, &token, &label }, (access_mode[]){ READ, WRITE, WRITE }, "tokens");
    close_all((sample *[]){ &scalars, &token, &label }, 3);
}

/* A million positions in is past the documents that a block places at a time. */
static void tokens_and_labels(void **state)
{
    static const tokens_args parts[] = { { .first_sample = 17 },
                                         { .first_sample = 2, .place = { 300, 5000 } },
                                         { .place = { 1000003, 0 } } };
    for (tokens_kind kind = TOKENS_UNIFORM; kind <= TOKENS_ZEROS; kind++)
        for (int next = 0; next < 2; next++)
            for (int i = 0; i < 3; i++) {
                tokens_args args = parts[i];
                args.kind = kind;
                args.labels_next = next || kind == TOKENS_RAMP;
                args.seed = 1234;
                args.vocabulary = i == 1 ? 50 : 128256;
                check_tokens(2500, 3, args);
                check_tokens(1, 1, args);
            }
}

/* In the emulator pow and cos are the host's. */
static void step_scalars(void **state)
{
    const step_begin_args args[] = {
        { .maximum = 8e-5, .minimum = 8e-6, .warmup = 4, .total = 11, .beta1 = 0.9f, .beta2 = 0.95f },
        { .maximum = 1e-3,
          .minimum = 1e-4,
          .warmup = 5,
          .total = 50,
          .from_zero = true,
          .beta1 = 0.9f,
          .beta2 = 0.95f },
        { .maximum = 1e-3, .total = 10, .constant = true, .beta1 = 0.9f, .beta2 = 0.999f }
    };
    sample scalars = sample_open(F64, 1, (int64_t[]){ STEP_SCALARS }, 0),
           loss = sample_open(F64, 1, (int64_t[]){ 1 }, 0);
    sample total = sample_open(U64, 1, (int64_t[]){ EXACT_SUM_WORDS }, 0);
    for (int i = 0; i < 3; i++) {
        op o = { .kind = OP_STEP_BEGIN, .args.step_begin = args[i] };
        for (int k = 0; k < STEP_SCALARS; k++) element_set(&scalars.t, k, k == SCALAR_STEP ? -1 : 0);
        for (int t = 0; t < 13; t++)
            same_bits(&o, 1, (sample *[]){ &scalars }, (access_mode[]){ UPDATE }, "step_begin");
    }
    static const uint64_t sums[][EXACT_SUM_WORDS] = { { 1, 2, 9u << 16 },
                                                      { 0, 9ull << 48, 7, 3 },
                                                      { 1, 1, 1, 1, 2, 0 },
                                                      { 1, 1, 1, 1, 0, 2 },
                                                      { 1, 1, 1, 1, 2, 2 },
                                                      { 0, 0, 0, 1ull << 32 },
                                                      { 0 } };
    element_set(&loss.t, 0, 3.5);
    for (int i = 0; i < 7; i++)
        for (int clip = 0; clip < 3; clip++) {
            op o = { .kind = OP_STEP_CLIP, .args.step_clip = { 2.0 * clip, 3 } };
            memcpy(total.memory, sums[i], sizeof sums[i]);
            same_bits(&o, 3, (sample *[]){ &total, &loss, &scalars }, (access_mode[]){ READ, READ, UPDATE },
                      "step_clip");
        }
    close_all((sample *[]){ &scalars, &loss, &total }, 3);
}

typedef struct {
    int64_t s, b, columns, ranks, valid, gap;
} loss_shape;

static op loss_op(loss_shape n, int64_t rank, cross_entropy_part part)
{
    return (op){ .kind = OP_CROSS_ENTROPY, .args.cross_entropy = { part, rank * n.columns, n.valid, 0.25f } };
}

static sample logits_of(loss_shape n, int64_t rank, dtype type)
{
    sample x = sample_open(type, 3, (int64_t[]){ n.s, n.b, n.columns }, n.gap);
    sample_randomize(&x, (uint32_t)rank, 8.0, 0.0);
    return x;
}

/* The sum differs from the host's by the roundings of both: 8.4e-7 there (cross_entropy.cu); on the host 3e-7 of
 * exponentials twice and those of 64 terms in a row, 3.8e-6 at worst. The host's partial is what the finish starts
 * from. */
static void check_partial(loss_shape n, int64_t rank, dtype type, sample *label, sample *partials)
{
    sample logits = logits_of(n, rank, type), part = sample_open(F32, 3, (int64_t[]){ n.s, n.b, 3 }, 0);
    op o = loss_op(n, rank, CROSS_ENTROPY_PARTIAL);
    char *host[3] = { NULL };
    run_both(&o, 3, (sample *[]){ &logits, label, &part }, (access_mode[]){ READ, READ, WRITE }, host);
    const float *expected = (const float *)(void *)host[2], *got = part.t.data;
    for (int64_t i = 0; i < part.elements; i++)
        assert_true(got[i] == expected[i] || (i % 3 == 1 && fabsf(got[i] - expected[i]) <= 5.2e-6f * expected[i]));
    memcpy((float *)partials->t.data + part.elements * rank, host[2], part.bytes);
    free_hosts(host, 3);
    close_all((sample *[]){ &logits, &part }, 2);
}

static void check_finish(loss_shape n, int64_t rank, dtype type, sample *label, sample *partials)
{
    sample logits = logits_of(n, rank, type), loss = sample_open(F64, 1, &n.b, 0);
    op o = loss_op(n, rank, CROSS_ENTROPY_FINISH);
    same_bits(&o, 4, (sample *[]){ &logits, label, partials, &loss }, (access_mode[]){ UPDATE, READ, READ, WRITE },
              "cross_entropy");
    close_all((sample *[]){ &logits, &loss }, 2);
}

static void check_loss(loss_shape n, dtype type)
{
    sample label = sample_open(I32, 2, (int64_t[]){ n.s, n.b }, 0),
           partials = sample_open(F32, 4, (int64_t[]){ n.ranks, n.s, n.b, 3 }, 0);
    for (int64_t i = 0; i < label.elements; i++) element_set(&label.t, i, (double)(i * 7919 % n.valid));
    for (int64_t rank = 0; rank < n.ranks; rank++) check_partial(n, rank, type, &label, &partials);
    for (int64_t rank = 0; rank < n.ranks; rank++) check_finish(n, rank, type, &label, &partials);
    close_all((sample *[]){ &label, &partials }, 2);
}

static void losses(void **state)
{
    for (dtype type = F32; type <= BF16; type++) {
        check_loss((loss_shape){ 5, 2, 7, 1, 7, 3 }, type);
        check_loss((loss_shape){ 4, 1, 2504, 1, 2497, 8 }, type);
        check_loss((loss_shape){ 1, 2, 20000, 1, 19999, 0 }, type);
        check_loss((loss_shape){ 6, 3, 64, 4, 150, 0 }, type);
        check_loss((loss_shape){ 1100, 1, 16, 1, 14, 0 }, type);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings),    cmocka_unit_test(adamw_updates),     cmocka_unit_test(squares),
        cmocka_unit_test(first_weights), cmocka_unit_test(tokens_and_labels), cmocka_unit_test(step_scalars),
        cmocka_unit_test(losses)
    };
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("step_kernels", tests, NULL, NULL);
    world_stop();
    return failed;
}
