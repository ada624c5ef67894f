/* Prepares the operations noted on paper: chooses algorithms, makes plans, and runs every kernel once. */
#include "base/arena.h"
#include "machine/cuda/attention/attention.h"
#include "machine/cuda/device/memory.h"
#include "machine/cuda/executor.h"
#include "machine/cuda/kernels/compute.h"
#include "machine/cuda/products/matmul.h"
#include "machine/cuda/queue.h"
#include "machine/cuda/transfers/fabric.h"
#include "machine/op/activity.h"

/* Copies a noted operation to *o with addresses in the arena. Returns false if this arena is too small for them. */
static bool placed(const op *noted, void *memory, size_t bytes, op *o)
{
    *o = *noted;
    for (int i = 0; i < o->operands; i++) {
        tensor *t = &o->operand[i].tensor;
        if (!tensor_present(t)) continue;
        size_t at = tensor_span(t) ? arena_paper_offset(t->data) : 0;
        if (at > bytes || tensor_span(t) > bytes - at) return false;
        t->data = (char *)memory + at;
    }
    return true;
}

/* Uses the end of the arena as scratch. An arena is large enough for any operation's scratch. */
static void run_one(const op *noted, void *memory, size_t bytes, cudaStream_t stream)
{
    op o;
    if (op_is_transfer(noted->kind)) return;
    size_t scratch = (cuda_scratch_bytes(noted) + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (scratch > bytes || !placed(noted, memory, bytes, &o)) return;
    cuda_compute(&o, (char *)memory + bytes - scratch, scratch, stream);
    activity_progress();
}

/* Runs every noted operation once on an arena of zeros, before the first step. CUDA loads a kernel at its first launch,
 * and loading waits for the device. In a step that could be a deadlock: a receive posted early may occupy the device
 * and wait for the operation whose kernel is being loaded. */
static void rehearse(const preparation *p, void *memory, size_t bytes)
{
    cudaStream_t stream;
    cuda_memory_clear(memory, 0, bytes);
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda_attention_rehearse(true);
    for (int i = 0; i < p->notes; i++) run_one(&p->note[i].op, memory, bytes, stream);
    cuda_attention_rehearse(false);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaStreamDestroy(stream));
}

void cuda_executor_tune(void *state, const preparation *p, void *memory, size_t bytes)
{
    const cuda_executor *e = state;
    cuda_attention_settings(&e->options.tuning);
    for (int i = 0; i < p->notes; i++) {
        op o = p->note[i].op;
        o.origin.name = p->note[i].name;
        if (o.kind == OP_MATMUL || o.kind == OP_GROUPED_MATMUL) cuda_matmul_prepare(&o);
        if (o.kind == OP_ATTENTION_FORWARD || o.kind == OP_ATTENTION_BACKWARD) cuda_attention_prepare(&o);
    }
    cuda_attention_tune();
    cuda_matmul_tune(&e->options.tuning, memory, bytes);
    rehearse(p, memory, bytes);
}
