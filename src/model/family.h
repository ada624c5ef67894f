/* A family of models: a table of the steps of a layer, which run forward in this order and backward in reverse, and of
 * the slots of the tape that they make and read. What runs again in backward, what is kept and which buffers exist
 * follows from the table. Families share kinds of steps; each family is one file (model/llama.c). */
#pragma once
#include "model/param.h"
#include "model/tape.h"

/* Extents of the model and of a microbatch on one rank. The letters are used in the shapes in model/. */
typedef struct {
    dtype type;                               /* type of activations */
    int64_t positions;                        /* s: positions on a context rank */
    int64_t own_positions;                    /* s/T: positions on a tensor rank */
    int64_t batch;                            /* b: sequences of a microbatch */
    int64_t hidden, head_dim;                 /* h, d: not split */
    int64_t heads, kv_heads, ffn, vocabulary; /* on a tensor rank; the vocabulary is padded */
    int64_t tensor_ranks;                     /* T */
    int64_t experts, expert_ranks;            /* E: experts of a layer; EP: ranks that share them */
    int64_t expert_parts;                     /* expert ranks that this rank imitates, one after another; 1: none */
    int64_t capacity_groups, expert_rows;     /* groups of competing tokens; C: rows of all groups for an expert */
} rank_extents;
rank_extents rank_extents_of(const bench_case *c, const mesh *m);

/* A kind of step: functions that read and make the operands that a step names. `open`, called once, takes and fills its
 * memory in the workspace (model/step_call.h); NULL: it needs none. */
struct step_call;
struct workspace;
/* The weight that the first operand is multiplied with. PRODUCT_OF_EXPERTS: the rows of all experts are interleaved. */
typedef enum { PRODUCT_NONE, PRODUCT_OF_ALL, PRODUCT_OF_EXPERTS } step_product;
typedef struct {
    void (*open)(struct workspace *, arena *);
    void (*forward)(struct step_call *);
    void (*backward)(struct step_call *);
    void (*before_backward)(struct step_call *); /* before the layer's backward, after what runs again; NULL: nothing */
    unsigned saves_reads, saves_makes;           /* bit per operand that backward reads from the tape */
    bool gathers; /* backward needs its first operand, made by the previous step, from all tensor ranks */
    step_product product;
    bool encodes; /* its operations also make the FP8 values that products need (model/step_call.h) */
} step_kind;

enum { STEP_OPERANDS = 6 };
/* Adjacent rows of the parameter table, used as one; count 0: none. */
typedef struct {
    param_name first;
    int count;
} param_rows;
typedef struct {
    const char *name, *backward_name, *gradient_name; /* names of its operations: STEP_NAMES */
    const step_kind *kind;
    int reads[STEP_OPERANDS + 1], makes[STEP_OPERANDS + 1]; /* slots in the kind's order, SLOT_NONE at the end */
    param_rows weight, bias;
} layer_step;
#define STEP_NAMES(name) name, "d_" name, name "_gradient"

/* Place of a slot's gradient. A slot's number: the gradient buffer of that slot, which slots of equal shape may share.
 * SLOT_INPUT: the gradient of the residual stream. IN_PLACE: the slot itself. */
enum { GRADIENT_NONE = SLOT_NONE, GRADIENT_IN_PLACE = -1 };
typedef struct {
    const char *name;
    tensor (*shape)(const rank_extents *); /* data absent */
    int gradient;
    unsigned dropped; /* bit per recompute policy that does not keep it: BY_... */
} family_slot;

/* Sets of policies that do not keep a slot. */
enum {
    BY_LAYER = 1 << RECOMPUTE_LAYER,
    BY_ATTENTION_MLP = BY_LAYER | 1 << RECOMPUTE_ATTENTION_MLP,
    BY_ELEMENTWISE = 1 << RECOMPUTE_ELEMENTWISE | 1 << RECOMPUTE_ATTENTION_ELEMENTWISE,
    BY_ATTENTION = BY_ATTENTION_MLP | 1 << RECOMPUTE_ATTENTION | 1 << RECOMPUTE_ATTENTION_ELEMENTWISE,
    BY_MLP = BY_ATTENTION_MLP | 1 << RECOMPUTE_MLP,
    BY_NORMS = BY_ATTENTION_MLP | BY_ELEMENTWISE,
    BY_ACTIVATION = BY_MLP | BY_ELEMENTWISE
};

typedef struct {
    int count;
    const layer_step *step;
} step_list;
typedef struct {
    int slots;
    const family_slot *slot; /* [slots]; SLOT_INPUT is the residual stream that enters a layer */
    step_list layer, head;   /* head: the final norm and the product with the head */
    int sum, delta;          /* slots: the residual stream after a layer is sum + delta, which the next norm adds */
} family;

