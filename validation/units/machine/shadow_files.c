/* Files of operations: what decides which kernel runs is kept; a file that is no operation is refused, whatever its
 * digest says, and none makes the program crash: thousands of changed files are read, and run where they are operations
 * all the same. */
#include "base/clock.h"
#include "base/say.h"
#include "base/sha256.h"
#include "bench/replay.h"
#include "machine/machine.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MEMORY = 1 << 16, SEVERAL = 8, LONGEST = 1 << 17 };
static char ground[MEMORY] __attribute__((aligned(256)));
static const char path[] = "xgsw-shadow-files.op";

static void read_host(void *from, void *to, tensor t) { memcpy(to, t.data, tensor_span(&t)); }

static operand at(int place, access_mode how, tensor t)
{
    t.data = ground + place;
    return (operand){ t, how };
}

/* Operations of several kinds. */
static op several(int which)
{
    op o = { .origin = { .step = 1, .microbatch = 0, .chunk = 0, .layer = 2, .phase = PHASE_FORWARD, .name = "file" } };
    tensor heads = tensor_4d(NULL, BF16, 6, 2, 2, 8), row = tensor_1d(NULL, F32, 40);
    switch (which) {
    case 0:
        o.kind = OP_MATMUL, o.operands = 3;
        o.operand[0] = at(0, UPDATE, tensor_2d(NULL, F32, 4, 5));
        o.operand[1] = at(1024, READ, tensor_2d(NULL, BF16, 4, 7));
        o.operand[2] = at(2050, READ, tensor_2d(NULL, BF16, 7, 5));
        break;
    case 1:
        o.kind = OP_ATTENTION_BACKWARD, o.operands = 9, o.args.attention = (attention_args){ 0.25f, true };
        for (int i = 0; i < 9; i++)
            o.operand[i] = at(1024 * i, i < 6 ? READ : WRITE, i == 4 ? tensor_3d(NULL, F32, 2, 2, 6) : heads);
        break;
    case 2:
        o.kind = OP_CROSS_ENTROPY, o.operands = 4,
        o.args.cross_entropy = (cross_entropy_args){ CROSS_ENTROPY_FINISH, 0, 10, 1.0f };
        o.operand[0] = at(0, UPDATE, tensor_3d(NULL, F32, 3, 2, 12));
        o.operand[1] = at(1024, READ, tensor_2d(NULL, I32, 3, 2));
        o.operand[2] = at(2048, READ, tensor_4d(NULL, F32, 1, 3, 2, 3));
        o.operand[3] = at(3072, WRITE, tensor_1d(NULL, F64, 2));
        break;
    case 3:
        o.kind = OP_TOKENS, o.operands = 3;
        o.args.tokens = (tokens_args){ .stream = STREAM_RAMP, .labels_next = true, .seed = 1, .vocabulary = 50 };
        o.operand[0] = at(0, READ, tensor_1d(NULL, F64, STEP_SCALARS));
        o.operand[1] = at(1024, WRITE, tensor_2d(NULL, I32, 8, 2));
        o.operand[2] = at(2048, WRITE, tensor_2d(NULL, I32, 8, 2));
        break;
    case 4:
        o.kind = OP_EMBEDDING_BACKWARD, o.operands = 3;
        o.operand[0] = at(0, READ, tensor_2d(NULL, I32, 5, 2));
        o.operand[1] = at(1024, READ, tensor_3d(NULL, BF16, 5, 2, 6));
        o.operand[2] = at(2048, UPDATE, tensor_2d(NULL, F32, 9, 6));
        break;
    case 5:
        o.kind = OP_ADAMW, o.operands = 6,
        o.args.adamw = (adamw_rule){ .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f };
        o.operand[0] = at(0, READ, tensor_1d(NULL, F64, STEP_SCALARS));
        for (int i = 1; i < 6; i++) o.operand[i] = at(1024 * i, i == 1 ? READ : i == 2 ? WRITE : UPDATE, row);
        break;
    case 6:
        o.kind = OP_NORM_FORWARD, o.operands = 6, o.args.norm.epsilon = 1e-5f;
        for (int i = 0; i < 5; i++)
            o.operand[i] =
                at(1024 * (i == 3 ? 0 : i), i < 3 ? READ : WRITE, i == 2 ? row : tensor_2d(NULL, F32, 3, 40));
        o.operand[5] = at(8192, WRITE, tensor_1d(NULL, F32, 3));
        break;
    default: o.kind = OP_FLIP, o.operands = 1, o.args.flip.index = 12; o.operand[0] = at(4, UPDATE, row);
    }
    return o;
}

