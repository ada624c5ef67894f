/* All ranks agree on the engine for attention. The test replaces the library: it fails on the last rank. */
#include "base/fail.h"
#include "machine/cuda/attention/attention.h"
#include "machine/cuda/attention/attention_library.h"
#include "machine/cuda/kernels/compute.h"
#include "machine/op/kernels.h"
#include "machine/queue/machine.h"
#include "machine/world.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { S = 8, D = 16, BYTES = 1 << 16 };
static bool fails;
static char *device;
static cudaStream_t stream;
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

static tensor taken(size_t *used, dtype type, int64_t a, int64_t b, int64_t c, int64_t d)
{
    tensor t = tensor_4d(device + *used, type, a, b, c, d);
    *used += (tensor_span(&t) + 255) / 256 * 256;
    return t;
}

static void attend(void)
{
    size_t used = 0;
    tensor x[4];
    for (int i = 0; i < 4; i++) x[i] = taken(&used, BF16, S, 1, 1, D);
    tensor lse = tensor_3d(device + used, F32, 1, 1, S);
    op o = attention_forward_op((attention_forward_operands){ x[0], x[1], x[2], x[3], lse },
                                (attention_args){ .causal = true, .scale = 0.25f });
    cuda_compute(&o, device + BYTES / 2, BYTES / 2, stream);
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(none_takes_what_one_cannot_run),
                                        cmocka_unit_test(all_take_what_all_can_run),
                                        cmocka_unit_test(what_fails_later_ends_the_run) };
    world_start(&argc, &argv);
    device = machine_memory_take(MACHINE_CUDA, BYTES);
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int failed = cmocka_run_group_tests_name("attention_agreement", tests, NULL, NULL);
    CUDA_CHECK(cudaStreamDestroy(stream));
    machine_memory_give_back(MACHINE_CUDA, device);
    world_stop();
    return failed;
}
