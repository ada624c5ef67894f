/* A family of models is a table: the steps that a layer takes, forward in this order and backward in the other, and the
 * slots of the tape that they make and read. What runs again in backward, what is kept and which buffers there are
 * follows from it. Families share kinds of steps; each is one file (model/llama.c). */
#pragma once
#include "model/param.h"
#include "model/tape.h"

/* How much of the model and of a microbatch a rank has. The letters are those of the shapes on this floor. */
typedef struct {
    dtype type;                               /* of activations */
    int64_t positions;                        /* s: of the sequence, between the context ranks */
    int64_t part;                             /* s/T: of those, between the tensor ranks */
    int64_t rows;                             /* b: microbatch */
    int64_t hidden, head_dim;                 /* h, d: whole */
    int64_t heads, kv_heads, ffn, vocabulary; /* between the tensor ranks; the padded vocabulary */
    int64_t tensor_ranks;                     /* T */
    int64_t experts, expert_ranks;            /* E: of a layer; EP: between whom they are */
    int64_t expert_parts; /* of the expert ranks, those in whose place this one is, part after part; 1: its own */
    int64_t capacity_groups, expert_rows; /* of this rank's tokens that compete apart; C: rows of them for an expert */
} rank_extents;
rank_extents rank_extents_of(const bench_case *c, const mesh *m);

/* A kind of step computes with the operands that a step names: forward reads and makes them. What it needs beside them
 * it has in the workspace (model/step_call.h), where `open`, called once, takes and fills it; NULL: nothing. */
struct step_call;
struct workspace;
/* Is its first operand multiplied with a weight? All experts' rows lie interleaved. */
typedef enum { PRODUCT_NONE, PRODUCT_OF_ALL, PRODUCT_OF_EXPERTS } step_product;
typedef struct {
    void (*open)(struct workspace *, arena *);
    void (*forward)(struct step_call *);
    void (*backward)(struct step_call *);
    void (*before_backward)(struct step_call *); /* of all steps of the layer, behind what runs again; NULL: nothing */
    unsigned saves_reads, saves_makes;           /* bit per operand that backward reads of the tape */
    bool gathers; /* backward wants its first operand, made by the step before, from all tensor ranks */
    step_product product;
    bool encodes; /* its operations make the codes of FP8 that products want of its values (model/step_call.h) */
} step_kind;

enum { STEP_OPERANDS = 6 };
/* Adjacent rows of the parameter table, taken as one; count 0: none. */
typedef struct {
    param_name first;
    int count;
} param_rows;
typedef struct {
    const char *name, *backward_name, *gradient_name; /* of its operations: STEP_NAMES */
    const step_kind *kind;
    int reads[STEP_OPERANDS + 1], makes[STEP_OPERANDS + 1]; /* slots in the kind's order, SLOT_NONE at the end */
    param_rows weight, bias;
} layer_step;
#define STEP_NAMES(name) name, "d_" name, name "_gradient"

/* Where the gradient of a slot lies. A slot's number: in that slot's gradient buffer, which is its own, or one of equal
 * shape that is no longer needed then; SLOT_INPUT's is the gradient of the residual stream. IN_PLACE: in the slot. */
enum { GRADIENT_NONE = SLOT_NONE, GRADIENT_IN_PLACE = -1 };
typedef struct {
    const char *name;
    tensor (*shape)(const rank_extents *); /* data absent */
    int gradient;
    unsigned dropped; /* bit per recompute policy that does not keep it: BY_... */
} family_slot;

/* Sets of policies that do not keep a slot. LAYER drops nearly all, ATTENTION_MLP less, so they are in the other sets.
 */
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
    const family_slot *slot; /* [slots]; SLOT_INPUT is the residual stream that a layer is given */
    step_list layer, head;   /* head: the final norm and the product with the head */
    int sum, delta;          /* slots: the residual stream behind a layer is sum + delta, added by the next norm */
} family;

extern const family llama, nemotron, gpt3, grok; /* Llama 2 and 3.1; Nemotron-4; GPT-3; Grok-1 */
const family *family_of(const bench_case *c);

slot_set step_reads(const layer_step *s);
slot_set step_makes(const layer_step *s);
slot_set step_saves(const layer_step *s); /* what its backward reads of the tape */
slot_set list_makes(const step_list *l);

