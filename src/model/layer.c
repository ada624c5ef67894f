/* One transformer layer: its steps forward, the steps that are run again, and backward. Data flows through the slots
 * of the tape; tensor parallelism shows only in the conjugate pairs. */
#include "machine/submit.h"
#include "model/stage.h"
#include <math.h>

typedef struct {
    stage *s;
    queue *q; /* compute */
    group *tensor;
    const layer_rows *row;
    tensor *slot;      /* of this microbatch and layer */
    tensor x_in, y_in; /* forward only */
    bool again;        /* in backward: the gathered input of the MLP is read once more */
    float epsilon;
} layer_call;

static layer_call call(stage *s, int chunk, int64_t microbatch, int64_t layer)
{
    int64_t number = s->chunk[chunk].first_layer + layer;
    machine_origin_now(s->queues.machine)->layer = (int)number;
    return (layer_call){ .s = s,
                         .q = s->queues.compute,
                         .tensor = &s->mesh->axis[AXIS_TENSOR],
                         .row = &s->params.layer[number],
                         .slot = tape_layer(&s->tape, chunk, microbatch, layer),
                         .epsilon = (float)s->given->model.norm_epsilon };
}

/* The weight of `count` adjacent rows as [in, out]: y = x W^T. */
static tensor weight(const layer_call *c, int row, int count)
{
    weight_ready(&c->s->params, row, c->q);
    return param_weight(&c->s->params, row, count);
}

/* d_weight (+)= dy^T x */
static void project_weight_gradient(const layer_call *c, const char *name, int row, int count, tensor x, tensor dy)
{
    param_table *t = &c->s->params;
    access_mode how = param_contribute(t, row, count);
    matmul(c->q, name, param_gradient(t, row, count), how, tensor_transposed(tensor_rows(dy)), tensor_rows(x));
    param_contributed(t, row, count);
}

/* Views of the queries, keys and values of a fused [s, b, (heads + 2 kv) d] tensor as [s, b, heads, d]. */
typedef struct {
    tensor q, k, v, rotated;
} qkv_views;

static qkv_views views(const layer_call *c, tensor fused)
{
    int64_t d = c->s->given->model.head_dim, all = fused.dim[2] / d, ranks = c->tensor->size;
    int64_t heads = c->s->given->model.heads / ranks, kv = c->s->given->model.kv_heads / ranks;
    tensor x = tensor_4d(fused.data, fused.type, fused.dim[0], fused.dim[1], all, d);
    return (qkv_views){ tensor_slice(x, 2, 0, heads), tensor_slice(x, 2, heads, kv), tensor_slice(x, 2, heads + kv, kv),
                        tensor_slice(x, 2, 0, heads + kv) };
}

static tensor by_heads(const layer_call *c, tensor x)
{
    int64_t d = c->s->given->model.head_dim;
    return tensor_4d(x.data, x.type, x.dim[0], x.dim[1], x.dim[2] / d, d);
}

static attention_args causal(const layer_call *c)
{
    return (attention_args){ .scale = (float)(1.0 / sqrt((double)c->s->given->model.head_dim)), .causal = true };
}

/* ---- forward: one function per layer_step ---- */

static void forward_norm1(const layer_call *c)
{
    bool adds = tensor_present(&c->y_in);
    tensor x = c->slot[SLOT_X];
    norm_forward(c->q, "attention_norm",
                 (norm_forward_operands){ .x = tensor_rows(adds ? c->x_in : x),
                                          .delta = adds ? tensor_rows(c->y_in) : tensor_none(),
                                          .gain = weight(c, c->row->attention_norm, 1),
                                          .sum = adds ? tensor_rows(x) : tensor_none(),
                                          .out = tensor_rows(c->slot[SLOT_N1]),
                                          .rstd = c->slot[SLOT_RSTD1] },
                 c->epsilon);
}

static void forward_qkv(const layer_call *c)
{
    gather_matmul(&c->s->queues, "qkv", c->tensor,
                  (gathered_product){ .part = c->slot[SLOT_N1],
                                      .w = tensor_transposed(weight(c, c->row->q, 3)),
                                      .whole = c->s->gathered,
                                      .y = c->slot[SLOT_QKV] });
    rope_forward(c->q, "rope", views(c, c->slot[SLOT_QKV]).rotated, c->s->rope);
}

