/* Attention on the CUDA machine: parts of calls and copies of their operands for a library (which the emulator does not
 * have), and the engine on which all ranks agree. The test stands in for the library: it writes results to the copies
 * and checks that they are stored in or added to the operands, and it fails on the last rank. The own kernels compute
 * the parts and the whole. */
#include "base/fail.h"
#include "base/numeric.h"
#include "machine/cuda/attention/attention.h"
#include "machine/cuda/attention/attention_staging.h"
#include "machine/cuda/kernels/compute.h"
#include "machine/op/kernels.h"
#include "machine/world.h"
#include "units/tests.h"

enum { S = 6, KEYS = 10, HEADS = 2, D = 8, ELEMENTS = S * HEADS * D, SCRATCH_BYTES = 1 << 15, DEVICE_BYTES = 1 << 16 };
static cudaStream_t stream;
static char *device; /* operands, then scratch */
static size_t used;

static void *taken(size_t bytes)
{
    void *here = device + used;
    used += (bytes + 255) / 256 * 256;
    return here;
}

static tensor operand_of(dtype type, int64_t positions)
{
    return tensor_4d(taken((size_t)positions * HEADS * D * sizeof(float)), type, positions, 1, HEADS, D);
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

/* Sets first, first + 1, ..., which are exact in BF16, too. */
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

static bool is_by_key(int which) { return which == K || which == V || which == DK || which == DV; }

static cuda_call call_open(int64_t keys)
{
    cuda_call c = { .stream = stream, .name = "attention", .scratch_bytes = SCRATCH_BYTES };
    used = 0;
    for (int i = Q; i <= DV; i++) c.x[i] = operand_of(i == DK || i == DV ? F32 : BF16, is_by_key(i) ? keys : S);
    c.x[LSE] = tensor_3d(taken(HEADS * S * sizeof(float)), F32, 1, HEADS, S);
    c.scratch = taken(SCRATCH_BYTES);
    return c;
}

static void what_was_written_is_stored_or_added(void **state)
{
    cuda_call c = call_open(S);
    c.update[DK] = true;
    c.args.attention.causal = true;
    attention_parts p = attention_parts_of(&c, true, 0);
    const cuda_call *staged = &p.part[0];
    assert_int_equal(p.parts, 1);
    assert_in_range(p.end, ELEMENTS * 2 * 2, SCRATCH_BYTES - 256);
    assert_true(!staged->update[DK] && staged->x[DK].type == BF16 && staged->x[DV].type == BF16);
    for (int i = Q; i <= DQ; i++) assert_true(staged->x[i].data == c.x[i].data);
    put_numbers(c.x[DK], 100.0f);
    for (int i = DK; i <= DV; i++) put_numbers(staged->x[i], (float)i);
    attention_unstage(&c, &p);
    expect_numbers(c.x[DK], 100.0f + DK, 2.0f);
    expect_numbers(c.x[DV], DV, 1.0f);
}

static void forward_has_no_staging(void **state)
{
    cuda_call c = call_open(KEYS);
    c.args.attention.causal = true;
    attention_parts p = attention_parts_of(&c, false, 7);
    assert_int_equal(p.end, 7);
    assert_int_equal(p.parts, 1);
    assert_memory_equal(&p.part[0], &c, sizeof c);
}

/* ---- parts and the whole ---- */

/* Sets numbers of the size of normalized rows, with signs and digits that look random. */
static void put_waves(tensor t, double start)
{
    uint16_t narrow[KEYS * HEADS * D];
    int64_t n = tensor_elements(&t);
    for (int64_t i = 0; i < n; i++) narrow[i] = bf16_round((float)sin(start + 1.7 * (double)(i * i % 101)));
    put(t.data, narrow, (size_t)n * sizeof *narrow);
}

static void get_values(float *to, tensor t)
{
    uint16_t narrow[KEYS * HEADS * D];
    int64_t n = tensor_elements(&t);
    get(t.type == F32 ? (void *)to : narrow, t.data, tensor_span(&t));
    for (int64_t i = 0; t.type == BF16 && i < n; i++) to[i] = bf16_widen(narrow[i]);
}

static void run_parts(const cuda_call *c, attention_parts *p)
{
    for (int i = 0; i < p->parts; i++) {
        p->part[i].scratch = attention_scratch_at(c, p->end);
        p->part[i].scratch_bytes = SCRATCH_BYTES - p->end - 256;
        plain_attention_backward(&p->part[i]);
    }
    attention_unstage(c, p);
}

/* Rounding to BF16 (8 bits) has an error of at most 2^-8. dk and dv are rounded in the parts, but not in the whole. dq
 * is rounded in both, and each part of it (at most |dq| + |second|, and |second|) before. 1e-6 allows for other orders
 * in FP32. */
static void expect_near(const cuda_call *c, int which, const float *whole, const float *second)
{
    float got[KEYS * HEADS * D];
    get_values(got, c->x[which]);
    for (int64_t i = 0; i < tensor_elements(&c->x[which]); i++) {
        float roundings = which == DQ ? 3.0f * fabsf(whole[i]) + 2.0f * fabsf(second[i]) : fabsf(whole[i]);
        assert_true(fabsf(got[i] - whole[i]) <= 1.01f * 0x1p-8f * roundings + 1e-6f);
    }
}

static void parts_make_the_whole(void **state)
{
    cuda_call c = call_open(KEYS);
    float whole[DV + 1][KEYS * HEADS * D], second[KEYS * HEADS * D];
    c.args.attention = (attention_args){ .causal = true, .scale = 0.4f };
    for (int i = Q; i <= D_OUT; i++)
        if (i != OUT && i != LSE) put_waves(c.x[i], i);
    plain_attention_forward(&c);
    plain_attention_backward(&c);
    for (int i = DQ; i <= DV; i++) get_values(whole[i], c.x[i]);
    attention_parts p = attention_parts_of(&c, true, 0);
    assert_int_equal(p.parts, 2);
    assert_false(p.part[1].args.attention.causal);
    CUDA_CHECK(cudaMemset(c.x[DQ].data, 0xFF, tensor_span(&c.x[DQ])));
    run_parts(&c, &p);
    get_values(second, p.part[1].x[DQ]);
    for (int i = DQ; i <= DV; i++) expect_near(&c, i, whole[i], second);
}

/* ---- the engine ---- */

static bool fails;
static jmp_buf ended;

bool library_attention_takes(const cuda_call *c, bool backward) { return true; }
size_t library_attention_scratch(const cuda_call *c, bool backward) { return 0; }
void library_attention_limit_sms(int sms) {}
void library_attention_note(const cuda_call *c, bool backward) {}
void library_attention_tune(void) {}
bool library_attention_run(const cuda_call *c, bool backward, const char **why)
{
    *why = "the engine does not run";
    return !fails;
}
const char *library_attention_version(char *text, size_t length) { return strncpy(text, "the test's", length); }

/* One call of attention with heads of 16 channels, which the library takes. */
static void attend(void)
{
    enum { POSITIONS = 8, CHANNELS = 16 };
    tensor x[4];
    used = 0;
    for (int i = 0; i < 4; i++) x[i] = tensor_4d(taken(POSITIONS * CHANNELS * 2), BF16, POSITIONS, 1, 1, CHANNELS);
    tensor lse = tensor_3d(taken(POSITIONS * sizeof(float)), F32, 1, 1, POSITIONS);
    op o = attention_forward_op((attention_forward_operands){ x[0], x[1], x[2], x[3], lse },
                                (attention_args){ .causal = true, .scale = 0.25f });
    cuda_compute(&o, device + DEVICE_BYTES / 2, DEVICE_BYTES / 2, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
}

static const char *engine(void)
{
    static char text[400];
    return cuda_attention_engine(text, sizeof text);
}

static bool is_last(void) { return world_rank() == world_ranks() - 1; }

static void rehearse(bool fails_now)
{
    fails = fails_now;
    cuda_attention_open(&(machine_tuning){ .deterministic = false });
    cuda_attention_rehearse(true);
    attend();
    cuda_attention_rehearse(false);
    machine_agree(MACHINE_CUDA);
}

static void none_takes_what_one_cannot_run(void **state)
{
    char words[100];
    rehearse(is_last());
    fails = false;
    attend();
    snprintf(words, sizeof words, "forward own kernels (mma.sync), backward not run: rank %d: the engine does not run",
             world_ranks() - 1);
    assert_string_equal(engine(), words);
}

static void all_take_what_all_can_run(void **state)
{
    rehearse(false);
    attend();
    assert_string_equal(engine(), "forward cuDNN, backward not run");
}

static void go_on(int status) { longjmp(ended, status); }

static void what_fails_later_ends_the_run(void **state)
{
    rehearse(false);
    fails = is_last();
    fail_install(go_on, "as expected");
    int status = setjmp(ended);
    if (status == 0) attend();
    assert_int_equal(status, is_last() ? STATUS_FAILED : 0);
    fail_install(world_abort, "a rank");
}

int main(int argc, char **argv)
{
    TESTS(tests, what_was_written_is_stored_or_added, forward_has_no_staging, parts_make_the_whole,
          none_takes_what_one_cannot_run, all_take_what_all_can_run, what_fails_later_ends_the_run);
    world_start(&argc, &argv);
    device = machine_memory_take(MACHINE_CUDA, DEVICE_BYTES);
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int failed = cmocka_run_group_tests_name("cuda_attention", tests, NULL, NULL);
    CUDA_CHECK(cudaStreamDestroy(stream));
    machine_memory_give_back(MACHINE_CUDA, device);
    world_stop();
    return failed;
}
