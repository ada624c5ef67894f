/* Building a product: the part that is the same for all versions of oneDNN. */
#include "machine/host/products/onednn_product.h"
#include "base/fail.h"

void product_check(dnnl_status_t status, const char *call)
{
    if (status != dnnl_success) FAIL("oneDNN: %s returns status %d", call, (int)status);
}

product_matrix product_describe(const product_key *key, int which)
{
    bool grouped = key->groups > 0;
    product_matrix x = { .dimensions = grouped ? 3 : 2 };
    x.dims[0] = key->groups;
    x.strides[0] = key->group_stride[which];
    x.dims[grouped] = which == RIGHT ? key->k : key->m;
    x.dims[grouped + 1] = which == LEFT ? key->k : key->n;
    for (int i = 0; i < 2; i++) x.strides[grouped + i] = key->stride[which][i];
    x.format = key->type[which] == BF16 ? dnnl_bf16 : dnnl_f32;
    return x;
}

dnnl_primitive_attr_t product_attributes(const product_key *key, append_sum *append)
{
    dnnl_primitive_attr_t attributes;
    dnnl_post_ops_t post_ops;
    product_check(dnnl_primitive_attr_create(&attributes), "dnnl_primitive_attr_create");
    product_check(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user),
                  "dnnl_primitive_attr_set_scratchpad_mode");
    product_check(dnnl_post_ops_create(&post_ops), "dnnl_post_ops_create");
    if (key->access == UPDATE) product_check(append(post_ops), "dnnl_post_ops_append_sum");
    product_check(dnnl_primitive_attr_set_post_ops(attributes, post_ops), "dnnl_primitive_attr_set_post_ops");
    dnnl_post_ops_destroy(post_ops);
    return attributes;
}
