/* A CUDA driver that computes nothing. Installed as libcuda.so.1, it imitates the driver of an H100, so that a library
 * can plan and compile without a GPU. It keeps what the library loads: program n goes to the file named by
 * XGSW_DRIVER_KEEPS plus ".n". If a function is missing, the library reports it. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS, INVALID_VALUE = 1, DRIVER = 13000 };

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : SUCCESS; }

int cuDriverGetVersion(int *version)
{
    *version = DRIVER;
    return SUCCESS;
}

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return SUCCESS;
}

int cuGetErrorName(int error, const char **name)
{
    *name = error ? "CUDA_ERROR" : "CUDA_SUCCESS";
    return SUCCESS;
}

int cuGetErrorString(int error, const char **text) { return cuGetErrorName(error, text); }

/* ---- programs ---- */

/* Returns the size of an ELF file in memory. The file ends with one of its two tables. */
static size_t image_bytes(const void *image)
{
    Elf64_Ehdr h;
    memcpy(&h, image, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0) return 0;
    size_t sections = h.e_shoff + (size_t)h.e_shnum * h.e_shentsize;
    size_t segments = h.e_phoff + (size_t)h.e_phnum * h.e_phentsize;
    return sections > segments ? sections : segments;
}

static int keep(const void *image)
{
    static char last[512];
    static int programs;
    const char *place = getenv("XGSW_DRIVER_KEEPS");
    char name[600];
    if (!place || !image_bytes(image)) return INVALID_VALUE;
    if (strcmp(place, last) != 0) programs = 0;
    snprintf(last, sizeof last, "%s", place);
    snprintf(name, sizeof name, "%s.%d", place, ++programs);
    FILE *file = fopen(name, "wb");
    if (!file) return INVALID_VALUE;
    size_t written = fwrite(image, 1, image_bytes(image), file);
    return fclose(file) == 0 && written == image_bytes(image) ? SUCCESS : INVALID_VALUE;
}

/* The value of every handle. Nothing reads it. */
static char anything;

int cuLibraryLoadData(void **library, const void *code, void *a, void **b, unsigned c, void *d, void **e, unsigned f)
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    *library = &anything;
    return keep(code);
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    *kernel = &anything;
    return library && name ? SUCCESS : INVALID_VALUE;
}

int cuLibraryUnload(void *library) { return library ? SUCCESS : INVALID_VALUE; }

int cuKernelSetAttribute(int attribute, int value, void *kernel, int device)
{
    (void)attribute, (void)value, (void)device;
    return kernel ? SUCCESS : INVALID_VALUE;
}

/* ---- functions that a library looks up, but never calls without a GPU ---- */

enum { NOT_SUPPORTED = 801 };

int cuGetExportTable(const void **table, const void *id)
{
    *table = NULL;
    return id ? NOT_SUPPORTED : INVALID_VALUE;
}

#define ABSENT(name)                                                                                                   \
    int name(void) { return NOT_SUPPORTED; }
ABSENT(cuCtxGetCurrent)
ABSENT(cuCtxGetDevice)
ABSENT(cuCtxGetLimit)
ABSENT(cuCtxPopCurrent)
ABSENT(cuCtxPushCurrent)
ABSENT(cuDeviceGetAttribute)
ABSENT(cuDevicePrimaryCtxRelease)
ABSENT(cuDevicePrimaryCtxReset)
ABSENT(cuDevicePrimaryCtxRetain)
ABSENT(cuFuncGetAttribute)
ABSENT(cuFuncSetAttribute)
ABSENT(cuKernelGetAttribute)
ABSENT(cuLaunchCooperativeKernel)
ABSENT(cuLaunchKernel)
ABSENT(cuLaunchKernelEx)
ABSENT(cuLibraryLoadFromFile)
ABSENT(cuLinkAddData)
ABSENT(cuLinkAddData_v2)
ABSENT(cuLinkAddFile_v2)
ABSENT(cuLinkComplete)
ABSENT(cuLinkCreate)
ABSENT(cuLinkCreate_v2)
ABSENT(cuLinkDestroy)
ABSENT(cuMemcpyDtoH_v2)
ABSENT(cuModuleGetFunction)
ABSENT(cuModuleGetGlobal_v2)
ABSENT(cuModuleLoadData)
ABSENT(cuModuleLoadDataEx)
ABSENT(cuModuleLoadFatBinary)
ABSENT(cuModuleUnload)
ABSENT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
ABSENT(cuOccupancyMaxPotentialClusterSize)
ABSENT(cuStreamGetCtx)
ABSENT(cuStreamSynchronize)
ABSENT(cuTensorMapEncodeTiled)
ABSENT(cuTensorMapEncodeIm2col)
