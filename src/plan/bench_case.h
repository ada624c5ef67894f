/* One case as everything above sees it: resolved from the deck, the catalogue and the ranks at hand, then constant.
 * Paper knowledge only: no MPI, no device. */
#pragma once
#include "base/op_kinds.h"
#include <stdbool.h>
#include <stdint.h>

enum { STRIPS_MOST = 16, REPEATS_MOST = 100 };
/* Instead of tokens/s that are expected. */
enum { EXPECT_NONE = 0, EXPECT_REFERENCE = -1 };
enum { NAME_LENGTH = 64, REASON_LENGTH = 256, CASE_REASONS = 8, PATH_LENGTH = 1024 };

typedef enum { SIZE_AUTO, SIZE_FULL, SIZE_SMALL, SIZE_CHECK } case_size;
typedef enum { PRECISION_FP32, PRECISION_BF16, PRECISION_FP8 } case_precision;
/* A tensor's scale: the largest number of its format / amax, or the power of two below. Amaxes: of the steps before, or
 * of the microbatch itself. */
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
/* The schedules: constant, function that writes the list of a stage (plan/schedule/schedule_NAME.c), name in a deck. */
#define SCHEDULES(row)                                                                                                 \
    row(SCHEDULE_GPIPE, gpipe_write, "gpipe") row(SCHEDULE_1F1B, one_forward_one_backward_write, "1f1b")               \
        row(SCHEDULE_INTERLEAVED, interleaved_write, "interleaved")

#define SCHEDULE_CONSTANT(constant, write, name) constant,
typedef enum { SCHEDULES(SCHEDULE_CONSTANT) } schedule_kind;
typedef enum { SHARDING_NONE, SHARDING_OPTIMIZER } state_sharding;
/* How the workload's recipe prints a step. */
typedef enum { STEP_LINE_ITERATION, STEP_LINE_COMPLETED, STEP_LINE_EPOCH } step_line;
typedef enum { CONTEXT_GRADIENTS_FP32, CONTEXT_GRADIENTS_BF16 } context_gradient_type;
typedef enum { ORDER_SUBMITTED, ORDER_HOSTILE } execution_order;
typedef enum { ATTENTION_AUTO, ATTENTION_OWN } attention_choice;
typedef enum { CHECK_OFF, CHECK_MODEL, CHECK_FULL } check_kind; /* full: the model, and a replay of timed steps */

/* Axes of the mesh, innermost first: rank = (((pipeline*D + data)*S + shard)*C + context)*T + tensor.
 * expert spans data x context and is no factor of the rank count. */
typedef enum { AXIS_TENSOR, AXIS_CONTEXT, AXIS_SHARD, AXIS_DATA, AXIS_PIPELINE, AXES } mesh_axis;
const char *axis_name(mesh_axis axis);
typedef struct {
    int degree[AXES];
    int expert, chunks_per_stage;
    int ranks; /* product of the degrees: ranks used */
} mesh_layout;

typedef enum { MLP_SWIGLU, MLP_GEGLU, MLP_GELU, MLP_SQUARED_RELU } mlp_kind; /* the first two are gated */
typedef enum { NORM_RMS, NORM_LAYER } norm_kind;                             /* LayerNorm: gain stored as 1 + g, bias */
typedef enum { INIT_STD, INIT_FAN_IN } init_kind; /* one std; or 1 / sqrt(fan-in), embedding and positions 1 */

/* Whose steps train it (model/family.h). */
typedef enum { FAMILY_LLAMA, FAMILY_NEMOTRON, FAMILY_GPT3, FAMILY_GROK } model_family;

/* Whole model, unsharded. */
typedef struct {
    model_family family;
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary, sequence;
    int64_t padded_vocabulary; /* multiple of 128 x tensor */
    int64_t experts, active;   /* MLPs of a layer, and those that a token passes; 0 where there is but one */
    double balance;            /* coefficient of the loss that keeps the experts' loads alike */
    int64_t position_rows;     /* of learned positions; 0: rotary */
    mlp_kind mlp;
    norm_kind norm;
    bool linear_biases, tied_embedding;
    double rope_base, rope_fraction; /* the part of the head dim that is rotated, from its start */
    bool rope_scaling;               /* Llama 3.1: factor 8, low 1, high 4, old context 8192 */
    double norm_epsilon;             /* 1e-5 */
    init_kind init;
    double init_std, output_init_std; /* attention_output and down take the second; depth scaling already in it.
                                         INIT_FAN_IN: both are the factor before 1 / sqrt(fan-in) */
    bool labels_next_token;           /* uniform stream: labels are the next tokens instead of independent draws */
} model_shape;

typedef struct {
    double beta1, beta2, epsilon, decay, clip; /* clip 0: none */
    bool decays_vectors;                       /* 1-D rows decay too */
    double learning_rate, learning_rate_minimum;
    int64_t learning_rate_warmup; /* steps; 0: none */
    bool learning_rate_from_zero; /* the warm-up's first step has rate 0 */
    bool learning_rate_constant;  /* no decay after warm-up */
} optimizer_rule;

/* Two numbers as a deck writes them, "20-25". */
typedef struct {
    int64_t first, last;
} number_range;

