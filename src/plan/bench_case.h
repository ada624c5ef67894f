/* One case, resolved from the deck, the catalogue and the number of ranks; constant from then on. */
#pragma once
#include "base/op_kinds.h"
#include <stdbool.h>
#include <stdint.h>

enum { STRIPS_MOST = 16, REPEATS_MOST = 100 };
/* Values of bench_case.expect instead of a rate in tokens/s. */
enum { EXPECT_NONE = 0, EXPECT_REFERENCE = -1 };
enum { NAME_LENGTH = 64, REASON_LENGTH = 256, CASE_REASONS = 8, PATH_LENGTH = 1024 };

typedef enum { SIZE_AUTO, SIZE_FULL, SIZE_SMALL, SIZE_CHECK } case_size;
typedef enum { PRECISION_FP32, PRECISION_BF16, PRECISION_FP8 } case_precision;
/* Scale of an FP8 tensor: the largest number of its format / amax, or the power of two below it. The amaxes come from
 * earlier steps (delayed) or from the microbatch itself (current). */
typedef enum { FP8_POWER_OF_TWO, FP8_EXACT } fp8_scale_rule;
typedef enum { FP8_DELAYED, FP8_CURRENT } fp8_scaling_rule;
typedef enum { BACKEND_AUTO, BACKEND_HOST, BACKEND_CUDA } case_backend;
typedef enum {
    RECOMPUTE_NONE,
    RECOMPUTE_ATTENTION,
    RECOMPUTE_MLP,
    RECOMPUTE_LAYER,
    RECOMPUTE_ATTENTION_MLP,
    RECOMPUTE_ELEMENTWISE,
    RECOMPUTE_ATTENTION_ELEMENTWISE
} recompute_mask;
/* The schedules. A row has a constant, the function that writes the list of a stage (plan/schedule/schedule_NAME.c),
 * and the name in a deck. */
#define SCHEDULES(row)                                                                                                 \
    row(SCHEDULE_GPIPE, gpipe_write, "gpipe") row(SCHEDULE_1F1B, one_forward_one_backward_write, "1f1b")               \
        row(SCHEDULE_INTERLEAVED, interleaved_write, "interleaved")

#define SCHEDULE_CONSTANT(constant, write, name) constant,
typedef enum { SCHEDULES(SCHEDULE_CONSTANT) } schedule_kind;
typedef enum { SHARDING_NONE, SHARDING_OPTIMIZER } state_sharding;
/* Form of a step line, as the workload's recipe prints it. */
typedef enum { STEP_LINE_ITERATION, STEP_LINE_COMPLETED, STEP_LINE_EPOCH } step_line;
typedef enum { CONTEXT_GRADIENTS_FP32, CONTEXT_GRADIENTS_BF16 } context_gradient_type;
typedef enum { ORDER_SUBMITTED, ORDER_HOSTILE } execution_order;
typedef enum { ATTENTION_AUTO, ATTENTION_OWN } attention_choice;
typedef enum { CHECK_OFF, CHECK_MODEL, CHECK_FULL } check_kind; /* full: with a replay after the timed steps */

/* Axes of the mesh, innermost first: rank = (((pipeline*D + data)*S + shard)*C + context)*T + tensor. The expert axis
 * spans data x context and is no factor of the number of ranks. */
typedef enum { AXIS_TENSOR, AXIS_CONTEXT, AXIS_SHARD, AXIS_DATA, AXIS_PIPELINE, AXES } mesh_axis;
const char *axis_name(mesh_axis axis);
typedef struct {
    int degree[AXES];
    int expert, chunks_per_stage;
    int ranks;  /* ranks of a copy: the product of the degrees */
    int copies; /* independent copies of the mesh, which train the same (plan/deck/copies.c) */
} mesh_layout;

typedef enum { MLP_SWIGLU, MLP_GEGLU, MLP_GELU, MLP_SQUARED_RELU } mlp_kind; /* the first two are gated */
typedef enum { NORM_RMS, NORM_LAYER } norm_kind;  /* LayerNorm: has a bias, stores its gain - 1 */
typedef enum { INIT_STD, INIT_FAN_IN } init_kind; /* one std; or 1 / sqrt(fan-in), but 1 for embedding and positions */