/* What follows from the slots that a policy drops. A step of a layer runs again if it makes what a backward, or a step
 * that runs again, reads and the policy drops; what else is read then is kept. */
typedef struct {
    unsigned again; /* bit per step */
    slot_set kept;
    slot_set rows; /* of kept codes, those that a product which runs again reads */
} recomputing;
/* codes: products multiply with codes of what they read (model/fp8.h), which are made with it and dropped with it. */
recomputing recomputing_of(const family *f, recompute_mask policy, bool codes);
/* Of a layer: what products multiply with. */
slot_set family_multiplied(const family *f);

/* ---- kinds of steps, and the shapes of what they make ---- */

/* Operands are listed in the order of a step's reads and makes. Tensor parallelism shows only in the conjugate pairs of
 * the products. */

/* norm_steps.c. The residual stream is added up and normed: reads what it is the sum of, or nothing, where the layer
 * before left that; makes the sum, its norm and its row statistics. With a bias LayerNorm, else RMSNorm. */
enum { NORM_SUM, NORM_OUT, NORM_STATISTICS };
extern const step_kind residual_norm;
tensor residual_shape(const rank_extents *n);    /* [s/T, b, h] */
tensor row_rstd_shape(const rank_extents *n);    /* [s/T b] F32: statistics of RMSNorm */
tensor row_moments_shape(const rank_extents *n); /* [2 s/T b] F32: of LayerNorm, all rstd before all means */

/* product_steps.c. Column-parallel: reads [s/T, b, k], makes the product of what all tensor ranks have of it, [s, b,
 * n]. Row-parallel: reads [s, b, k], makes [s/T, b, n], summed over the tensor ranks. Rows of bias are added. */
extern const step_kind column_product, row_product;
tensor logits_shape(const rank_extents *n); /* [s, b, V/T] */

/* attention_steps.c. Rotation: of queries and keys in place of the fused ones. Attention: reads the fused queries, keys
 * and values, makes its output and log-sum-exp. */
extern const step_kind rotation, causal_attention;
tensor fused_heads_shape(const rank_extents *n);     /* [s, b, (heads + 2 kv_heads)/T d] */
tensor heads_shape(const rank_extents *n);           /* [s, b, heads/T d] */
tensor head_statistics_shape(const rank_extents *n); /* [b, heads/T, s] F32 */

/* mlp_steps.c. Reads gate and up, makes silu(gate) * up, or gelu(gate) * up. Reads up, makes max(up, 0)^2, or gelu(up +
 * bias), the step's. */
extern const step_kind geglu, swiglu, squared_relu, biased_gelu;
tensor gate_up_shape(const rank_extents *n); /* [s, b, 2 ffn/T] */
tensor ffn_shape(const rank_extents *n);     /* [s, b, ffn/T] */

/* router_steps.c. Reads [s/T, b, h], makes the router's logits, and of each token's two choices the experts, weights
 * and places, the buffers' sources, and statistics of the whole sequences. */
extern const step_kind routing;
tensor router_shape(const rank_extents *n);            /* [s/T b, E] */
tensor token_choices_shape(const rank_extents *n);     /* [s/T b, 2] I32 */
tensor token_weights_shape(const rank_extents *n);     /* [s/T b, 2] F32 */
tensor row_sources_shape(const rank_extents *n);       /* [E C] I32 */
tensor routed_statistics_shape(const rank_extents *n); /* [b, 3, E] F32 */

/* expert_steps.c. Rows of the experts are [rows, own experts, n]. Dispatch: reads [s/T, b, h], places and sources,
 * makes the rows of the own experts, from all expert ranks. Products, of every expert with its own matrix:
 * column-parallel of what all tensor ranks have, row-parallel summed over them and returned to the ranks that the rows
 * came from. Combination: reads rows, weights, places, sources, makes the tokens' sums. */
extern const step_kind dispatch, expert_column_product, expert_row_product, combination;
tensor expert_rows_shape(const rank_extents *n);     /* [EP C, E/EP, h] */
tensor expert_gathered_shape(const rank_extents *n); /* [T EP C, E/EP, h] */
tensor expert_gate_up_shape(const rank_extents *n);  /* [T EP C, E/EP, 2 ffn/T] */
tensor expert_ffn_shape(const rank_extents *n);      /* [T EP C, E/EP, ffn/T] */
