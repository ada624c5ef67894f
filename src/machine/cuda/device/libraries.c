/* Loads cuBLASLt and NCCL from the files XGSW_CUBLASLT and XGSW_NCCL. NULL means that they are linked in. */
#include "machine/cuda/device/libraries.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { WINDOWS_SINCE = 22803 }; /* NCCL 2.28.3 */
cublaslt_functions cublaslt;
nccl_functions nccl;
nccl_window_functions nccl_windows;

/* Fills `table`, a struct of `count` function pointers in the order of `name`. */
static bool load(const char *file, const char *const *name, size_t count, void *table, char *why, size_t length)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, length, "%s", dlerror());
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(library, name[i]);
        if (!symbol) snprintf(why, length, "%s has no %s", file ? file : "this program", name[i]);
        if (!symbol) return false;
        memcpy((char *)table + i * sizeof symbol, &symbol, sizeof symbol);
    }
    return true;
}

#define LIBRARY_NAME(function) #function,

bool cublaslt_load(char *why, size_t length)
{
    static const char *const names[] = { CUBLASLT_FUNCTIONS(LIBRARY_NAME) };
    static bool loaded;
    if (!loaded) loaded = load(XGSW_CUBLASLT, names, sizeof names / sizeof *names, &cublaslt, why, length);
    return loaded;
}

bool nccl_load(char *why, size_t length)
{
    static const char *const names[] = { NCCL_FUNCTIONS(LIBRARY_NAME) };
    static bool loaded;
    if (!loaded) loaded = load(XGSW_NCCL, names, sizeof names / sizeof *names, &nccl, why, length);
    return loaded;
}

int nccl_version(void)
{
    char why[256];
    int version = 0;
    return nccl_load(why, sizeof why) && ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

const char *library_version_text(int version, char text[VERSION_TEXT])
{
    snprintf(text, VERSION_TEXT, "%d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
    return text;
}

bool nccl_windows_load(void)
{
    static const char *const names[] = { NCCL_WINDOW_FUNCTIONS(LIBRARY_NAME) };
    static bool loaded;
    char why[256];
    if (loaded) return true;
    if (nccl_version() < WINDOWS_SINCE) return false;
    return loaded = load(XGSW_NCCL, names, sizeof names / sizeof *names, &nccl_windows, why, sizeof why);
}
