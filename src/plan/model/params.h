/* The parameters of a model by name. */
#pragma once

/* Rows of a layer's matrices that stand beside each other are multiplied as one. */
typedef enum {
    PARAM_EMBEDDING,
    PARAM_Q,
    PARAM_K,
    PARAM_V,
    PARAM_ATTENTION_OUTPUT,
    PARAM_GATE,
    PARAM_UP,
    PARAM_DOWN,
    PARAM_HEAD,
    PARAM_ATTENTION_NORM,
    PARAM_MLP_NORM,
    PARAM_FINAL_NORM,
    PARAM_NAMES
} param_name;
