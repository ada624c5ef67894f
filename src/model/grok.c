/* Grok-1 as in the recipe: the attention of Llama, and a mixture of experts with GEGLU. */
#include "model/family.h"

/* Slots of a layer (o: attention's output; a: the activation; returned: the experts' output, back on the tokens'
 * ranks), and the head's logits. */
enum {
    X = SLOT_INPUT,
    N1,
    RSTD1,
    QKV,
    O,
    LSE,
    Y1,
    X2,
    N2,
    RSTD2,
    ROUTER,
    CHOSEN,
    WEIGHTED,
    PLACED,
    SOURCES,
    ROUTED,
    DISPATCHED,
    GATE_UP,
    A,
    RETURNED,
    Y2,
    LOGITS,
    SLOTS
};

/* The router's decisions are kept under every policy: they are small, and what runs again follows them. */
static const family_slot slots[SLOTS] = {
    [X] = { "x", residual_shape, .gradient = X },
    [N1] = { "n1", residual_shape, .gradient = N1, .dropped = BY_NORMS },
    [RSTD1] = { "rstd1", row_rstd_shape, .dropped = BY_NORMS },
    [QKV] = { "qkv", fused_heads_shape, .gradient = QKV, .dropped = BY_LAYER },
    [O] = { "o", heads_shape, .gradient = O, .dropped = BY_ATTENTION },
    [LSE] = { "lse", head_statistics_shape, .dropped = BY_ATTENTION },
    [Y1] = { "y1", residual_shape, .gradient = X, .dropped = BY_LAYER },
    [X2] = { "x2", residual_shape, .gradient = X, .dropped = BY_NORMS },
    [N2] = { "n2", residual_shape, .gradient = N1, .dropped = BY_NORMS },
    [RSTD2] = { "rstd2", row_rstd_shape, .dropped = BY_NORMS },
    [ROUTER] = { "router", router_shape, .gradient = ROUTER },
    [CHOSEN] = { "chosen", token_choices_shape },
    [WEIGHTED] = { "weighted", token_weights_shape, .gradient = WEIGHTED },
    [PLACED] = { "placed", token_choices_shape },
    [SOURCES] = { "sources", row_sources_shape },
    [ROUTED] = { "routed", routed_statistics_shape },
    [DISPATCHED] = { "dispatched", expert_rows_shape, .gradient = RETURNED, .dropped = BY_MLP },
    [GATE_UP] = { "gate_up", expert_gate_up_shape, .gradient = GATE_UP, .dropped = BY_MLP },
    [A] = { "a", expert_ffn_shape, .gradient = A, .dropped = BY_ACTIVATION },
    [RETURNED] = { "returned", expert_rows_shape, .gradient = RETURNED, .dropped = BY_LAYER },
    [Y2] = { "y2", residual_shape, .gradient = X, .dropped = BY_LAYER },
    [LOGITS] = { "logits", logits_shape, .gradient = GRADIENT_IN_PLACE },
};

static const layer_step layer[] = {
    { STEP_NAMES("attention_norm"), &residual_norm, .makes = { X, N1, RSTD1 }, .weight = { PARAM_ATTENTION_NORM, 1 } },
    { STEP_NAMES("qkv"), &column_product, .reads = { N1 }, .makes = { QKV }, .weight = { PARAM_Q, 3 } },
    { STEP_NAMES("rope"), &rotation, .reads = { QKV }, .makes = { QKV } },
    { STEP_NAMES("attention"), &causal_attention, .reads = { QKV }, .makes = { O, LSE } },
    { STEP_NAMES("attention_output"), &row_product, .reads = { O }, .makes = { Y1 },
      .weight = { PARAM_ATTENTION_OUTPUT, 1 } },
    { STEP_NAMES("mlp_norm"), &residual_norm, .reads = { X, Y1 }, .makes = { X2, N2, RSTD2 },
      .weight = { PARAM_MLP_NORM, 1 } },
    { STEP_NAMES("router"), &routing, .reads = { N2 }, .makes = { ROUTER, CHOSEN, WEIGHTED, PLACED, SOURCES, ROUTED },
      .weight = { PARAM_ROUTER, 1 } },
    { STEP_NAMES("dispatch"), &dispatch, .reads = { N2, PLACED, SOURCES }, .makes = { DISPATCHED } },
    { STEP_NAMES("gate_up"), &expert_column_product, .reads = { DISPATCHED }, .makes = { GATE_UP },
      .weight = { PARAM_GATE, 2 } },
    { STEP_NAMES("geglu"), &geglu, .reads = { GATE_UP }, .makes = { A } },
    { STEP_NAMES("down"), &expert_row_product, .reads = { A }, .makes = { RETURNED }, .weight = { PARAM_DOWN, 1 } },
    { STEP_NAMES("combine"), &combination, .reads = { RETURNED, WEIGHTED, PLACED, SOURCES }, .makes = { Y2 } },
};

static const layer_step head[] = {
    { STEP_NAMES("final_norm"), &residual_norm, .makes = { X, N1, RSTD1 }, .weight = { PARAM_FINAL_NORM, 1 } },
    { STEP_NAMES("head"), &column_product, .reads = { N1 }, .makes = { LOGITS }, .weight = { PARAM_HEAD, 1 } },
};

const family grok = { .slots = SLOTS,
                      .slot = slots,
                      .layer = { sizeof layer / sizeof *layer, layer },
                      .head = { sizeof head / sizeof *head, head },
                      .sum = X2,
                      .delta = Y2 };
