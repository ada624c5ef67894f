/* Versions of libraries: as in the headers at build time, and as loaded. */
#include "machine/cuda/versions.h"
#include "machine/cuda/attention/attention_library.h"
#include "machine/cuda/device/device.h"
#include "machine/cuda/device/libraries.h"
#include <cuda_runtime.h>
#include <stdio.h>

enum { CLAUSE = 160 };

/* Writes "13.0" for 13000, or "none" for 0, the version of a missing driver. */
static void cuda_words(char words[VERSION_TEXT], int version)
{
    if (version) snprintf(words, VERSION_TEXT, "%d.%d", version / 1000, version % 1000 / 10);
    else snprintf(words, VERSION_TEXT, "none");
}

static void say_cuda(char *text, size_t length)
{
    int runtime = 0, driver = 0;
    char built[VERSION_TEXT], loaded[VERSION_TEXT], knows[VERSION_TEXT], code[64];
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    cuda_words(built, CUDART_VERSION);
    cuda_words(loaded, runtime);
    cuda_words(knows, driver);
    snprintf(text, length, "CUDA %s for %s (loaded %s, driver's %s)", built, cuda_code_words(code, sizeof code), loaded,
             knows);
}

/* loaded: 0 if the library is not found. */
static void say_library(char *text, size_t length, const char *name, int built, int loaded)
{
    char words[2][VERSION_TEXT];
    snprintf(text, length, "%s %s (%s%s)", name, library_version_text(built, words[0]),
             loaded ? "loaded " : "not found", loaded ? library_version_text(loaded, words[1]) : "");
}

const char *cuda_versions(char *text, size_t length)
{
    char cuda[CLAUSE], products[CLAUSE], transfers[CLAUSE], attention[CLAUSE], why[CLAUSE];
    say_cuda(cuda, sizeof cuda);
    say_library(products, sizeof products, "cuBLASLt", CUBLAS_VERSION,
                cublaslt_load(why, sizeof why) ? (int)cublasLtGetVersion() : 0);
    say_library(transfers, sizeof transfers, "NCCL", NCCL_VERSION_CODE, nccl_version());
    snprintf(text, length, "%s, %s, %s, %s", cuda, products, transfers,
             library_attention_version(attention, sizeof attention));
    return text;
}
