/* Copies and fills. On a stream they run late, like all queued work; host memory must be pinned, and the host
 * destination of a copy is poisoned until the copy has run. Synchronous copies use CUDA's legacy stream. No other
 * stream of xgsw waits for it. */
#include "inside.h"
#include <cstring>

namespace emulator
{

struct copy {
    void *to;
    const void *from;
    size_t to_pitch, from_pitch, width, height;
    int byte;
    bool to_host, pinned_only;
};

static size_t span(size_t pitch, const copy &c) { return c.height ? pitch * (c.height - 1) + c.width : 0; }

static void run_copy(void *data)
{
    const copy &c = *static_cast<copy *>(data);
    size_t written = span(c.to_pitch, c), read = span(c.from_pitch, c);
    if (c.pinned_only || !c.to_host) emulator_reach(c.to, written, "a copy's destination");
    if (c.pinned_only) emulator_reach(c.from, read, "a copy's source");
    if (c.to_host && c.pinned_only) __asan_unpoison_memory_region(c.to, written);
    if (emulator_idle() && in_device(c.to, 1) && in_device(c.from, 1)) return;
    for (size_t i = 0; i < c.height; i++)
        memcpy(static_cast<char *>(c.to) + i * c.to_pitch, static_cast<const char *>(c.from) + i * c.from_pitch,
               c.width);
}

static void run_fill(void *data)
{
    const copy &c = *static_cast<copy *>(data);
    emulator_range(c.to, c.width, "cudaMemset");
    if (emulator_idle()) return;
    memset(c.to, c.byte, c.width);
}

static void release_copy(void *data) { delete static_cast<copy *>(data); }

static const char *side(const void *p, size_t bytes)
{
    if (in_device(p, bytes) || in_pinned(p, bytes)) return in_device(p, bytes) ? "device memory" : "pinned host memory";
    return in_device(p, 1) || in_pinned(p, 1) ? "memory beyond an allocation's end" : "pageable host memory";
}

/* Fails unless the kind agrees with the addresses. */
static void check_kind(const copy &c, enum cudaMemcpyKind kind, const char *call)
{
    size_t written = span(c.to_pitch, c), read = span(c.from_pitch, c);
    bool from_device = in_device(c.from, read), to_device = in_device(c.to, written);
    bool wants_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    bool wants_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    if (kind != cudaMemcpyDefault && (from_device != wants_from || to_device != wants_to))
        emulator_fail("%s: kind %d, but from %s to %s (%zu bytes)", call, int(kind), side(c.from, read),
                      side(c.to, written), written);
    bool pageable = (!from_device && !in_pinned(c.from, read)) || (!to_device && !in_pinned(c.to, written));
    if (c.pinned_only && pageable)
        emulator_fail("%s: from %s to %s (%zu bytes)", call, side(c.from, read), side(c.to, written), written);
}

static cudaError_t enqueue_copy(copy c, enum cudaMemcpyKind kind, cudaStream_t s, const char *call)
{
    if (c.width == 0 || c.height == 0) return cudaSuccess;
    if (c.height > 1 && (c.width > c.to_pitch || c.width > c.from_pitch))
        return emulator_last_error(cudaErrorInvalidPitchValue);
    c.to_host = !in_device(c.to, span(c.to_pitch, c));
    check_kind(c, kind, call);
    if (c.to_host && c.pinned_only) __asan_poison_memory_region(c.to, span(c.to_pitch, c));
    emulator_enqueue(s, call, run_copy, new copy(c), release_copy);
    return cudaSuccess;
}

} // namespace emulator

using namespace emulator;

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s)
{
    EMULATOR_CALL();
    stream_check(s, __func__);
    return enqueue_copy({ to, from, bytes, bytes, bytes, 1, 0, false, true }, kind, s, __func__);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t s)
{
    EMULATOR_CALL();
    stream_check(s, __func__);
    return enqueue_copy({ to, from, to_pitch, from_pitch, width, height, 0, false, true }, kind, s, __func__);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    EMULATOR_CALL();
    synchronizing(__func__);
    advance_somewhat();
    cudaError_t code =
        enqueue_copy({ to, from, bytes, bytes, bytes, 1, 0, false, false }, kind, legacy_stream(), __func__);
    if (code == cudaSuccess) stream_finish(legacy_stream(), __func__);
    return code;
}

cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t s)
{
    EMULATOR_CALL();
    stream_check(s, __func__);
    if (bytes == 0) return cudaSuccess;
    emulator_range(memory, bytes, __func__);
    emulator_enqueue(s, __func__, run_fill, new copy{ memory, NULL, 0, 0, bytes, 1, byte, false, true }, release_copy);
    return cudaSuccess;
}

/* Runs late, too: CUDA's cudaMemset returns before device memory is filled. */
cudaError_t cudaMemset(void *memory, int byte, size_t bytes)
{
    return cudaMemsetAsync(memory, byte, bytes, legacy_stream());
}
