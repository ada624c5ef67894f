/* The graphs of attention. Scores are [b, heads, s, t]. A group of query heads shares a key head. */
#include "machine/cuda/cudnn/cudnn_attention_graph.h"

typedef struct {
    cudnn_graph *g;
    const attention_spec *a;
    graph_shape scores, row, heads;
} builder;

static int64_t dim(const graph_shape *s, int i) { return s->dim[i]; }

static builder builder_of(cudnn_graph *g, const attention_spec *a)
{
    int64_t b = dim(&a->shape[Q], 0), heads = dim(&a->shape[Q], 1), s = dim(&a->shape[Q], 2), t = dim(&a->shape[K], 2);
    return (builder){ g, a, graph_dense(CUDNN_DATA_FLOAT, b, heads, s, t),
                      graph_dense(CUDNN_DATA_FLOAT, b, heads, s, 1),
                      graph_dense(CUDNN_DATA_FLOAT, b, heads, s, dim(&a->shape[Q], 3)) };
}

static graph_shape as_type(graph_shape s, cudnnDataType_t type)
{
    s.type = type;
    return s;
}

/* Adds y = f(x, b) and returns y, which has the shape of x. */
static graph_tensor apply(builder *d, cudnnPointwiseMode_t mode, graph_tensor x, graph_tensor b)
{
    graph_shape s = x == GRAPH_NONE ? d->scores : d->g->shape[x];
    graph_tensor y = graph_virtual(d->g, as_type(s, CUDNN_DATA_FLOAT));
    graph_pointwise(d->g, mode, y, x, b, GRAPH_NONE);
    return y;
}

static graph_tensor product(builder *d, graph_shape s, graph_tensor a, graph_tensor b)
{
    graph_tensor c = graph_virtual(d->g, s);
    graph_matmul(d->g, c, a, b);
    return c;
}

static graph_tensor reduced(builder *d, cudnnReduceTensorOp_t how, graph_tensor x)
{
    graph_tensor y = graph_virtual(d->g, d->row);
    graph_reduce(d->g, how, y, x);
    return y;
}

/* Returns the index of each score's query (axis 2) or key (axis 3). */
static graph_tensor index_along(builder *d, int axis, graph_tensor scores)
{
    graph_tensor x = graph_virtual(d->g, as_type(d->scores, CUDNN_DATA_INT32));
    graph_index(d->g, axis, x, scores);
    return x;
}

/* Returns the index of the last key that each query sees. */
static graph_tensor last_seen(builder *d, graph_tensor scores)
{
    graph_tensor query = index_along(d, 2, scores), last = query;
    if (dim(&d->scores, 2) == dim(&d->scores, 3)) return query;
    last = graph_virtual(d->g, as_type(d->scores, CUDNN_DATA_INT32));
    graph_pointwise(d->g, CUDNN_POINTWISE_ADD, last, query, graph_scalar(d->g, UID_KEY_OFFSET, CUDNN_DATA_INT32),
                    GRAPH_NONE);
    return last;
}

/* Replaces the score by the scalar UID_MASKED where the query does not see the key. */
static graph_tensor masked(builder *d, graph_tensor scores)
{
    if (!d->a->causal) return scores;
    graph_tensor seen = graph_virtual(d->g, as_type(d->scores, CUDNN_DATA_BOOLEAN)), y = graph_virtual(d->g, d->scores);
    graph_tensor query = last_seen(d, scores), key = index_along(d, 3, scores);
    graph_pointwise(d->g, CUDNN_POINTWISE_CMP_GE, seen, query, key, GRAPH_NONE);
    graph_pointwise(d->g, CUDNN_POINTWISE_BINARY_SELECT, y, scores, graph_scalar(d->g, UID_MASKED, CUDNN_DATA_FLOAT),
                    seen);
    return y;
}

static void forward(builder *d)
{
    cudnn_graph *g = d->g;
    const attention_spec *a = d->a;
    graph_tensor q = graph_memory(g, UID_Q, a->shape[Q]), k = graph_memory(g, UID_K, graph_transposed(a->shape[K]));
    graph_tensor v = graph_memory(g, UID_V, a->shape[V]);
    graph_tensor scaled =
        apply(d, CUDNN_POINTWISE_MUL, product(d, d->scores, q, k), graph_scalar(g, UID_SCALE, CUDNN_DATA_FLOAT));
    graph_tensor scores = masked(d, scaled), largest = reduced(d, CUDNN_REDUCE_TENSOR_MAX, scores);
    graph_tensor exponentials =
        apply(d, CUDNN_POINTWISE_EXP, apply(d, CUDNN_POINTWISE_SUB, scores, largest), GRAPH_NONE);
    graph_tensor sum = reduced(d, CUDNN_REDUCE_TENSOR_ADD, exponentials),
                 logarithm = apply(d, CUDNN_POINTWISE_LOG, sum, GRAPH_NONE);
    graph_tensor p = graph_virtual(g, as_type(d->scores, CUDNN_DATA_BFLOAT16));
    graph_pointwise(g, CUDNN_POINTWISE_ADD, graph_memory(g, UID_LSE, d->row), logarithm, largest, GRAPH_NONE);
    graph_pointwise(g, CUDNN_POINTWISE_DIV, p, exponentials, sum, GRAPH_NONE);
    graph_matmul(g, graph_memory(g, UID_OUT, a->shape[OUT]), p, v);
}

