/* Building a product with oneDNN 3. */
#include "machine/host/products/onednn_product.h"

static dnnl_status_t add_before_rounding(dnnl_post_ops_t post_ops)
{
    return dnnl_post_ops_append_sum(post_ops, 1.0f, 0, dnnl_data_type_undef);
}

bool product_prefers_row_gap(const product_key *key) { return false; }

static dnnl_memory_desc_t describe(const product_key *key, int which)
{
    product_matrix x = product_describe(key, which);
    dnnl_memory_desc_t d;
    product_check(dnnl_memory_desc_create_with_strides(&d, x.dimensions, x.dims, x.format, x.strides),
                  "dnnl_memory_desc_create_with_strides");
    return d;
}

static dnnl_exec_arg_t argument(int name, const_dnnl_memory_desc_t d, dnnl_engine_t engine)
{
    dnnl_exec_arg_t a = { .arg = name };
    product_check(dnnl_memory_create(&a.memory, d, engine, DNNL_MEMORY_NONE), "dnnl_memory_create");
    return a;
}

void product_build(product *p, dnnl_engine_t engine)
{
    static const int names[3] = { DNNL_ARG_DST, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS };
    dnnl_memory_desc_t d[3] = { describe(&p->key, DESTINATION), describe(&p->key, LEFT), describe(&p->key, RIGHT) };
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_attr_t attributes = product_attributes(&p->key, add_before_rounding);
    product_check(
        dnnl_matmul_primitive_desc_create(&descriptor, engine, d[LEFT], d[RIGHT], NULL, d[DESTINATION], attributes),
        "dnnl_matmul_primitive_desc_create");
    product_check(dnnl_primitive_create(&p->primitive, descriptor), "dnnl_primitive_create");
    const_dnnl_memory_desc_t scratchpad = dnnl_primitive_desc_query_md(descriptor, dnnl_query_scratchpad_md, 0);
    p->scratch_bytes = dnnl_memory_desc_get_size(scratchpad);
    for (int i = 0; i < 3; i++) p->argument[i] = argument(names[i], d[i], engine);
    p->argument[SCRATCHPAD] = argument(DNNL_ARG_SCRATCHPAD, scratchpad, engine);
    for (int i = 0; i < 3; i++) dnnl_memory_desc_destroy(d[i]);
    dnnl_primitive_desc_destroy(descriptor);
    dnnl_primitive_attr_destroy(attributes);
}