/* Model family, which selects the steps of a layer (model/family.h). */
typedef enum { FAMILY_LLAMA, FAMILY_NEMOTRON, FAMILY_GPT3, FAMILY_GROK } model_family;

/* Shape of the whole model, before it is split over ranks. */
typedef struct {
    model_family family;
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary, sequence;
    int64_t padded_vocabulary; /* multiple of 128 x tensor */
    int64_t experts, active;   /* MLPs of a layer; MLPs that a token passes through. Both 0: a single MLP */
    double balance;            /* coefficient of the loss term that balances the experts' loads */
    int64_t position_rows;     /* rows of the learned positions; 0: rotary positions */
    mlp_kind mlp;
    norm_kind norm;
    bool linear_biases, tied_embedding;
    double rope_base, rope_fraction; /* rope_fraction: rotated part of the head dim, from its start */
    bool rope_scaling;               /* Llama 3.1: factor 8, low 1, high 4, old context 8192 */
    double norm_epsilon;             /* 1e-5 in every workload */
    init_kind init;
    double init_std, output_init_std; /* output_init_std: for attention_output and down, depth scaling included.
                                         INIT_FAN_IN: both are the factor before 1 / sqrt(fan-in) */
    bool labels_next_token;           /* uniform tokens: labels are the next tokens, not independent draws */
} model_shape;

typedef struct {
    double beta1, beta2, epsilon, decay, clip; /* clip 0: no clipping */
    bool decays_vectors;                       /* 1-D parameters decay, too */
    double learning_rate, learning_rate_minimum;
    int64_t learning_rate_warmup; /* steps; 0: none */
    bool learning_rate_from_zero; /* the first warm-up step has rate 0 */
    bool learning_rate_constant;  /* no decay after the warm-up */
} optimizer_rule;

/* A range of two numbers, written "20-25" in a deck. */
typedef struct {
    int64_t first, last;
} number_range;

typedef struct {
    fault_kind kind;
    char operation[NAME_LENGTH];
    int64_t nth;
    int rank;
} planted_fault;

/* Tokens compete for an expert's rows in groups: those of one microbatch on one context and tensor rank of this layout.
 * A reference on one rank uses the layout of its case; 0: its own layout. */
typedef struct {
    int tensor, context, strips;
} capacity_groups;

/* Ranks whose rounding a case of one rank imitates: in sums over `tensor` and `context` ranks, and with separate scales
 * for each of `experts` parts of the experts (current scaling). 0: none. */
typedef struct {
    int tensor, context, experts;
} imitated_ranks;

/* Data rank whose samples a case of one rank uses, out of `ranks`; 0: the samples of its own layout. */
typedef struct {
    int ranks, rank;
} sample_share;

