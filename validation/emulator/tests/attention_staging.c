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

enum { S = 6, HEADS = 2, D = 8, ELEMENTS = S * HEADS * D, ROWS = HEADS * S, GAP = 3, SCRATCH_BYTES = 1 << 14 };
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

/* Statistics of the last S of S + GAP positions. */
static tensor statistics(void)
{
    tensor whole = tensor_3d(taken((ROWS + HEADS * GAP) * sizeof(float)), F32, 1, HEADS, S + GAP);
    return tensor_slice(whole, 2, GAP, S);
}

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

static cuda_call call_open(bool backward)
{
    cuda_call c = { .stream = stream, .name = "attention", .scratch_bytes = SCRATCH_BYTES };
    used = 0;
    for (int i = Q; i <= (backward ? DV : OUT); i++)
        c.x[i] = operand_of(i == Q || i == K || i == V || i == D_OUT ? BF16 : F32);
    if (backward) c.x[OUT].type = BF16;
    c.x[LSE] = statistics();
    c.scratch = taken(SCRATCH_BYTES);
    return c;
}

static void what_forward_wrote_is_stored(void **state)
{
    float rows[HEADS * (S + GAP)], twin[ROWS];
    cuda_call c = call_open(false), staged;
    assert_in_range(attention_staged(&c, false, 0, &staged), ELEMENTS * 2 + ROWS * 4, SCRATCH_BYTES - 256);
    assert_true(staged.x[OUT].type == BF16 && tensor_contiguous(&staged.x[LSE]) && staged.x[Q].data == c.x[Q].data);
    for (int i = 0; i < HEADS * (S + GAP); i++) rows[i] = -1.0f;
    for (int i = 0; i < ROWS; i++) twin[i] = (float)i;
    put((float *)c.x[LSE].data - GAP, rows, sizeof rows);
    attention_stage(&c, false, &staged);
    put_numbers(staged.x[OUT], 5.0f);
    put(staged.x[LSE].data, twin, sizeof twin);
    attention_unstage(&c, false, &staged);
    expect_numbers(c.x[OUT], 5.0f, 1.0f);
    get(rows, (float *)c.x[LSE].data - GAP, sizeof rows);
    for (int i = 0; i < HEADS * (S + GAP); i++) {
        int head = i / (S + GAP), position = i % (S + GAP) - GAP;
        assert_true(rows[i] == (position < 0 ? -1.0f : (float)(head * S + position)));
    }
}

static void what_backward_wrote_is_stored_or_added(void **state)
{
    float rows[HEADS * (S + GAP)], twin[ROWS];
    cuda_call c = call_open(true), staged;
    c.update[DQ] = true;
    attention_staged(&c, true, 0, &staged);
    assert_true(!staged.update[DQ] && staged.x[DK].type == BF16 && staged.x[OUT].data == c.x[OUT].data);
    for (int i = 0; i < HEADS * (S + GAP); i++) rows[i] = (float)i;
    put((float *)c.x[LSE].data - GAP, rows, sizeof rows);
    put_numbers(c.x[DQ], 100.0f);
    attention_stage(&c, true, &staged);
    get(twin, staged.x[LSE].data, sizeof twin);
    for (int i = 0; i < ROWS; i++) assert_true(twin[i] == (float)(i / S * (S + GAP) + GAP + i % S));
    for (int i = DQ; i <= DV; i++) put_numbers(staged.x[i], (float)i);
    attention_unstage(&c, true, &staged);
    expect_numbers(c.x[DQ], 100.0f + DQ, 2.0f);
    expect_numbers(c.x[DK], DK, 1.0f);
    expect_numbers(c.x[DV], DV, 1.0f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_forward_wrote_is_stored),
                                        cmocka_unit_test(what_backward_wrote_is_stored_or_added) };
    world_start(&argc, &argv);
    device = machine_memory_take(MACHINE_CUDA, 1 << 16);
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int failed = cmocka_run_group_tests_name("attention_staging", tests, NULL, NULL);
    CUDA_CHECK(cudaStreamDestroy(stream));
    machine_memory_give_back(MACHINE_CUDA, device);
    world_stop();
    return failed;
}
