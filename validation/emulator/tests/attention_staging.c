/* The twins of attention's operands, around a library that the emulator does not have: the test writes into the twins
 * what the library would, and finds it stored, or added, where the operands lie. */
#include "machine/cuda/attention/attention_staging.h"
#include "base/numeric.h"
#include "machine/machine.h"
#include "machine/world.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { S = 6, HEADS = 2, D = 8, ELEMENTS = S * HEADS * D, SCRATCH_BYTES = 1 << 14 };
static cudaStream_t stream;
static char *device; /* operands, then scratch */
static size_t used;

static void *taken(size_t bytes)
{
    void *here = device + used;
    used += (bytes + 255) / 256 * 256;
    return here;
}

static tensor operand_of(dtype type) { return tensor_4d(taken(ELEMENTS * sizeof(float)), type, S, 1, HEADS, D); }

static void put(void *to, const void *from, size_t bytes)
{
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
}

static void get(void *to, const void *from, size_t bytes)
{
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

/* first, first + 1, ...: in BF16, too, exact. */
static void put_numbers(tensor t, float first)
{
    float wide[ELEMENTS];
    uint16_t narrow[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) narrow[i] = bf16_round(wide[i] = first + (float)i);
    put(t.data, t.type == F32 ? (void *)wide : narrow, ELEMENTS * dtype_bytes(t.type));
}

static void expect_numbers(tensor t, float first, float step)
{
    float got[ELEMENTS];
    get(got, t.data, sizeof got);
    for (int i = 0; i < ELEMENTS; i++) assert_true(got[i] == first + step * (float)i);
}

static cuda_call call_open(void)
{
    cuda_call c = { .stream = stream, .name = "attention", .scratch_bytes = SCRATCH_BYTES };
    used = 0;
    for (int i = Q; i <= DV; i++) c.x[i] = operand_of(i == DK || i == DV ? F32 : BF16);
    c.x[LSE] = tensor_3d(taken(HEADS * S * sizeof(float)), F32, 1, HEADS, S);
    c.scratch = taken(SCRATCH_BYTES);
    return c;
}

static void what_was_written_is_stored_or_added(void **state)
{
    cuda_call c = call_open(), staged;
    c.update[DK] = true;
    assert_in_range(attention_staged(&c, true, 0, &staged), ELEMENTS * 2 * 2, SCRATCH_BYTES - 256);
    assert_true(!staged.update[DK] && staged.x[DK].type == BF16 && staged.x[DV].type == BF16);
    for (int i = Q; i <= DQ; i++) assert_true(staged.x[i].data == c.x[i].data);
    put_numbers(c.x[DK], 100.0f);
    for (int i = DK; i <= DV; i++) put_numbers(staged.x[i], (float)i);
    attention_unstage(&c, &staged);
    expect_numbers(c.x[DK], 100.0f + DK, 2.0f);
    expect_numbers(c.x[DV], DV, 1.0f);
}

static void forward_has_no_twins(void **state)
{
    cuda_call c = call_open(), staged;
    assert_int_equal(attention_staged(&c, false, 7, &staged), 7);
    assert_memory_equal(&staged, &c, sizeof c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_was_written_is_stored_or_added),
                                        cmocka_unit_test(forward_has_no_twins) };
    world_start(&argc, &argv);
    device = machine_memory_take(MACHINE_CUDA, 1 << 16);
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int failed = cmocka_run_group_tests_name("attention_staging", tests, NULL, NULL);
    CUDA_CHECK(cudaStreamDestroy(stream));
    machine_memory_give_back(MACHINE_CUDA, device);
    world_stop();
    return failed;
}