extern const family llama, nemotron, gpt3, grok; /* Llama 2 and 3.1; Nemotron-4; GPT-3; Grok-1 */
const family *family_of(const bench_case *c);

slot_set step_reads(const layer_step *s);
slot_set step_makes(const layer_step *s);
slot_set step_saves(const layer_step *s); /* what its backward reads from the tape */
slot_set list_makes(const step_list *l);

/* Steps that run again under a policy, and slots that are kept. A step of a layer runs again if it makes a dropped slot
 * that a backward, or a step that runs again, reads. All other slots that are read are kept. */
typedef struct {
    unsigned again; /* bit per step */
    slot_set kept;
    slot_set kept_as_rows; /* FP8 values that the tape keeps as rows, because a product that runs again reads them */
} recomputing;
/* Returns what runs again and what is kept. fp8: products multiply FP8 values, which are dropped like the values. */
recomputing recomputing_of(const family *f, recompute_mask policy, bool fp8);
/* Returns the slots of a layer that products multiply. */
slot_set family_multiplied(const family *f);

/* ---- kinds of steps, and the shapes of what they make ---- */

/* Operands are in the order of reads and makes. Tensor parallelism only shows in the products' conjugate pairs. */

/* Norm of the residual stream (norm_steps.c). Reads the two terms of the sum, or nothing if the previous layer left
 * them; makes the sum, its norm and its row statistics. LayerNorm with a bias, else RMSNorm. */
enum { NORM_SUM, NORM_OUT, NORM_STATISTICS };
extern const step_kind residual_norm;
tensor residual_shape(const rank_extents *n);    /* [s/T, b, h] */
tensor row_rstd_shape(const rank_extents *n);    /* [s/T b] F32: statistics of RMSNorm */
tensor row_moments_shape(const rank_extents *n); /* [2 s/T b] F32: of LayerNorm, all rstd before all means */

/* Products (product_steps.c). Column-parallel: reads [s/T, b, k], gathers it over the tensor ranks, makes the product
 * [s, b, n]. Row-parallel: reads [s, b, k], makes [s/T, b, n], summed over the tensor ranks. Adds rows of bias. */
extern const step_kind column_product, row_product;
tensor logits_shape(const rank_extents *n); /* [s, b, V/T] */

/* Attention (attention_steps.c). Rotation: rotates queries and keys inside the fused tensor. Attention: reads the fused
 * queries, keys and values; makes its output and log-sum-exp. */
extern const step_kind rotation, causal_attention;
tensor fused_heads_shape(const rank_extents *n);     /* [s, b, (heads + 2 kv_heads)/T d] */
tensor heads_shape(const rank_extents *n);           /* [s, b, heads/T d] */
tensor head_statistics_shape(const rank_extents *n); /* [b, heads/T, s] F32 */

/* Activations (mlp_steps.c). Read gate and up, make silu(gate) * up or gelu(gate) * up; or read up, make max(up, 0)^2
 * or gelu(up + bias). */
extern const step_kind geglu, swiglu, squared_relu, biased_gelu;
tensor gate_up_shape(const rank_extents *n); /* [s, b, 2 ffn/T] */
tensor ffn_shape(const rank_extents *n);     /* [s, b, ffn/T] */

/* Routing (router_steps.c). Reads [s/T, b, h]; makes the router's logits; experts, weights and places of each token's
 * two choices; the buffers' sources; and statistics of whole sequences. */
extern const step_kind routing;
tensor router_shape(const rank_extents *n);            /* [s/T b, E] */
tensor token_choices_shape(const rank_extents *n);     /* [s/T b, 2] I32 */
tensor token_weights_shape(const rank_extents *n);     /* [s/T b, 2] F32 */
tensor row_sources_shape(const rank_extents *n);       /* [E C] I32 */
tensor routed_statistics_shape(const rank_extents *n); /* [b, 3, E] F32 */

/* Experts (expert_steps.c). Rows of experts are [rows, own experts, n]. Dispatch: reads [s/T, b, h], places and
 * sources; makes the rows of the own experts, from all expert ranks. Products, each expert with its own matrix:
 * column-parallel with rows from all tensor ranks; row-parallel, summed over them and returned to the ranks of the
 * tokens. Combination: reads rows, weights, places and sources; makes the tokens' sums. */
extern const step_kind dispatch, expert_column_product, expert_row_product, combination;
tensor expert_rows_shape(const rank_extents *n);     /* [EP C, E/EP, h] */
tensor expert_gathered_shape(const rank_extents *n); /* [T EP C, E/EP, h] */
tensor expert_gate_up_shape(const rank_extents *n);  /* [T EP C, E/EP, 2 ffn/T] */
tensor expert_ffn_shape(const rank_extents *n);      /* [T EP C, E/EP, ffn/T] */
