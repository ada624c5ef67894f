/* The CUDA machine's table of functions. The subfolders implement them. */
#include "machine/cuda/attention/attention.h"
#include "machine/cuda/device/device.h"
#include "machine/cuda/device/environment.h"
#include "machine/cuda/device/memory.h"
#include "machine/cuda/executor.h"
#include "machine/cuda/products/matmul.h"
#include "machine/cuda/transfers/communicators.h"
#include "machine/cuda/transfers/nccl_defects.h"
#include "machine/cuda/transfers/resident.h"
#include "machine/cuda/transfers/windows.h"
#include "machine/cuda/versions.h"
#include <cuda_profiler_api.h>
#include <stdio.h>

/* Returns the CPU threads of a rank that compute or submit. NCCL's own threads are not counted. */
static int threads(void) { return 1; }

static const char *engines(char *text, size_t length)
{
    char attention[512];
    int used = snprintf(text, length, "attention %s; products cuBLASLt, %d SMs left free\n",
                        cuda_attention_engine(attention, sizeof attention), cuda_matmul_multiprocessors_left());
    if ((size_t)used + 32 <= length) cuda_matmul_algorithms(text + used, length - (size_t)used);
    return text;
}

static machine_device device(void)
{
    machine_device d = cuda_device_read();
    d.communicator_bytes = communicators_bytes();
    d.free_bytes += (double)cuda_window_kept();
    return d;
}

static void profile(bool on) { CUDA_CHECK(on ? cudaProfilerStart() : cudaProfilerStop()); }

const backend *cuda_backend(void)
{
    static const backend table = {
        .environment = cuda_environment,
        .supports_ranks = cuda_transfers_suit,
        .usable = cuda_device_usable,
        .library = cuda_versions,
        .engines = engines,
        .transfers = cuda_window_text,
        .threads = threads,
        .device = device,
        .state = cuda_device_state,
        .addressable = false,
        .take = cuda_memory_take,
        .window = cuda_window_take,
        .window_reserve = cuda_window_reserve,
        .window_serves = cuda_window_moves,
        .give_back = cuda_window_give_back,
        .clear = cuda_memory_clear,
        .occupy = cuda_occupy,
        .agree = cuda_attention_agree,
        .connect = cuda_connect,
        .disconnect = cuda_disconnect,
        .scratch_of = cuda_scratch_of,
        .open = cuda_executor_open,
        .close = cuda_executor_close,
        .tune = cuda_executor_tune,
        .submit = cuda_executor_submit,
        .sync = cuda_executor_sync,
        .upload = cuda_executor_upload,
        .download = cuda_executor_download,
        .profile = profile,
    };
    return &table;
}
