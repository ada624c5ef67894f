/* Files of operations keep everything that selects the kernel. A file that was changed, cut or lengthened anywhere is
 * refused. */
#include "base/say.h"
#include "base/sha256.h"
#include "bench/check/replay.h"
#include "machine/op/kernels.h"
#include "machine/prove/op_file.h"
#include "machine/queue/machine.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MEMORY = 1 << 16, LONGEST = 1 << 17 };
static char ground[MEMORY] __attribute__((aligned(256)));
static const char path[] = "xgsw-shadow-files.op";

static void read_host(void *from, void *to, tensor t) { memcpy(to, t.data, tensor_span(&t)); }

/* A norm with its sum in place of its input; x is misaligned by 4 bytes. */
static op norm_in_place(void)
{
    enum { ROWS = 3, WIDTH = 40 };
    tensor x = tensor_2d(ground + 4, F32, ROWS, WIDTH), out = tensor_2d(ground + 4096, F32, ROWS, WIDTH);
    op o = norm_forward_op((norm_forward_operands){ .x = x,
                                                    .delta = tensor_2d(ground + 2048, F32, ROWS, WIDTH),
                                                    .gain = tensor_1d(ground + 1024, F32, WIDTH),
                                                    .sum = x,
                                                    .out = out,
                                                    .rstd = tensor_1d(ground + 8192, F32, ROWS) },
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

static int clean(void **state)
{
    remove(path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_chooses_the_kernel_is_kept),
        cmocka_unit_test(an_operation_of_a_gpu_needs_one),
        cmocka_unit_test(what_is_not_as_written_is_refused),
    };
    float *value = (float *)ground;
    for (int i = 0; i < MEMORY / 4; i++) value[i] = 0.25f + 0.01f * (float)(i % 50);
    say_enable(false);
    return cmocka_run_group_tests(tests, NULL, clean);
}
