/* Nemotron-4: LayerNorm with zero-centred gain and bias, grouped queries, rotary positions on a part of each head,
 * squared ReLU without gate, no biases of products. */
#include "model/family.h"

/* Slots of a layer (o: attention's output; a: the activation), and the head's logits. */
enum { X = SLOT_INPUT, N1, MOMENTS1, QKV, O, LSE, Y1, X2, N2, MOMENTS2, UP, A, Y2, LOGITS, SLOTS };

static const family_slot slots[SLOTS] = {
    [X] = { "x", residual_shape, .gradient = X },
    [N1] = { "n1", residual_shape, .gradient = N1, .dropped = BY_NORMS },
    [MOMENTS1] = { "moments1", row_moments_shape, .dropped = BY_NORMS },
    [QKV] = { "qkv", fused_heads_shape, .gradient = QKV, .dropped = BY_LAYER },
    [O] = { "o", heads_shape, .gradient = O, .dropped = BY_ATTENTION },
    [LSE] = { "lse", head_statistics_shape, .dropped = BY_ATTENTION },
    [Y1] = { "y1", residual_shape, .gradient = X, .dropped = BY_LAYER },
    [X2] = { "x2", residual_shape, .gradient = X, .dropped = BY_NORMS },
    [N2] = { "n2", residual_shape, .gradient = N1, .dropped = BY_NORMS },
    [MOMENTS2] = { "moments2", row_moments_shape, .dropped = BY_NORMS },
    [UP] = { "up", ffn_shape, .gradient = UP, .dropped = BY_MLP },
    [A] = { "a", ffn_shape, .gradient = A, .dropped = BY_ACTIVATION },
    [Y2] = { "y2", residual_shape, .gradient = X, .dropped = BY_LAYER },
    [LOGITS] = { "logits", logits_shape, .gradient = GRADIENT_IN_PLACE },
};

static const layer_step layer[] = {
    { STEP_NAMES("attention_norm"), &residual_norm, .makes = { X, N1, MOMENTS1 }, .weight = { PARAM_ATTENTION_NORM, 1 },
      .bias = { PARAM_ATTENTION_NORM_BIAS, 1 } },
    { STEP_NAMES("qkv"), &column_product, .reads = { N1 }, .makes = { QKV }, .weight = { PARAM_Q, 3 } },
    { STEP_NAMES("rope"), &rotation, .reads = { QKV }, .makes = { QKV } },
    { STEP_NAMES("attention"), &causal_attention, .reads = { QKV }, .makes = { O, LSE } },
    { STEP_NAMES("attention_output"), &row_product, .reads = { O }, .makes = { Y1 },
      .weight = { PARAM_ATTENTION_OUTPUT, 1 } },
    { STEP_NAMES("mlp_norm"), &residual_norm, .reads = { X, Y1 }, .makes = { X2, N2, MOMENTS2 },
      .weight = { PARAM_MLP_NORM, 1 }, .bias = { PARAM_MLP_NORM_BIAS, 1 } },
    { STEP_NAMES("up"), &column_product, .reads = { N2 }, .makes = { UP }, .weight = { PARAM_UP, 1 } },
    { STEP_NAMES("squared_relu"), &squared_relu, .reads = { UP }, .makes = { A } },
    { STEP_NAMES("down"), &row_product, .reads = { A }, .makes = { Y2 }, .weight = { PARAM_DOWN, 1 } },
};

static const layer_step head[] = {
    { STEP_NAMES("final_norm"), &residual_norm, .makes = { X, N1, MOMENTS1 }, .weight = { PARAM_FINAL_NORM, 1 },
      .bias = { PARAM_FINAL_NORM_BIAS, 1 } },
    { STEP_NAMES("head"), &column_product, .reads = { N1 }, .makes = { LOGITS }, .weight = { PARAM_HEAD, 1 } },
};

const family nemotron = { .slots = SLOTS,
                          .slot = slots,
                          .layer = { sizeof layer / sizeof *layer, layer },
                          .head = { sizeof head / sizeof *head, head },
                          .sum = X2,
                          .delta = Y2 };