/* Returns the same elements in BF16, transposed: [b, heads, t, s]. */
static graph_tensor transposed(builder *d, graph_tensor x)
{
    graph_tensor y = graph_virtual(d->g, as_type(graph_transposed(d->scores), CUDNN_DATA_BFLOAT16));
    graph_reshape(d->g, y, x);
    return y;
}

/* Adds the node `to` = a b over query heads. If there are fewer key heads, each gets the sum over its group. */
static void put_product(builder *d, int64_t uid, graph_shape to, graph_tensor a, graph_tensor b)
{
    int64_t heads = dim(&d->a->shape[Q], 1);
    graph_tensor out = graph_memory(d->g, uid, to);
    if (dim(&to, 1) == heads) {
        graph_matmul(d->g, out, a, b);
        return;
    }
    graph_tensor whole = product(d, graph_dense(to.type, to.dim[0], heads, to.dim[2], to.dim[3]), a, b);
    graph_reduce(d->g, CUDNN_REDUCE_TENSOR_ADD, out, whole);
}

/* Returns the sum over d of d_out * out, in FP32. Without the factor of 1, cuDNN 9.19's engine for Hopper keeps all
 * scores in its workspace: 8.6 GB instead of 0.13 GB at s = t = 8192 and 32 heads. */
static graph_tensor projections(builder *d, graph_tensor d_out, graph_tensor out)
{
    graph_tensor both = graph_virtual(d->g, d->heads), plain = graph_virtual(d->g, d->row),
                 sum = graph_memory(d->g, UID_SUM, d->row);
    graph_pointwise(d->g, CUDNN_POINTWISE_MUL, both, d_out, out, GRAPH_NONE);
    graph_reduce(d->g, CUDNN_REDUCE_TENSOR_ADD, plain, both);
    graph_pointwise(d->g, CUDNN_POINTWISE_MUL, sum, plain, graph_scalar(d->g, UID_ONE, CUDNN_DATA_FLOAT), GRAPH_NONE);
    return sum;
}

static void backward(builder *d)
{
    cudnn_graph *g = d->g;
    const attention_spec *a = d->a;
    graph_tensor q = graph_memory(g, UID_Q, a->shape[Q]), k = graph_memory(g, UID_K, graph_transposed(a->shape[K]));
    graph_tensor v = graph_memory(g, UID_V, graph_transposed(a->shape[V])),
                 out = graph_memory(g, UID_OUT, a->shape[OUT]);
    graph_tensor d_out = graph_memory(g, UID_D_OUT, a->shape[D_OUT]),
                 scale = graph_scalar(g, UID_SCALE, CUDNN_DATA_FLOAT);
    graph_tensor sum = projections(d, d_out, out);
    graph_tensor scaled = apply(d, CUDNN_POINTWISE_MUL, product(d, d->scores, q, k), scale);
    graph_tensor shifted = apply(d, CUDNN_POINTWISE_SUB, scaled, graph_memory(g, UID_LSE, d->row));
    graph_tensor p = apply(d, CUDNN_POINTWISE_EXP, masked(d, shifted), GRAPH_NONE);
    put_product(d, UID_DV, a->shape[DV], transposed(d, p), d_out);
    graph_tensor dp = apply(d, CUDNN_POINTWISE_SUB, product(d, d->scores, d_out, v), sum);
    graph_tensor ds = apply(d, CUDNN_POINTWISE_MUL, apply(d, CUDNN_POINTWISE_MUL, dp, p), scale);
    put_product(d, UID_DK, a->shape[DK], transposed(d, ds), q);
    graph_tensor rows = graph_virtual(g, a->shape[K]), total = graph_memory(g, UID_ACCUMULATOR, d->heads);
    graph_reshape(g, rows, k);
    graph_matmul(g, total, ds, rows);
    graph_pointwise(g, CUDNN_POINTWISE_IDENTITY, graph_memory(g, UID_DQ, a->shape[DQ]), total, GRAPH_NONE, GRAPH_NONE);
}

void attention_graph(cudnn_graph *g, const attention_spec *a)
{
    builder d = builder_of(g, a);
    graph_open(g);
    if (a->backward) backward(&d);
    else forward(&d);
}

/* Returns the shape of a tensor [s, b, heads, d] as [b, heads, s, d]. */
static graph_shape shape_of(const tensor *t)
{
    return (graph_shape){ CUDNN_DATA_BFLOAT16,
                          { t->dim[1], t->dim[2], t->dim[0], t->dim[3] },
                          { t->stride[1], t->stride[2], t->stride[0], 1 } };
}

attention_spec attention_spec_of(const cuda_call *c, bool backward)
{
    attention_spec a = { .backward = backward, .causal = c->args.attention.causal };
    for (int i = 0; i <= (backward ? DV : OUT); i++)
        if (i != LSE) a.shape[i] = shape_of(&c->x[i]);
    return a;
}

/* One engine stores dk and dv of every query head in BF16, another one also dq in FP32 (cuDNN 9.19, Hopper). */
size_t attention_workspace(const attention_spec *a)
{
    enum { SMALL_WORKSPACE = 1 << 20 };
    const int64_t *q = a->shape[Q].dim;
    return SMALL_WORKSPACE + (a->backward ? 4 * (size_t)(q[0] * q[1] * (q[2] + a->shape[K].dim[2]) * q[3]) : 0);
}
