/* Versions: the headers tell what this build was made with, the libraries what is loaded. */
#include "machine/cuda/versions.h"
#include "machine/cuda/attention/attention_library.h"
#include "machine/cuda/device/device.h"
#include "machine/cuda/device/libraries.h"
#include <cuda_runtime.h>
#include <stdio.h>

enum { VERSION = 16, CLAUSE = 160 };

/* 13000 is CUDA 13.0; a driver that is not there has version 0. */
static void cuda_words(char words[VERSION], int version)
{
    if (version) snprintf(words, VERSION, "%d.%d", version / 1000, version % 1000 / 10);
    else snprintf(words, VERSION, "none");
}

/* 130100 is cuBLASLt 13.1.0, 22809 is NCCL 2.28.9. */
static void library_words(char words[VERSION], int version)
{
    snprintf(words, VERSION, "%d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
}

static void say_cuda(char *text, size_t length)
{
    int runtime = 0, driver = 0;
    char built[VERSION], loaded[VERSION], knows[VERSION], code[64];
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    cuda_words(built, CUDART_VERSION);
    cuda_words(loaded, runtime);
    cuda_words(knows, driver);
    snprintf(text, length, "CUDA %s for %s (loaded %s, driver's %s)", built, cuda_code_words(code, sizeof code), loaded,
             knows);
}

static void say_library(char *text, size_t length, const char *name, int built, bool found, int loaded)
{
    char words[2][VERSION];
    library_words(words[0], built);
    library_words(words[1], loaded);
    snprintf(text, length, "%s %s (%s%s)", name, words[0], found ? "loaded " : "not found", found ? words[1] : "");
}

const char *cuda_versions(char *text, size_t length)
{
    char cuda[CLAUSE], products[CLAUSE], transfers[CLAUSE], attention[CLAUSE], why[CLAUSE];
    int version = 0;
    bool has_cublaslt = cublaslt_load(why, sizeof why), has_nccl = nccl_load(why, sizeof why);
    if (has_nccl) ncclGetVersion(&version);
    say_cuda(cuda, sizeof cuda);
    say_library(products, sizeof products, "cuBLASLt", CUBLAS_VERSION, has_cublaslt,
                has_cublaslt ? (int)cublasLtGetVersion() : 0);
    say_library(transfers, sizeof transfers, "NCCL", NCCL_VERSION_CODE, has_nccl, version);
    snprintf(text, length, "%s, %s, %s, %s", cuda, products, transfers,
             library_attention_version(attention, sizeof attention));
    return text;
}
