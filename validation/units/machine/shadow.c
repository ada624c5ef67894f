/* The shadow names a wrong operation and writes it to a file, which can be replayed; a correct operation passes. Files
 * keep everything that selects the kernel; a file that was changed, cut or lengthened anywhere is refused. */
#include "base/say.h"
#include "bench/check/replay.h"
#include "machine/op/kernels.h"
#include "machine/op/limits.h"
#include "machine/prove/op_file.h"
#include "machine/prove/prove.h"
#include "units/folder.h"
#include "units/machine/operations/operations.h"

enum { ROWS = 40, WIDTH = 96, INNER = 72 };

typedef struct {
    machine *machine;
    queue *queue;
    sample a, b, c;
    void *scratch;
} fixture;

static fixture open_product(shadow_mode mode)
{
    fixture f = { .a = SAMPLE(BF16, 0, ROWS, INNER),
                  .b = SAMPLE(BF16, 0, INNER, WIDTH),
                  .c = SAMPLE(F32, 5, ROWS, WIDTH) };
    machine_options options = { .kind = MACHINE_HOST };
    sample_randomize(&f.a, 1, 1.0, 0.0);
    sample_randomize(&f.b, 2, 1.0, 0.0);
    sample_randomize(&f.c, 3, 1.0, 0.0);
    f.machine = machine_open(&options);
    prove_shadow(f.machine, mode);
    f.queue = machine_queue(f.machine, "compute");
    f.scratch = aligned_alloc(ARENA_ALIGNMENT, 1 << 20);
    queue_set_scratch(f.queue, f.scratch, 1 << 20);
    return f;
}

static void close_product(fixture *f)
{
    machine_close(f->machine);
    release();
    free(f->scratch);
}

static void right_ones_pass(void **state)
{
    for (shadow_mode mode = SHADOW_FULL; mode <= SHADOW_SAMPLED; mode++) {
        fixture f = open_product(mode);
        static char name[64][16];
        for (int i = 0; i < 64; i++) {
            snprintf(name[i], sizeof name[i], "product %d", i % 32);
            submit(f.queue, name[i], matmul_op(f.c.t, UPDATE, f.a.t, f.b.t));
        }
        machine_sync(f.machine);
        const shadow_report *r = prove_shadowed(f.machine);
        assert_int_equal(r->failed, 0);
        assert_int_equal(r->operations, mode == SHADOW_FULL ? 64 : 0);
        assert_int_equal(r->elements, r->operations * ROWS * WIDTH);
        assert_int_equal(r->products, mode == SHADOW_SAMPLED); /* all have the same form */
        assert_int_equal(r->comparisons, r->products * ROWS);
        assert_true(r->worst_comparison <= signed_sum_limit((double)r->comparisons));
        close_product(&f);
    }
}

static void read_host(void *from, void *to, tensor t) { memcpy(to, t.data, tensor_span(&t)); }

/* Computes out = a + b, with an error of `units` in the last place of one element, as the result of a machine. */
static const char *files = "7";
static shadow_report added_with(int64_t wrong, uint32_t units)
{
    enum { N = 100 };
    static float a[N], b[N], out[N];
    shadow *s = shadow_open((op_home){ 0 }, files);
    op o = { .kind = OP_ADD,
             .operands = 3,
             .origin = { .step = 2, .microbatch = 1, .chunk = -1, .layer = 3, .name = "sum of two" } };
    float *data[] = { out, a, b };
    for (int i = 0; i < 3; i++) o.operand[i] = (operand){ tensor_1d(data[i], F32, N), i ? READ : WRITE };
    for (int i = 0; i < N; i++) a[i] = (float)random_value(1, i), b[i] = (float)random_value(2, i);
    shadow_set(s, SHADOW_FULL);
    assert_true(shadow_wants(s, &o));
    shadow_before(s, &o, read_host, NULL);
    for (int i = 0; i < N; i++) out[i] = a[i] + b[i];
    out[wrong] = float_from_bits(float_bits(out[wrong]) + units);
    shadow_after(s, &o, read_host, NULL);
    shadow_report r = *shadow_read(s);
    shadow_close(s);
    return r;
}

