/* The rehearsal. What was noted is the process's, as what its measuring passes noted of products is. */
#include "machine/cuda/rehearsal.h"
#include "base/arena.h"
#include "base/fail.h"
#include "machine/cuda/cuda.h"
#include "machine/cuda/device/memory.h"
#include "machine/world.h"
#include <stdlib.h>

static struct {
    op *noted;
    int count, capacity;
} rehearsal;

void rehearsal_open(void) { rehearsal.count = 0; }

/* Kernels are chosen by formats, shapes and alignment. */
static bool is_like(const operand *a, const operand *b)
{
    bool like = a->access == b->access && a->tensor.type == b->tensor.type && a->tensor.dims == b->tensor.dims &&
                ((uintptr_t)a->tensor.data ^ (uintptr_t)b->tensor.data) % ARENA_ALIGNMENT == 0;
    for (int i = 0; like && i < a->tensor.dims; i++)
        like = a->tensor.dim[i] == b->tensor.dim[i] && a->tensor.stride[i] == b->tensor.stride[i];
    return like;
}

static bool is_same(const op *a, const op *b)
{
    bool same = a->kind == b->kind && a->operands == b->operands;
    if (same && a->kind == OP_CROSS_ENTROPY) same = a->args.cross_entropy.part == b->args.cross_entropy.part;
    if (same && a->kind == OP_ATTENTION_FORWARD) same = a->args.attention.causal == b->args.attention.causal;
    if (same && a->kind == OP_ATTENTION_BACKWARD) same = a->args.attention.causal == b->args.attention.causal;
    for (int i = 0; same && i < a->operands; i++) same = is_like(&a->operand[i], &b->operand[i]);
    return same;
}

void rehearsal_note(const op *o)
{
    if (op_is_transfer(o->kind) || o->operands == 0) return;
    for (int i = 0; i < rehearsal.count; i++)
        if (is_same(&rehearsal.noted[i], o)) return;
    if (rehearsal.count == rehearsal.capacity) {
        rehearsal.capacity = rehearsal.capacity ? 2 * rehearsal.capacity : 128;
        rehearsal.noted = realloc(rehearsal.noted, (size_t)rehearsal.capacity * sizeof *rehearsal.noted);
        if (!rehearsal.noted) FAIL("no memory to note %d operations", rehearsal.capacity);
    }
    rehearsal.noted[rehearsal.count] = *o;
    rehearsal.noted[rehearsal.count++].origin.name = ""; /* the trainer on paper takes its names along */
}

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

/* Scratch lies at the arena's end and is at least as large as that of any operation. */
static void run_one(const op *noted, void *memory, size_t bytes, cudaStream_t stream)
{
    op o;
    size_t scratch = (cuda_scratch_bytes(noted) + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (scratch > bytes || !placed(noted, memory, bytes, &o)) return;
    cuda_compute(&o, (char *)memory + bytes - scratch, scratch, stream);
    world_progress();
}

void rehearsal_run(void *memory, size_t bytes)
{
    cudaStream_t stream;
    cuda_memory_clear(memory, 0, bytes);
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < rehearsal.count; i++) run_one(&rehearsal.noted[i], memory, bytes, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaStreamDestroy(stream));
}