static void forward_attention(const layer_call *c)
{
    qkv_views x = views(c, c->slot[SLOT_QKV]);
    ring_attention_forward(
        &c->s->ring,
        (attention_forward_operands){
            .q = x.q, .k = x.k, .v = x.v, .out = by_heads(c, c->slot[SLOT_O]), .lse = c->slot[SLOT_LSE] },
        causal(c));
}

static void forward_projection(const layer_call *c)
{
    matmul_scatter(&c->s->queues, "attention_output", c->tensor,
                   (scattered_product){ .a = tensor_rows(c->slot[SLOT_O]),
                                        .w = tensor_transposed(weight(c, c->row->attention_output, 1)),
                                        .partial = c->s->partial,
                                        .out = c->slot[SLOT_Y1] });
}

static void forward_norm2(const layer_call *c)
{
    norm_forward(c->q, "mlp_norm",
                 (norm_forward_operands){ .x = tensor_rows(c->slot[SLOT_X]),
                                          .delta = tensor_rows(c->slot[SLOT_Y1]),
                                          .gain = weight(c, c->row->mlp_norm, 1),
                                          .sum = tensor_rows(c->slot[SLOT_X2]),
                                          .out = tensor_rows(c->slot[SLOT_N2]),
                                          .rstd = c->slot[SLOT_RSTD2] },
                 c->epsilon);
}

static void forward_gate_up(const layer_call *c)
{
    gather_matmul(&c->s->queues, "gate_up", c->tensor,
                  (gathered_product){ .part = c->slot[SLOT_N2],
                                      .w = tensor_transposed(weight(c, c->row->gate, 2)),
                                      .whole = c->s->gathered,
                                      .y = c->slot[SLOT_GATE_UP],
                                      .keeps_whole = c->again });
}

static void forward_swiglu(const layer_call *c)
{
    swiglu_forward(c->q, "swiglu", tensor_rows(c->slot[SLOT_GATE_UP]), tensor_rows(c->slot[SLOT_A]));
}

static void forward_down(const layer_call *c)
{
    matmul_scatter(&c->s->queues, "down", c->tensor,
                   (scattered_product){ .a = tensor_rows(c->slot[SLOT_A]),
                                        .w = tensor_transposed(weight(c, c->row->down, 1)),
                                        .partial = c->s->partial,
                                        .out = c->slot[SLOT_Y2] });
}

static void (*const forward_step[LAYER_STEPS])(const layer_call *) = {
    [STEP_NORM1] = forward_norm1,           [STEP_QKV] = forward_qkv,     [STEP_ATTENTION] = forward_attention,
    [STEP_PROJECTION] = forward_projection, [STEP_NORM2] = forward_norm2, [STEP_GATE_UP] = forward_gate_up,
    [STEP_SWIGLU] = forward_swiglu,         [STEP_DOWN] = forward_down,
};

void layer_forward(stage *s, int chunk, int64_t microbatch, int64_t layer, tensor x_in, tensor y_in)
{
    layer_call c = call(s, chunk, microbatch, layer);
    c.x_in = x_in;
    c.y_in = y_in;
    for (int i = 0; i < LAYER_STEPS; i++) forward_step[i](&c);
}

/* What the mask dropped, from what it kept: x is on the tape, so the first norm has nothing to add. */
static void recompute(const layer_call *c)
{
    layer_call repeated = *c;
    origin *o = machine_origin_now(c->s->queues.machine);
    repeated.again = true;
    o->phase = PHASE_RECOMPUTE;
    for (int i = 0; i < LAYER_STEPS; i++)
        if (c->s->tape.again >> i & 1u) forward_step[i](&repeated);
    o->phase = PHASE_BACKWARD;
}

/* ---- backward ---- */

static void backward_norm(const layer_call *c, const char *name, int row, tensor x, tensor rstd)
{
    param_table *t = &c->s->params;
    access_mode how = param_contribute(t, row, 1);
    norm_backward(c->q, name,
                  (norm_backward_operands){ .d_out = tensor_rows(c->s->dn),
                                            .x = tensor_rows(x),
                                            .rstd = rstd,
                                            .gain = param_weight(t, row, 1),
                                            .dx = tensor_rows(c->s->dx),
                                            .gain_gradient = param_gradient(t, row, 1),
                                            .dx_access = UPDATE,
                                            .gain_access = how });
    param_contributed(t, row, 1);
}

