/* A matrix product as a oneDNN primitive. onednn.c caches primitives. Building one differs between oneDNN 2 and 3: the
 * Makefile compiles onednn_v2.c or onednn_v3.c. */
#pragma once
#include "machine/op/op.h"
#include <dnnl.h>

/* The key of a primitive: c[m, n] (+)= a[m, k] b[k, n] for each group (groups 0: one product without groups). All
 * members are integers of one size, so that keys compare as bytes. */
typedef struct {
    int64_t groups, m, n, k, type[3], group_stride[3], stride[3][2], access, threads;
} product_key;
enum { DESTINATION, LEFT, RIGHT, SCRATCHPAD, MEMORIES };
typedef struct {
    product_key key;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t argument[MEMORIES];
    size_t scratch_bytes;
} product;

/* Ends the run if a call of oneDNN failed. */
void product_check(dnnl_status_t status, const char *call);
/* Shape, strides and format of one of the three matrices. Groups are the first dim. */
typedef struct {
    int dimensions;
    dnnl_dims_t dims, strides;
    dnnl_data_type_t format;
} product_matrix;
product_matrix product_describe(const product_key *key, int which);
/* Returns attributes: scratch from the caller; UPDATE adds c before rounding. The caller destroys them. */
typedef dnnl_status_t append_sum(dnnl_post_ops_t post_ops);
dnnl_primitive_attr_t product_attributes(const product_key *key, append_sum *append);

/* Functions of each version. product_prefers_row_gap: as onednn_prefers_row_gap, for processors without AVX-512. */
bool product_prefers_row_gap(const product_key *key);
void product_build(product *p, dnnl_engine_t engine);
