/* A wrong kernel on the emulated GPU: the shadow names the operation and writes its file. Replaying the file fails as
 * long as the kernel is wrong; a correct kernel passes both. The wrong kernel is the real one, followed by a flipped
 * bit. */
#include "bench/check/replay.h"
#include "machine/cuda/kernels/kernels.h"
#include "machine/prove/prove.h"
#include "machine/queue/submit.h"

#include "units/folder.h"
#include "units/tests.h"

enum { ROWS = 6, HALF = 24, WRONG = 77 };
static bool wrong;
static unsigned place[2]; /* of the last kernel's operands, modulo 256 */

void __real_cuda_swiglu_forward(const cuda_call *c);
void __wrap_cuda_swiglu_forward(const cuda_call *c);
void __wrap_cuda_swiglu_forward(const cuda_call *c)
{
    cuda_call flip = { .x = { c->x[1] }, .args.flip.index = WRONG, .stream = c->stream };
    for (int i = 0; i < 2; i++) place[i] = (unsigned)((uintptr_t)c->x[i].data % 256);
    __real_cuda_swiglu_forward(c);
    if (wrong) cuda_flip(&flip);
}

static shadow_report run_swiglu(shadow_mode mode, const char *files)
{
    machine_options options = { .kind = MACHINE_CUDA, .world_rank = 5 };
    snprintf(options.name, sizeof options.name, "%s", files);
    float value[ROWS * 2 * HALF];
    for (int i = 0; i < ROWS * 2 * HALF; i++) value[i] = 0.01f * (float)(i % 97) - 0.4f;
    char *memory = machine_memory_take(MACHINE_CUDA, 4096 + sizeof value);
    machine *m = machine_open(&options);
    prove_shadow(m, mode);
    queue *q = machine_queue(m, "compute");
    tensor gate_up = tensor_2d(memory + 12, F32, ROWS, 2 * HALF),
           out = tensor_2d(memory + sizeof value + 40, F32, ROWS, HALF);
    machine_upload(m, gate_up, value);
    machine_origin(m, (origin){ .step = 1, .microbatch = 0, .chunk = 0, .layer = 2, .phase = PHASE_FORWARD });
    submit(q, "act", swiglu_forward_op(gate_up, out));
    machine_sync(m);
    shadow_report r = *prove_shadowed(m);
    machine_close(m);
    machine_memory_give_back(MACHINE_CUDA, memory);
    return r;
}

static void a_right_kernel_passes(void **state)
{
    wrong = false;
    shadow_report r = run_swiglu(SHADOW_FULL, "");
    assert_int_equal(r.operations, 1);
    assert_int_equal(r.elements, ROWS * HALF);
    assert_int_equal(r.failed, 0);
}

static void a_wrong_kernel_is_named_and_fails_again(void **state)
{
    wrong = true;
    shadow_report r = run_swiglu(SHADOW_FULL, "");
    assert_int_equal(r.failed, 1);
    assert_non_null(strstr(
        r.sentence, "swiglu_forward act (step 1, microbatch 0, chunk 0, layer 2, forward): element 77 of out is"));
    assert_string_equal(r.file, "xgsw-mismatch-5.op");
    const unsigned was[2] = { place[0], place[1] };
    assert_int_equal(was[0], 12);
    place[0] = place[1] = 256;
    assert_int_equal(replay(r.file), 1);
    assert_memory_equal(place, was, sizeof was); /* same kernel: its path depends on the operands' addresses */
    wrong = false;
    assert_int_equal(replay(r.file), 0);
    remove(r.file);
}

static void a_part_of_it_is_named_and_fails_again(void **state)
{
    wrong = true;
    shadow_report r = run_swiglu(SHADOW_SAMPLED, "case3-timed");
    assert_int_equal(r.failed, 1);
    assert_non_null(strstr(r.sentence, "element 77 of a part of out is"));
    assert_string_equal(r.file, "xgsw-mismatch-case3-timed-5.op");
    assert_int_equal(replay(r.file), 1);
    wrong = false;
    assert_int_equal(run_swiglu(SHADOW_SAMPLED, "").failed, 0);
    remove(r.file);
}

TEST_PROGRAM("shadow_machine", enter_folder, leave_folder, a_right_kernel_passes,
             a_wrong_kernel_is_named_and_fails_again, a_part_of_it_is_named_and_fails_again)
