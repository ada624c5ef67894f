/* Versions of libraries: those of the headers at build time, and those loaded. */
#include "machine/cuda/versions.h"
#include "machine/cuda/attention/attention_library.h"
#include "machine/cuda/device/device.h"
#include "machine/cuda/device/libraries.h"
#include <cuda_runtime.h>
#include <stdio.h>

enum { CLAUSE = 160 };

/* Writes "13.0" for 13000, or "none" for 0, the version of a missing driver. */
static void write_cuda_version(char text[VERSION_TEXT], int version)
{
    if (version) snprintf(text, VERSION_TEXT, "%d.%d", version / 1000, version % 1000 / 10);
    else snprintf(text, VERSION_TEXT, "none");
}

static void write_cuda(char *text, size_t length)
{
    int runtime = 0, driver = 0;
    char built[VERSION_TEXT], loaded[VERSION_TEXT], supported[VERSION_TEXT], code[64];
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    write_cuda_version(built, CUDART_VERSION);
    write_cuda_version(loaded, runtime);
    write_cuda_version(supported, driver);
    snprintf(text, length, "CUDA %s for %s (loaded %s, driver's %s)", built, cuda_code_text(code, sizeof code), loaded,
             supported);
}

/* loaded: 0 if the library is not found. */
static void write_library(char *text, size_t length, const char *name, int built, int loaded)
{
    char number[2][VERSION_TEXT];
    snprintf(text, length, "%s %s (%s%s)", name, library_version_text(built, number[0]),
             loaded ? "loaded " : "not found", loaded ? library_version_text(loaded, number[1]) : "");
}

const char *cuda_versions(char *text, size_t length)
{
    char cuda[CLAUSE], products[CLAUSE], transfers[CLAUSE], attention[CLAUSE], why[CLAUSE];
    write_cuda(cuda, sizeof cuda);
    write_library(products, sizeof products, "cuBLASLt", CUBLAS_VERSION,
                  cublaslt_load(why, sizeof why) ? (int)cublasLtGetVersion() : 0);
    write_library(transfers, sizeof transfers, "NCCL", NCCL_VERSION_CODE, nccl_version());
    snprintf(text, length, "%s, %s, %s, %s", cuda, products, transfers,
             library_attention_version(attention, sizeof attention));
    return text;
}