static size_t file_of(int which, op_home home, char *bytes)
{
    char reason[300];
    op o = several(which);
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
    file_of(6, home, bytes);
    assert_true(op_file_read(path, &c, reason, sizeof reason));
    assert_true(c.home.cuda && c.home.deterministic && c.home.own_attention && c.home.part);
    assert_int_equal(c.home.transfer_multiprocessors, 12);
    assert_int_equal(c.twin[3], 0); /* the sum lies in x */
    assert_ptr_equal(c.op.operand[3].tensor.data, c.op.operand[0].tensor.data);
    assert_int_equal(c.twin[4], -1);
    op_copy_free(&c);
    file_of(7, home, bytes);
    assert_true(op_file_read(path, &c, reason, sizeof reason));
    assert_int_equal(c.place[0], 4);
    op_copy_free(&c);
}

static void an_operation_of_a_gpu_needs_one(void **state)
{
    char bytes[LONGEST], why[256];
    file_of(0, (op_home){ .cuda = true }, bytes);
    assert_int_equal(replay(path), machine_usable(MACHINE_CUDA, why, sizeof why) ? 0 : 2);
}

/* The digest of all that is around it, put where it belongs. */
static void sign(char *bytes, size_t length)
{
    char *digest = memmem(bytes, length, "sha256 ", 7), *data = memmem(bytes, length, "\ndata\n", 6), hex[SHA256_HEX];
    if (!digest || !data || data < digest + 7 + SHA256_HEX - 1) return;
    sha256 s;
    sha256_open(&s);
    sha256_add(&s, bytes, (size_t)(digest - bytes));
    sha256_add(&s, data + 6, length - (size_t)(data + 6 - bytes));
    sha256_close(&s, hex);
    memcpy(digest + 7, hex, SHA256_HEX - 1);
}

static uint32_t state_of_draws = 1;
static uint32_t draw(uint32_t n)
{
    state_of_draws = state_of_draws * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(state_of_draws >> 8) * n >> 24);
}

/* Replaces a word of the text by another. */
static size_t change_word(char *bytes, size_t length)
{
    static const char *const words[] = { "0",
                                         "1",
                                         "2",
                                         "3",
                                         "4",
                                         "7",
                                         "12",
                                         "-1",
                                         "255",
                                         "2147483647",
                                         "4294967296",
                                         "9223372036854775807",
                                         "1/1",
                                         "2/1",
                                         "0/1",
                                         "3/0",
                                         "2147483647/2147483647",
                                         "9223372036854775807/1",
                                         "1/-1",
                                         "read",
                                         "write",
                                         "update",
                                         "F32",
                                         "BF16",
                                         "F64",
                                         "I32",
                                         "U64",
                                         "f32",
                                         "bf16",
                                         "f64",
                                         "matmul",
                                         "copy",
                                         "add",
                                         "rope_forward",
                                         "x" };
    char *data = memmem(bytes, length, "sha256 ", 7), *from = bytes + draw((uint32_t)(data - bytes));
    while (from > bytes && from[-1] != ' ' && from[-1] != '\n') from--;
    char *to = from;
    while (*to != ' ' && *to != '\n') to++;
    const char *word = words[draw(sizeof words / sizeof *words)];
    size_t now = strlen(word);
    memmove(from + now, to, length - (size_t)(to - bytes));
    memcpy(from, word, now);
    return length + now - (size_t)(to - from);
}

static size_t change(char *bytes, size_t length)
{
    uint32_t how = draw(8);
    if (how < 5) return change_word(bytes, length);
    char *args = memmem(bytes, length, "args ", 5);
    if (how == 5 && args) args[5 + draw(2 * sizeof(op_args))] = "0123456789abcdef"[draw(16)];
    if (how == 6) bytes[draw((uint32_t)length)] = (char)draw(256);
    if (how == 7) return 1 + draw((uint32_t)length - 1);
    return length;
}

/* One dimension, stride, format, access or the kind of an operation is another. */
static op changed_op(int which)
{
    op o = several(which);
    for (uint32_t k = 0; k <= draw(3); k++) {
        operand *x = &o.operand[draw((uint32_t)o.operands)];
        int d = (int)draw(TENSOR_DIMS);
        uint32_t how = draw(8);
        if (how < 2) x->tensor.dim[d] = draw(9);
        if (how == 2) x->tensor.stride[d] = draw(9);
        if (how == 3) x->tensor.dims = (int)draw(TENSOR_DIMS + 1);
        if (how == 4) x->tensor.type = (dtype)draw(DTYPES);
        if (how == 5) x->access = (access_mode)draw(3);
        if (how == 6) o.kind = (op_kind)draw(OP_KINDS);
        if (how == 7) *x = o.operand[draw((uint32_t)o.operands)];
    }
    return o;
}

