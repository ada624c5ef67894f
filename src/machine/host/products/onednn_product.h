/* A matrix product as a oneDNN primitive. onednn.c keeps the primitives; how one is built differs between the library's
 * versions 2 and 3, and the Makefile takes onednn_v2.c or onednn_v3.c. */
#pragma once
#include "machine/op/op.h"
#include <dnnl.h>

/* What a primitive depends on: c[m, n] (+)= a[m, k] b[k, n], of so many groups, whose matrices lie `apart` (groups 0:
 * one product). Integers of one size, so that keys compare as bytes. */
typedef struct {
    int64_t groups, m, n, k, type[3], apart[3], stride[3][2], access, threads;
} product_key;
enum { DESTINATION, LEFT, RIGHT, SCRATCHPAD, MEMORIES };
typedef struct {
    product_key key;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t argument[MEMORIES];
    size_t scratch_bytes;
} product;

/* Ends the run if a call of the library failed. */
void product_check(dnnl_status_t status, const char *call);
/* Shape, strides and format of one of the three matrices; groups come first. */
typedef struct {
    int dimensions;
    dnnl_dims_t dims, strides;
    dnnl_data_type_t format;
} product_matrix;
product_matrix product_describe(const product_key *key, int which);
/* Scratchpad from the caller; UPDATE adds c inside the product, before it is rounded. Owned by the caller. */
typedef dnnl_status_t append_sum(dnnl_post_ops_t after);
dnnl_primitive_attr_t product_attributes(const product_key *key, append_sum *append);

/* The version's part: does the product read the right operand slowly without AVX-512; building what p->key says. */
bool product_reads_slowly(const product_key *key);
void product_build(product *p, dnnl_engine_t engine);