static void wrong_results_are_named(void **state)
{
    char reason[300];
    op_copy c;
    assert_int_equal(added_with(17, 0).failed, 0);
    shadow_report r = added_with(17, 1);
    assert_int_equal(r.failed, 1);
    assert_non_null(strstr(r.sentence, "add sum of two (step 2, microbatch 1, layer 3"));
    assert_non_null(strstr(r.sentence, "element 17 of out is"));
    assert_string_equal(r.file, "xgsw-mismatch-7.op");
    assert_true(op_file_read(r.file, &c, reason, sizeof reason));
    assert_int_equal(c.op.kind, OP_ADD);
    assert_int_equal(c.op.origin.layer, 3);
    assert_float_equal(((float *)c.op.operand[2].tensor.data)[99], random_value(2, 99), 1e-7);
    op_copy_free(&c);
    assert_int_equal(replay(r.file), 0);
    shadow_report again = added_with(5, 1);
    assert_string_equal(again.file, "xgsw-mismatch-7.1.op");
    assert_non_null(strstr(again.sentence, "element 5 of out"));
    remove(again.file);
    remove(r.file);
}

static void who_cannot_write_says_why(void **state)
{
    files = "no folder/7";
    shadow_report r = added_with(17, 1);
    assert_int_equal(r.failed, 1);
    assert_string_equal(r.file, "");
    assert_non_null(strstr(r.unwritten, "xgsw-mismatch-no folder/7.op: No such file"));
    files = "7";
}

static const op_home gpu = { .cuda = true };

/* Adam's corrections may differ by the error of pow, which is largest in the first step, and by no more. */
static void corrections_may_be_as_far_as_pow(void **state)
{
    op o = { .kind = OP_STEP_BEGIN, .operands = 1, .args.step_begin = { .beta1 = 0.9f, .beta2 = 0.95f } };
    o.operand[0] = (operand){ tensor_1d(NULL, F64, 8), UPDATE };
    double beta = (double)0.95f, right = 1 / (1 - beta), off = 1 / (1 - beta * (1 + 0x1p-51)),
           allowed = shadow_limit_of(&o, &gpu, 0).roundings;
    assert_true((off - right) / right > 16 * 0x1p-52 && (off - right) / right < allowed && allowed < 1e-13);
}

/* The common part of all keys does not affect dq, but its roundings do. dk and dv do not depend on it. */
static void common_keys_widen_dq(void **state)
{
    enum { KEYS = 64, D = 16 };
    static float k[KEYS * D];
    op o = { .kind = OP_ATTENTION_BACKWARD, .operands = 9 };
    for (int i = 0; i < 9; i++) o.operand[i] = (operand){ tensor_4d(NULL, BF16, KEYS, 1, 1, D), i < 6 ? READ : WRITE };
    o.operand[1].tensor = tensor_4d(k, F32, KEYS, 1, 1, D);
    double allowed[2];
    for (int mean = 0; mean < 2; mean++) {
        for (int i = 0; i < KEYS * D; i++) k[i] = (float)random_value(4, i) + (float)(5 * mean);
        allowed[mean] = shadow_limit_of(&o, &gpu, 6).absolute;
        assert_true(shadow_limit_of(&o, &gpu, 7).absolute < 0x1p-6 + 0x1p-15 &&
                    shadow_limit_of(&o, &gpu, 8).absolute < 0x1p-6 + 0x1p-15);
    }
    assert_true(allowed[0] >= 0x1p-6 && allowed[0] < 1.2 * 0x1p-6);
    assert_true(allowed[1] > 6 * 0x1p-6 &&
                allowed[1] < 11 * 0x1p-6); /* 5 / 0.577, and what a channel's deviation varies */
}

/* ---- files ---- */

enum { MEMORY = 1 << 16, LONGEST = 1 << 17 };
static char ground[MEMORY] __attribute__((aligned(256)));
static const char path[] = "a-file.op";