typedef struct {
    int number;                   /* from 1, in deck order, after sweeps are unrolled */
    int line;                     /* deck line of its section */
    int stands_for;               /* combinations of its section's lists that do this run */
    char workload[NAME_LENGTH];   /* catalogue name: llama3.1-8b */
    char model_name[NAME_LENGTH]; /* as reported: "llama3.1-405b, 8-layer proxy" or the workload */
    case_size size;               /* resolved: never SIZE_AUTO */
    bool proxy;                   /* not the recipe's full model: other layers, another shape, or size small or check */
    bool recipe_layout;           /* layout, batch and other work of a step are those of the recipe */
    int recipe_gpus;              /* GPUs of the recipe's cell with this work on each rank; 0: no such cell */
    char incomparable[REASON_LENGTH]; /* reason why no published cell is comparable; empty: one is */
    case_precision precision;
    fp8_scale_rule fp8_scale;
    fp8_scaling_rule fp8_scaling;
    bool calibrates;                    /* a BF16 case that finds the first amaxes of an FP8 case */
    case_backend backend;               /* resolved: never BACKEND_AUTO */
    char backend_reason[REASON_LENGTH]; /* the deck's choice, or what auto found */
    model_shape model;
    mesh_layout layout;
    int ranks;                                      /* ranks that take part: those of all copies */
    int world_ranks;                                /* ranks in the world */
    int64_t microbatch, global_batch, microbatches; /* global_batch = data * shard * microbatch * microbatches */
    double capacity; /* rows of an expert / even share of a group's choices; 0: no choice is dropped */
    capacity_groups capacity_groups;
    imitated_ranks imitated;
    sample_share samples;
    bool choices_given; /* the choices of experts are given before every step */
    int64_t warmup, steps;
    double minutes;       /* minimum duration of the timed steps; 0: none */
    int64_t repeats;      /* runs of this case, one after another */
    int repeat;           /* number of this run, from 1 */
    int64_t metric_steps; /* number of last steps whose mean is the recipe's step time */
    uint32_t seed;
    tokens_kind tokens;
    recompute_mask recompute;
    state_sharding sharding;
    schedule_kind schedule;
    int64_t head_deferral;    /* last microbatches whose LM head weight gradient is deferred (schedule.h) */
    int strips, strips_asked; /* pieces of a tensor rank's positions (parallel/conjugate.h); the deck's, or 0 */
    context_gradient_type context_gradients;
    bool overlap, weight_gradient_queue;
    execution_order order;
    uint32_t order_seed;
    bool share_devices, deterministic; /* these, up to transfer_sms_given, matter on GPUs only */
    attention_choice attention;
    int transfer_sms;
    bool transfer_sms_given;
    double peak_bf16, peak_fp8; /* TFLOP/s of a device that is not in devices.c; 0: not given */
    optimizer_rule optimizer;
    check_kind check;
    double expect, tolerance; /* tokens/s, or EXPECT_...; fraction by which the speed may be lower */
    double power_limit;       /* watts of a GPU; 0: none */
    planted_fault fault;
    char checkpoint[PATH_LENGTH], load[PATH_LENGTH]; /* folders, or "none" */
    int64_t checkpoint_every, checkpoint_keep; /* steps between saves, 0: one at the end; checkpoints that are kept */
    bool checkpoint_read;                      /* each checkpoint is read back after it is saved */
    double stall_seconds, time_limit;          /* time_limit 0: none */
    number_range profile, profile_ranks; /* steps for a profiler, last excluded, 0-0: none; ranks, last included */
    char record[PATH_LENGTH];            /* HDF5 file of the run */
    char output[PATH_LENGTH];            /* file that gets a copy of the report, or "none" */
    char sheet[PATH_LENGTH];             /* machine sheet of the run, or "none" */
    step_line step_line;
    double recipe_flops_per_sequence; /* by the recipe's own formula, for this shape */
    double model_flops_per_sequence;  /* with true GQA projections and causal half attention */
    double recipe_block_flops_per_sequence, model_block_flops_per_sequence; /* of the blocks' products only */
    char skipped[REASON_LENGTH]; /* reason why the case cannot be laid out or run; empty: it can */
} bench_case;

/* Writes the axes with several ranks and the chunks of a stage: "tensor 2, pipeline 2, chunks 2". Returns text. */
enum { LAYOUT_TEXT = 128 };
const char *layout_text(const mesh_layout *l, char text[LAYOUT_TEXT]);
/* Writes how many ranks stay idle and why; "" if none does, or if the case has copies. Returns text. */
const char *idle_text(const bench_case *c, char text[LAYOUT_TEXT]);

const char *size_name(case_size size);
const char *precision_name(case_precision precision);
const char *fp8_scale_name(fp8_scale_rule rule);
const char *fp8_scaling_name(fp8_scaling_rule rule);
const char *backend_name(case_backend backend);
const char *tokens_name(tokens_kind tokens);
const char *recompute_name(recompute_mask recompute);
const char *sharding_name(state_sharding sharding);
const char *schedule_name(schedule_kind schedule);
const char *attention_name(attention_choice attention);
const char *fault_name(fault_kind kind);