typedef struct {
    fault_kind kind;
    char operation[NAME_LENGTH];
    int64_t nth;
    int rank;
} planted_fault;

/* Tokens that compete for an expert's rows are those of one microbatch that one rank holds: of a context and a tensor
 * rank of such a layout. A case of one rank may stand for another layout's; zeros: for its own. */
typedef struct {
    int tensor, context, strips;
} capacity_groups;

/* A case of one rank may round as several do: sums over so many tensor and context ranks; with current scaling of FP8
 * so many parts of the experts have scales of their own, which are given before every step. 0: as its layout. */
typedef struct {
    int tensor, context, experts;
} imitated_ranks;

/* A case of one rank may have the samples of one of so many data ranks; 0: those of its own layout. */
typedef struct {
    int ranks, rank;
} sample_share;

typedef struct {
    int number;                       /* from 1, in deck order, sweeps unrolled */
    int line;                         /* deck line of its section */
    int stands_for;                   /* combinations of its section's lists that do this run; 1: itself alone */
    char workload[NAME_LENGTH];       /* catalogue name: llama3.1-8b */
    char model_name[NAME_LENGTH];     /* as reported: "llama3.1-405b, 8-layer proxy" or the workload */
    case_size size;                   /* resolved: never SIZE_AUTO */
    bool proxy;                       /* a recipe's proxy of fewer layers, or size small/check */
    bool recipe_layout;               /* layout, batch and way of computing are exactly the recipe's */
    int recipe_gpus;                  /* of the recipe's cell whose they are, data-parallel to its ranks; 0: of none */
    char incomparable[REASON_LENGTH]; /* why no published cell is like it; empty: one is */
    bool idle_asked;                  /* the deck gives the layout, and so which ranks take no part */
    case_precision precision;
    fp8_scale_rule fp8_scale;
    fp8_scaling_rule fp8_scaling;
    bool calibrates;                    /* a BF16 case that finds the first amaxes of an FP8 one */
    case_backend backend;               /* resolved: never BACKEND_AUTO when run; auto means cuda in a dry run */
    char backend_reason[REASON_LENGTH]; /* why this one: the deck, or what auto found */
    model_shape model;
    mesh_layout layout;
    int world_ranks;                                /* ranks of the world; layout.ranks <= world_ranks take part */
    int64_t microbatch, global_batch, microbatches; /* global_batch = data * shard * microbatch * microbatches */
    double capacity; /* of an expert, over an even share of a group's choices; 0: none is dropped */
    capacity_groups capacity_groups;
    imitated_ranks imitated;
    sample_share samples;
    bool choices_given; /* of experts, before every step */
    int64_t warmup, steps;
    double minutes;       /* that the timed steps go on at least; 0: none */
    int64_t repeats;      /* cases that are this one, one after another */
    int repeat;           /* which of them, from 1 */
    int64_t metric_steps; /* of the last steps, whose mean is the recipe's step time */
    uint32_t seed;
    tokens_kind tokens;
    recompute_mask recompute;
    state_sharding sharding;
    schedule_kind schedule;
    int64_t head_deferral;    /* last microbatches whose LM head weight gradient waits for the drain; 0: none */
    int strips, strips_asked; /* of a tensor rank's positions (parallel/conjugate.h); as the deck gave it, or 0 */
    context_gradient_type context_gradients;
    bool overlap, weight_gradient_queue;
    execution_order order;
    uint32_t order_seed;
    bool share_devices, deterministic; /* these five steer GPUs only */
    attention_choice attention;
    int transfer_sms;
    bool transfer_sms_given;
    double peak_bf16, peak_fp8; /* TFLOP/s of a device that no table knows; 0: not given */
    optimizer_rule optimizer;
    check_kind check;
    double expect, tolerance; /* tokens/s, or EXPECT_...; by what part of it less is accepted */
    planted_fault fault;
    char checkpoint[PATH_LENGTH], load[PATH_LENGTH]; /* folders, or "none" */
    int64_t checkpoint_every, checkpoint_keep;       /* steps between saves, 0: one at the end; how many stay */
    bool checkpoint_read;                            /* each is read back */
    double stall_seconds, time_limit;                /* time_limit 0: none */
    number_range profile, profile_ranks; /* steps for a profiler, without the last; 0-0: none. Ranks, with the last */
    char record[PATH_LENGTH];            /* HDF5 file of the run */
    char sheet[PATH_LENGTH];             /* machine sheet of the run, or "none" */
    step_line step_line;
    double recipe_flops_per_sequence; /* the recipe's own formula, for this shape */
    double model_flops_per_sequence;  /* true GQA projections, causal half attention */
    double recipe_block_flops_per_sequence, model_block_flops_per_sequence; /* of these, the blocks' products */
    char skipped[REASON_LENGTH]; /* non-empty: cannot be laid out or run; why */
} bench_case;

/* Writes "tensor 2, pipeline 2, chunks 2": the axes with several ranks, and the chunks of a stage. Returns text. */
enum { LAYOUT_TEXT = 128 };
const char *layout_text(const mesh_layout *l, char text[LAYOUT_TEXT]);

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