/* A norm with its sum in place of its input; x is misaligned by 4 bytes. */
static op norm_in_place(void)
{
    enum { LINES = 3, COLUMNS = 40 };
    tensor x = tensor_2d(ground + 4, F32, LINES, COLUMNS), out = tensor_2d(ground + 4096, F32, LINES, COLUMNS);
    op o = norm_forward_op((norm_forward_operands){ .x = x,
                                                    .delta = tensor_2d(ground + 2048, F32, LINES, COLUMNS),
                                                    .gain = tensor_1d(ground + 1024, F32, COLUMNS),
                                                    .sum = x,
                                                    .out = out,
                                                    .rstd = tensor_1d(ground + 8192, F32, LINES) },
                           1e-5f);
    assert_null(o.error);
    o.origin = (origin){ .step = 1, .microbatch = 0, .chunk = 0, .layer = 2, .phase = PHASE_FORWARD, .name = "a file" };
    return o;
}

/* Writes the operation's file and reads it back; returns its length. */
static size_t file_of(op_home home, char *bytes)
{
    char reason[300];
    op o = norm_in_place();
    op_copy c = op_copy_take(&o, false, read_host, NULL);
    c.home = home;
    remove(path);
    if (!op_file_write(path, &c, reason, sizeof reason)) fail_msg("%s", reason);
    op_copy_free(&c);
    FILE *f = fopen(path, "rb");
    size_t length = fread(bytes, 1, LONGEST, f);
    fclose(f);
    return length;
}

static void write_bytes(const char *bytes, size_t length)
{
    FILE *f = fopen(path, "wb");
    fwrite(bytes, 1, length, f);
    fclose(f);
}

static void what_chooses_the_kernel_is_kept(void **state)
{
    char bytes[LONGEST], reason[300];
    op_copy c;
    op_home home = {
        .cuda = true, .deterministic = true, .own_attention = true, .part = true, .transfer_multiprocessors = 12
    };
    file_of(home, bytes);
    assert_true(op_file_read(path, &c, reason, sizeof reason));
    assert_true(c.home.cuda && c.home.deterministic && c.home.own_attention && c.home.part);
    assert_int_equal(c.home.transfer_multiprocessors, 12);
    assert_string_equal(c.op.origin.name, "a file");
    assert_int_equal(c.offset[0], 4);
    assert_int_equal(c.twin[3], 0); /* the sum is in x's place */
    assert_ptr_equal(c.op.operand[3].tensor.data, c.op.operand[0].tensor.data);
    assert_int_equal(c.twin[4], -1);
    op_copy_free(&c);
}

static void an_operation_of_a_gpu_needs_one(void **state)
{
    char bytes[LONGEST], why[256];
    file_of((op_home){ .cuda = true }, bytes);
    assert_int_equal(replay(path), machine_usable(MACHINE_CUDA, why, sizeof why) ? 0 : 2);
}

static void refused(const char *bytes, size_t length)
{
    char reason[300];
    op_copy c;
    write_bytes(bytes, length);
    if (op_file_read(path, &c, reason, sizeof reason)) fail_msg("read, though changed");
}

/* Changes a byte anywhere, cuts the file or lengthens it. */
static void what_is_not_as_written_is_refused(void **state)
{
    enum { STRIDE = 11 };
    static char bytes[LONGEST];
    size_t length = file_of((op_home){ 0 }, bytes);
    assert_int_equal(replay(path), 0);
    for (size_t i = 0; i < length; i += STRIDE) {
        bytes[i] ^= 0x10;
        refused(bytes, length);
        bytes[i] ^= 0x10;
    }
    for (size_t shorter = 0; shorter < length; shorter += STRIDE) refused(bytes, shorter);
    bytes[length] = 0;
    refused(bytes, length + 1);
    refused(bytes, 2 * length);
    assert_int_equal(replay(path), 2);
    write_bytes(bytes, length);
    assert_int_equal(replay(path), 0);
}

int main(void)
{
    TESTS(tests, right_ones_pass, wrong_results_are_named, who_cannot_write_says_why, corrections_may_be_as_far_as_pow,
          common_keys_widen_dq, what_chooses_the_kernel_is_kept, an_operation_of_a_gpu_needs_one,
          what_is_not_as_written_is_refused);
    float *value = (float *)ground;
    for (int i = 0; i < MEMORY / 4; i++) value[i] = 0.25f + 0.01f * (float)(i % 50);
    say_enable(false);
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
