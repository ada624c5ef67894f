/* Search for replaced functions. The program's relocations name all functions that it calls. */
#include "bench/launch/preloaded.h"
#include "machine/world.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const clocks[] = { "clock_gettime", "gettimeofday", "time", NULL };
static const char *const prefixes[] = { "MPI_", "dnnl_", "cuda", "cublas", "cudnn", "nccl", NULL };
/* Profilers of file access (Darshan) replace these two. They affect neither data nor times. */
static const char *const harmless[] = { "MPI_Init_thread", "MPI_Finalize", NULL };
/* One function of each library that is loaded later. The program looks functions up in the library's handle, so
 * a preloaded library can replace only the whole library. */
static const char *const loaded_later[] = {
    "cuInit", "cudaLaunchKernel", "cublasLtMatmul", "cudnnBackendExecute", "ncclGetUniqueId", "nvmlInit_v2", NULL
};

static bool is_among(const char *name, const char *const *words, bool whole)
{
    for (; *words; words++)
        if (whole ? strcmp(name, *words) == 0 : strncmp(name, *words, strlen(*words)) == 0) return true;
    return false;
}

static bool may_not_be_replaced(const char *name)
{
    return is_among(name, clocks, true) || (is_among(name, prefixes, false) && !is_among(name, harmless, true));
}

/* Finds the library to which the dynamic linker binds a function. Keeps a sentence that is already there. */
static void find_replacement(const library_list *own, const char *name, char sentence[REASON_LENGTH])
{
    Dl_info provider;
    void *symbol = sentence[0] ? NULL : dlsym(RTLD_DEFAULT, name);
    if (!symbol || !dladdr(symbol, &provider)) return;
    for (int i = 0; i < own->count; i++)
        if (own->item[i].preloaded && strncmp(own->item[i].path, provider.dli_fname, LIBRARY_PATH - 1) == 0)
            snprintf(sentence, REASON_LENGTH, "%.160s replaces %s on rank %d on %s", own->item[i].path, name,
                     world_rank(), world_host());
}

/* The program's relocations of data and of calls, with their symbols and names. */
typedef struct {
    const ElfW(Rela) * first[2];
    size_t count[2];
    const ElfW(Sym) * symbol;
    const char *names;
} relocations;

static relocations relocations_of_program(void)
{
    relocations r = { .names = NULL };
    for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
        const void *at = (const void *)d->d_un.d_ptr;
        switch (d->d_tag) {
        case DT_SYMTAB: r.symbol = at; break;
        case DT_STRTAB: r.names = at; break;
        case DT_RELA: r.first[0] = at; break;
        case DT_JMPREL: r.first[1] = at; break;
        case DT_RELASZ: r.count[0] = d->d_un.d_val / sizeof(ElfW(Rela)); break;
        case DT_PLTRELSZ: r.count[1] = d->d_un.d_val / sizeof(ElfW(Rela)); break;
        default: break;
        }
    }
    return r;
}

static void report_variable(const char *name, const char *does, char sentence[REASON_LENGTH])
{
    const char *value = getenv(name);
    if (value && value[0] && !sentence[0])
        snprintf(sentence, REASON_LENGTH, "%s=%.120s %s on rank %d on %s", name, value, does, world_rank(),
                 world_host());
}

void preloaded_complaint(const library_list *own, char sentence[REASON_LENGTH])
{
    relocations r = relocations_of_program();
    sentence[0] = 0;
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < r.count[t]; i++) {
            const char *name = r.names + r.symbol[ELF64_R_SYM(r.first[t][i].r_info)].st_name;
            if (may_not_be_replaced(name)) find_replacement(own, name, sentence);
        }
    for (int i = 0; loaded_later[i]; i++) find_replacement(own, loaded_later[i], sentence);
    /* An auditing library can intercept any call, and the linker does not show it. */
    report_variable("LD_AUDIT", "may replace any call", sentence);
}

void profiler_complaint(char sentence[REASON_LENGTH])
{
    const char *level = getenv("NCCL_DEBUG"), *subsystems = getenv("NCCL_DEBUG_SUBSYS");
    sentence[0] = 0;
    report_variable("NVTX_INJECTION64_PATH", "attaches a tool", sentence);
    report_variable("CUDA_INJECTION64_PATH", "attaches a tool", sentence);
    bool logs_calls = level && (!strcasecmp(level, "INFO") || !strcasecmp(level, "TRACE"));
    if (logs_calls && subsystems && subsystems[0] != '^' && (strstr(subsystems, "COLL") || strstr(subsystems, "ALL")))
        report_variable("NCCL_DEBUG_SUBSYS", "makes NCCL write its calls", sentence);
}
