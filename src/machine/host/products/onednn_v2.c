/* Building a product with oneDNN 2. */
#include "machine/host/products/onednn_product.h"
#include <string.h>

static dnnl_status_t add_before_rounding(dnnl_post_ops_t post_ops) { return dnnl_post_ops_append_sum(post_ops, 1.0f); }

static dnnl_memory_desc_t describe(const product_key *key, int which)
{
    product_matrix x = product_describe(key, which);
    dnnl_memory_desc_t d;
    product_check(dnnl_memory_desc_init_by_strides(&d, x.dimensions, x.dims, x.format, x.strides),
                  "dnnl_memory_desc_init_by_strides");
    return d;
}

static dnnl_exec_arg_t argument(int name, const dnnl_memory_desc_t *d, dnnl_engine_t engine)
{
    dnnl_exec_arg_t a = { .arg = name };
    product_check(dnnl_memory_create(&a.memory, d, engine, DNNL_MEMORY_NONE), "dnnl_memory_create");
    return a;
}

/* For long sums over contiguous rows, oneDNN's first choice, brgemm, is 2 to 9 % slower than its sgemm (FP32, AVX-512,
 * n = 512, k = 768 to 8192). Over columns, and for short sums, brgemm is faster. */
static bool prefers_sgemm(const product_key *key)
{
    return key->type[LEFT] == F32 && key->stride[LEFT][1] == 1 && key->stride[RIGHT][1] == 1 && key->k >= key->n;
}

/* For few rows of c (m), oneDNN's sgemm for AVX2 reads the right operand in place. Rows at a stride of a multiple of
 * 2 KiB share few sets of the L1 cache. A copy with a gap of 64 bytes is faster from 64 rows on: 88 instead of 61
 * Gflop/s (m = n = 512, k = 1024), 83 instead of 43 (m = 256, n = 1024). The bits are the same. */
bool product_prefers_row_gap(const product_key *key)
{
    bool few = key->m >= 64 && (key->m <= 256 || key->m * key->n <= 512 * 512);
    return few && key->type[RIGHT] == F32 && key->stride[RIGHT][1] == 1 && key->stride[RIGHT][0] % 512 == 0;
}

static bool is_sgemm(const_dnnl_primitive_desc_t descriptor)
{
    const char *name = "";
    return dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           strncmp(name, "gemm:", 5) == 0;
}

/* Returns oneDNN's first choice, or its sgemm if that is wanted and available. */
static dnnl_primitive_desc_t choose(const dnnl_matmul_desc_t *matmul, dnnl_primitive_attr_t attributes,
                                    dnnl_engine_t engine, bool sgemm)
{
    dnnl_primitive_desc_iterator_t list;
    product_check(dnnl_primitive_desc_iterator_create(&list, matmul, attributes, engine, NULL),
                  "dnnl_primitive_desc_iterator_create");
    dnnl_primitive_desc_t chosen = dnnl_primitive_desc_iterator_fetch(list);
    while (sgemm && !is_sgemm(chosen) && dnnl_primitive_desc_iterator_next(list) == dnnl_success) {
        dnnl_primitive_desc_t other = dnnl_primitive_desc_iterator_fetch(list),
                              unused = is_sgemm(other) ? chosen : other;
        chosen = is_sgemm(other) ? other : chosen;
        dnnl_primitive_desc_destroy(unused);
    }
    dnnl_primitive_desc_iterator_destroy(list);
    return chosen;
}

void product_build(product *p, dnnl_engine_t engine)
{
    static const int names[3] = { DNNL_ARG_DST, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS };
    dnnl_memory_desc_t d[3] = { describe(&p->key, DESTINATION), describe(&p->key, LEFT), describe(&p->key, RIGHT) };
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attributes = product_attributes(&p->key, add_before_rounding);
    product_check(dnnl_matmul_desc_init(&matmul, &d[LEFT], &d[RIGHT], NULL, &d[DESTINATION]), "dnnl_matmul_desc_init");
    dnnl_primitive_desc_t chosen = choose(&matmul, attributes, engine, prefers_sgemm(&p->key));
    product_check(dnnl_primitive_create(&p->primitive, chosen), "dnnl_primitive_create");
    const dnnl_memory_desc_t *scratchpad = dnnl_primitive_desc_query_md(chosen, dnnl_query_scratchpad_md, 0);
    p->scratch_bytes = dnnl_memory_desc_get_size(scratchpad);
    for (int i = 0; i < 3; i++) p->argument[i] = argument(names[i], &d[i], engine);
    p->argument[SCRATCHPAD] = argument(DNNL_ARG_SCRATCHPAD, scratchpad, engine);
    dnnl_primitive_desc_destroy(chosen);
    dnnl_primitive_attr_destroy(attributes);
}
