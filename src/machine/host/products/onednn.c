/* Calls of oneDNN. onednn_scratch builds a primitive, one for each shape, format, layout and access; running it then
 * allocates nothing here. The cache is process state, like oneDNN's own. */
#include "base/fail.h"
#include "base/key_table.h"
#include "base/memory.h"
#include "machine/host/host.h"
#include "machine/host/products/onednn_product.h"
#include <malloc.h>
#include <omp.h>
#include <stdio.h>

enum { LARGEST_BUFFER = 1 << 25, MOST_KEPT = 1 << 26 }; /* bytes; mallopt accepts no larger threshold for buffers */

static struct {
    key_table products;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
} cache = { .products.key_bytes = sizeof(product_key) };

/* A dim of size 1 gets a stride that spans the other dim: oneDNN 3.7 treats a column [4, 1] of stride 4 as dense. */
static product_key key_of(const tensor x[3], access_mode access)
{
    int row = x[0].dims - 2, column = row + 1;
    product_key key = { .groups = row ? x[0].dim[0] : 0,
                        .m = x[0].dim[row],
                        .n = x[0].dim[column],
                        .k = x[1].dim[column],
                        .access = access,
                        .threads = omp_get_max_threads() };
    for (int i = 0; i < 3; i++) {
        int64_t rows = x[i].dim[row], columns = x[i].dim[column];
        key.type[i] = x[i].type;
        key.group_stride[i] = row ? x[i].stride[0] : 0;
        key.stride[i][0] = rows == 1 ? columns * x[i].stride[column] : x[i].stride[row];
        key.stride[i][1] = columns > 1 ? x[i].stride[column] : key.stride[i][0] > 1 ? rows * key.stride[i][0] : 1;
    }
    return key;
}

/* oneDNN's sgemm itself allocates buffers for packing at each call. Ends the rule of world_start: if the buffers went
 * back to the system each time, one call would touch thousands of new pages, which takes longer than the product. */
static void keep_freed_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, LARGEST_BUFFER);
    mallopt(M_TRIM_THRESHOLD, MOST_KEPT);
}

static void open_library(void)
{
    if (cache.engine) return;
    keep_freed_memory();
    product_check(dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_strict), "dnnl_set_default_fpmath_mode");
    product_check(dnnl_engine_create(&cache.engine, dnnl_cpu, 0), "dnnl_engine_create");
    product_check(dnnl_stream_create(&cache.stream, cache.engine, dnnl_stream_default_flags), "dnnl_stream_create");
}

static product *build_product(const product_key *key)
{
    product *p = allocate(1, sizeof *p, "a matrix product");
    open_library();
    p->key = *key;
    product_build(p, cache.engine);
    key_table_add(&cache.products, p);
    return p;
}

static product *cached_product(const tensor x[3], access_mode access)
{
    product_key key = key_of(x, access);
    product *p = key_table_find(&cache.products, &key);
    return p ? p : build_product(&key);
}

size_t onednn_scratch(const tensor x[3], access_mode access) { return cached_product(x, access)->scratch_bytes; }

void onednn_multiply(const tensor x[3], access_mode access, void *scratch)
{
    product *p = cached_product(x, access);
    for (int i = 0; i < 3; i++)
        product_check(dnnl_memory_set_data_handle(p->argument[i].memory, x[i].data), "dnnl_memory_set_data_handle");
    product_check(dnnl_memory_set_data_handle(p->argument[SCRATCHPAD].memory, p->scratch_bytes ? scratch : NULL),
                  "dnnl_memory_set_data_handle");
    product_check(dnnl_primitive_execute(p->primitive, cache.stream, MEMORIES, p->argument), "dnnl_primitive_execute");
    product_check(dnnl_stream_wait(cache.stream), "dnnl_stream_wait");
}

/* The bits of an instruction set include those of the sets that it contains. */
static bool has_instructions(dnnl_cpu_isa_t isa)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & isa) == (unsigned)isa;
}

bool onednn_prefers_row_gap(const tensor x[3])
{
    product_key key = key_of(x, WRITE);
    return !has_instructions(dnnl_cpu_isa_avx512_core) && product_prefers_row_gap(&key);
}

bool onednn_multiplies_bf16(void) { return has_instructions(dnnl_cpu_isa_avx512_core_bf16); }

static const char *instructions(void)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } known[] = { { dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx" },
                  { dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16" },
                  { dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni" },
                  { dnnl_cpu_isa_avx512_core, "avx512_core" },
                  { dnnl_cpu_isa_avx2_vnni, "avx2_vnni" },
                  { dnnl_cpu_isa_avx2, "avx2" },
                  { dnnl_cpu_isa_avx, "avx" },
                  { dnnl_cpu_isa_sse41, "sse41" } };
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].isa == isa) return known[i].name;
    return "generic instructions";
}

const char *onednn_library(char *text, size_t length)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, length, "oneDNN %d.%d.%d (%s)", v->major, v->minor, v->patch, instructions());
    return text;
}