static void write_changed(int which)
{
    char reason[300];
    op o = changed_op(which);
    op_copy c = op_copy_take(&o, false, read_host, NULL);
    remove(path);
    if (!op_file_write(path, &c, reason, sizeof reason)) fail_msg("%s", reason);
    op_copy_free(&c);
}

/* Status of a replay; a refusal says nothing. */
static int quietly(void)
{
    char reason[300];
    op_copy c;
    if (!op_file_read(path, &c, reason, sizeof reason)) return 2;
    bool gpu = c.home.cuda;
    op_copy_free(&c);
    return gpu ? 2 : replay(path);
}

/* Every one of them ends in one of the three ways; unchanged ones pass. */
static void changed_files_are_refused_or_run(void **state)
{
    static const double SECONDS = 3.0;
    static char whole[SEVERAL][LONGEST], bytes[LONGEST + 256];
    size_t length[SEVERAL];
    int64_t ended[3] = { 0 };
    double begin = clock_seconds();
    for (int i = 0; i < SEVERAL; i++) {
        length[i] = file_of(i, (op_home){ 0 }, whole[i]);
        assert_int_equal(replay(path), 0);
    }
    while (clock_seconds() - begin < SECONDS) {
        int i = (int)draw(SEVERAL);
        if (draw(2)) {
            write_changed(i);
        } else {
            size_t now = length[i];
            memcpy(bytes, whole[i], now);
            for (uint32_t k = 0; k <= draw(3) && memmem(bytes, now, "sha256 ", 7); k++) now = change(bytes, now);
            sign(bytes, now);
            write_bytes(bytes, now);
        }
        int status = quietly();
        assert_in_range(status, 0, 2);
        ended[status]++;
    }
    fprintf(stderr, "# %lld changed files passed, %lld differed, %lld were refused\n", (long long)ended[0],
            (long long)ended[1], (long long)ended[2]);
    assert_in_range(ended[0], 1, INT64_MAX);
    assert_int_equal(ended[1], 0);
    assert_in_range(ended[2], 10, INT64_MAX);
}

/* What a digest does not tell: an operation that no filler makes. */
static void other_operations_are_refused(void **state)
{
    static const struct {
        int which;
        const char *from, *to, *reason;
    } changes[] = {
        { 0, "4/5 5/1\n", "2/5 5/1\n", "no operation that xgsw wrote" }, /* the bytes are not all used */
        { 0, "kind matmul", "kind add   ", "differ in shape" },
        { 0, "update", "write ", NULL },
        { 0, "update", "read  ", "writes nothing" },
        { 1, "6/32", "0/32", "no operation that xgsw wrote" },
        { 6, "operands 6", "operands 5", "no operation that xgsw wrote" },
        { 7, "args 0c", "args 28", "out of bounds" },
    };
    static char bytes[LONGEST];
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char reason[300] = "", text[LONGEST / 64];
        op_copy c;
        size_t length = file_of(changes[i].which, (op_home){ 0 }, bytes);
        char *from = memmem(bytes, length, changes[i].from, strlen(changes[i].from));
        if (!from) fail_msg("no %s in %.600s", changes[i].from, bytes);
        snprintf(text, sizeof text, "%s", changes[i].to);
        memcpy(from, text, strlen(changes[i].from));
        /* one blank between words is what is written */
        for (char *at_blank;
             (at_blank = memmem(bytes, length, "  ", 2)) && at_blank < (char *)memmem(bytes, length, "sha256", 6);) {
            memmove(at_blank, at_blank + 1, length - (size_t)(at_blank + 1 - bytes));
            length--;
        }
        char *before_line = memmem(bytes, length, " \n", 2);
        if (before_line && before_line < (char *)memmem(bytes, length, "sha256", 6)) {
            memmove(before_line, before_line + 1, length - (size_t)(before_line + 1 - bytes));
            length--;
        }
        sign(bytes, length);
        write_bytes(bytes, length);
        bool read = op_file_read(path, &c, reason, sizeof reason);
        if (read != !changes[i].reason) fail_msg("%s: %s", changes[i].to, reason);
        if (!read && !strstr(reason, changes[i].reason)) fail_msg("%s: %s", changes[i].to, reason);
        if (read) op_copy_free(&c);
    }
}

static int clean(void **state)
{
    remove(path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_chooses_the_kernel_is_kept),
                                        cmocka_unit_test(an_operation_of_a_gpu_needs_one),
                                        cmocka_unit_test(other_operations_are_refused),
                                        cmocka_unit_test(changed_files_are_refused_or_run) };
    float *value = (float *)ground;
    for (int i = 0; i < MEMORY / 4; i++) value[i] = 0.25f + 0.01f * (float)(i % 50);
    say_enable(false);
    return cmocka_run_group_tests(tests, NULL, clean);
}
