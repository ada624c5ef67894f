/* The rehearsal. */
#include "machine/cuda/rehearsal.h"
#include "base/arena.h"
#include "machine/cuda/cuda.h"
#include "machine/cuda/device/memory.h"
#include "machine/cuda/transfers/fabric.h"
#include "machine/world.h"

/* The operation on the arena itself; false if it was noted of another arena. */
static bool placed(const op *noted, void *memory, size_t bytes, op *o)
{
    *o = *noted;
    for (int i = 0; i < o->operands; i++) {
        tensor *t = &o->operand[i].tensor;
        size_t at = tensor_span(t) ? arena_paper_offset(t->data) : 0;
        if (at > bytes || tensor_span(t) > bytes - at) return false;
        t->data = (char *)memory + at;
    }
    return true;
}

/* Of a transfer its conversion. Scratch lies at the arena's end and is at least as large as that of any operation. */
static void run_one(const op *noted, void *memory, size_t bytes, cudaStream_t stream)
{
    op o, copy;
    if (cuda_transfer_conversion(noted, &copy)) noted = &copy;
    if (op_is_transfer(noted->kind)) return;
    size_t scratch = (cuda_scratch_bytes(noted) + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (scratch > bytes || !placed(noted, memory, bytes, &o)) return;
    cuda_compute(&o, (char *)memory + bytes - scratch, scratch, stream);
    world_progress();
}

void rehearse(const preparation *p, void *memory, size_t bytes)
{
    cudaStream_t stream;
    cuda_memory_clear(memory, 0, bytes);
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < p->notes; i++) run_one(&p->note[i].op, memory, bytes, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaStreamDestroy(stream));
}