/* dn = own part of dy W, summed over the tensor ranks. */
static void backward_column_parallel(const layer_call *c, const char *name, int row, int count, tensor dy)
{
    matmul_scatter(&c->s->queues, name, c->tensor,
                   (scattered_product){ .a = tensor_rows(dy),
                                        .w = param_weight(&c->s->params, row, count),
                                        .partial = c->s->partial,
                                        .out = c->s->dn });
}

/* d = dy W, dy gathered from the residual's gradient; returns dy. */
static tensor backward_row_parallel(const layer_call *c, const char *name, int row, tensor d)
{
    return gather_matmul(&c->s->queues, name, c->tensor,
                         (gathered_product){ .part = c->s->dx,
                                             .w = param_weight(&c->s->params, row, 1),
                                             .whole = c->s->d_gathered,
                                             .y = d,
                                             .keeps_whole = true });
}

/* The MLP's input from all tensor ranks: still there if gate and up were just computed again. */
static gathering mlp_input(const layer_call *c, mark after)
{
    stage *s = c->s;
    tensor part = c->slot[SLOT_N2];
    if (s->tape.again >> STEP_GATE_UP & 1u) return (gathering){ .whole = c->tensor->size == 1 ? part : s->gathered };
    return sequence_gather_begin(&s->queues, "mlp_norm", c->tensor, part, s->gathered, after);
}

static void backward_mlp(const layer_call *c)
{
    stage *s = c->s;
    mark before = queue_mark(c->q);
    tensor dy = backward_row_parallel(c, "d_down", c->row->down, s->d_a);
    gathering x = mlp_input(c, before);
    project_weight_gradient(c, "down_gradient", c->row->down, 1, c->slot[SLOT_A], dy);
    swiglu_backward(c->q, "d_swiglu", tensor_rows(c->slot[SLOT_GATE_UP]), tensor_rows(s->d_a),
                    tensor_rows(s->d_gate_up));
    project_weight_gradient(c, "gate_up_gradient", c->row->gate, 2, sequence_gather_end(&s->queues, x), s->d_gate_up);
    backward_column_parallel(c, "d_gate_up", c->row->gate, 2, s->d_gate_up);
    backward_norm(c, "d_mlp_norm", c->row->mlp_norm, c->slot[SLOT_X2], c->slot[SLOT_RSTD2]);
}

static void backward_attention(const layer_call *c)
{
    stage *s = c->s;
    qkv_views x = views(c, c->slot[SLOT_QKV]), d = views(c, s->d_qkv);
    mark before = queue_mark(c->q);
    tensor dy = backward_row_parallel(c, "d_attention_output", c->row->attention_output, s->d_o);
    gathering n = sequence_gather_begin(&s->queues, "attention_norm", c->tensor, c->slot[SLOT_N1], s->gathered, before);
    project_weight_gradient(c, "attention_output_gradient", c->row->attention_output, 1, c->slot[SLOT_O], dy);
    ring_attention_backward(&s->ring,
                            (attention_backward_operands){ .q = x.q,
                                                           .k = x.k,
                                                           .v = x.v,
                                                           .out = by_heads(c, c->slot[SLOT_O]),
                                                           .lse = c->slot[SLOT_LSE],
                                                           .d_out = by_heads(c, s->d_o),
                                                           .dq = d.q,
                                                           .dk = d.k,
                                                           .dv = d.v,
                                                           .dq_access = WRITE,
                                                           .dkv_access = WRITE },
                            causal(c));
    rope_backward(c->q, "d_rope", d.rotated, s->rope);
    project_weight_gradient(c, "qkv_gradient", c->row->q, 3, sequence_gather_end(&s->queues, n), s->d_qkv);
    backward_column_parallel(c, "d_qkv", c->row->q, 3, s->d_qkv);
    backward_norm(c, "d_attention_norm", c->row->attention_norm, c->slot[SLOT_X], c->slot[SLOT_RSTD1]);
}

void layer_backward(stage *s, int chunk, int64_t microbatch, int64_t layer)
{
    layer_call c = call(s, chunk, microbatch, layer);
    recompute(&c);
    backward_mlp(&c);
    backward_attention(&c);
}
