/* The workloads, one row each. Facts come from NVIDIA's published recipes. If these are silent, a comment states the
 * choice of xgsw. */
#include "plan/catalogue/catalogue.h"

/* Layers, hidden, ffn, heads, key-value heads, vocabulary, sequence. */
#define SIZES(l, h, f, q, kv, v, s)                                                                                    \
    .layers = l, .hidden = h, .ffn = f, .heads = q, .kv_heads = kv, .vocabulary = v, .sequence = s
#define ADAM(e) .beta1 = 0.9, .beta2 = 0.95, .epsilon = e, .decay = 0.1
#define RATES(largest, smallest, steps)                                                                                \
    .learning_rate = largest, .learning_rate_minimum = smallest, .learning_rate_warmup = steps

/* Weights with an FP32 master. */
#define FP32_MASTER(whole, sharded)                                                                                    \
    .embedding = KEPT_BF16, .other = KEPT_BF16, .gradient = whole, .sharded_gradient = sharded, .master = KEPT_FP32,   \
    .moment = KEPT_FP32, .activation = KEPT_BF16

/* ---- llama 3.1 ---- */

#define LLAMA31_COMMON .family = FAMILY_LLAMA, .rope_base = 500000.0, .rope_fraction = 1.0, .norm_epsilon = 1e-5

/* Laptop proxy: 9,965,824 parameters. */
static const model_shape llama_small = { SIZES(8, 256, 1024, 8, 4, 4096, 256) };

static const optimizer_rule llama31_optimizer = { ADAM(1e-5), .clip = 1.0, RATES(3e-4, 3e-5, 2000) };

/* For Llama 3.1 and Grok. */
static const storage_rule bf16_storage = { .weight = KEPT_BF16, FP32_MASTER(KEPT_BF16, KEPT_BF16) },
                          fp8_storage = { .weight = KEPT_FP8_TWICE, FP32_MASTER(KEPT_BF16, KEPT_BF16) };

#define LLAMA31_ROW                                                                                                    \
    .recipe = "NeMo Llama 3.1 (25.04)", .small = &llama_small, .optimizer = &llama31_optimizer,                        \
    .formula = &llama_formula, .bf16 = &bf16_storage, .fp8 = &fp8_storage, .tokens = TOKENS_UNIFORM,                   \
    .recipe_tokens = TOKENS_UNIFORM, .recompute = RECOMPUTE_NONE, .sharding = SHARDING_OPTIMIZER, .metric_steps = 1

/* ---- llama 2 ---- */

static const optimizer_rule llama2_optimizer = { ADAM(1e-8), .decays_vectors = true, .clip = 1.0, RATES(3e-5, 3e-6, 0),
                                                 .learning_rate_from_zero = true };

/* The recipe has FP32 weights and a BF16 copy, which the FP8 run converts as it computes. Choice of xgsw: with shard,
 * BF16 sums over ranks are accumulated in FP32; without shard, gradients are accumulated in BF16 before the sum. */
static const storage_rule llama2_storage = { .weight = KEPT_BF16, FP32_MASTER(KEPT_BF16, KEPT_FP32) };

/* ---- nemotron 4 ---- */

static const model_shape nemotron_small = { SIZES(10, 256, 1024, 8, 4, 4096, 256) };

/* Choice of xgsw: 1-D parameters do not decay (the recipe's framework decayed norms). */
static const optimizer_rule nemotron_optimizer = { ADAM(1e-8), .clip = 1.0, RATES(1e-4, 1e-5, 500) };

#define NEMOTRON_COMMON                                                                                                \
    .embedding = KEPT_FP32, .other = KEPT_BF16, .gradient = KEPT_BF16, .sharded_gradient = KEPT_BF16,                  \
    .moment = KEPT_BF16, .activation = KEPT_BF16
static const storage_rule nemotron_storage = { .weight = KEPT_BF16, .master = KEPT_NOT, NEMOTRON_COMMON },
                          nemotron_fp8 = { .weight = KEPT_FP8_TWICE, .master = KEPT_BF16, NEMOTRON_COMMON };

/* ---- grok 1 ---- */

static const model_shape grok_small = { SIZES(4, 256, 256, 8, 4, 4096, 256) };

static const optimizer_rule grok_optimizer = { ADAM(1e-8), .clip = 1.0, RATES(1.2e-4, 1.2e-4, 636),
                                               .learning_rate_constant = true };

/* ---- gpt 3 ---- */

static const model_shape gpt3_small = { SIZES(8, 256, 1024, 8, 8, 4096, 256) },
                         gpt3_52k = { SIZES(8, 16, 64, 2, 2, 1024, 1024) };

#define GPT3_ADAM ADAM(1e-8), .decays_vectors = true, .learning_rate_from_zero = true
static const optimizer_rule gpt3_optimizer = { GPT3_ADAM, RATES(2e-5, 2e-5, 3180), .learning_rate_constant = true },
                            gpt3_52k_optimizer = { GPT3_ADAM, RATES(3e-5, 3e-6, 0) };

/* The recipe has FP32 weights and a BF16 copy. Choice of xgsw: FP32 gradients (recipe: FP32 or BF16, by revision). */
static const storage_rule gpt3_storage = { .weight = KEPT_BF16, FP32_MASTER(KEPT_FP32, KEPT_FP32) };

#define GPT3_SHAPE                                                                                                     \
    .family = FAMILY_GPT3, .mlp = MLP_GELU, .norm = NORM_LAYER, .linear_biases = true, .tied_embedding = true,         \
    .norm_epsilon = 1e-5, .init = INIT_FAN_IN, .init_std = 1.0, .labels_next_token = true
/* As in the recipe, nothing is sharded without a second data or context rank. */
#define GPT3_ROW                                                                                                       \
    .recipe = "JaxPP GPT3 (2024)", .step_line = STEP_LINE_COMPLETED, .formula = &gpt3_formula, .bf16 = &gpt3_storage,  \
    .fp8 = &gpt3_storage, .tokens = TOKENS_UNIFORM, .recipe_tokens = TOKENS_ZEROS, .sharding = SHARDING_OPTIMIZER,     \
    .metric_skips = 7

static const workload_row rows[] = {
    { .name = "llama3.1-8b",
      .small_layout = "context",
      LLAMA31_ROW,
      .full = { SIZES(32, 4096, 14336, 32, 8, 128256, 8192), .init_std = 0.01, LLAMA31_COMMON } },
    { .name = "llama3.1-70b",
      .small_layout = "pipeline chunks_per_stage tensor context",
      LLAMA31_ROW,
      .head_deferral = 22,
      .full = { SIZES(80, 8192, 28672, 64, 8, 128256, 8192), .init_std = 0.008944, LLAMA31_COMMON } },
    { .name = "llama3.1-405b",
      .small_layout = "tensor pipeline context",
      LLAMA31_ROW,
      .head_deferral = 50,
      .full = { SIZES(126, 16384, 53248, 128, 8, 128256, 8192), .init_std = 0.02, .rope_scaling = true,
                LLAMA31_COMMON } },
    { .name = "llama2-70b",
      .recipe = "MaxText Llama2 70B (25.01)",
      .step_line = STEP_LINE_COMPLETED,
      .metric_steps = 1,
      .full = { SIZES(80, 8192, 28672, 64, 8, 32000, 4096), .family = FAMILY_LLAMA, .rope_base = 10000.0,
                .rope_fraction = 1.0, .norm_epsilon = 1e-5, .init = INIT_FAN_IN, .init_std = 1.0,
                .labels_next_token = true },
      .small = &llama_small,
      .small_layout = "shard",
      .optimizer = &llama2_optimizer,
      .warmup_of_run = true,
      .formula = &llama_formula,
      .bf16 = &llama2_storage,
      .fp8 = &llama2_storage,
      .tokens = TOKENS_UNIFORM,
      .recipe_tokens = TOKENS_ZEROS,
      .recompute = RECOMPUTE_ATTENTION_MLP, /* in BF16 the recipe keeps the output of down, in FP8 nothing of the MLP;
                                               no backward needs that output, and the tape never keeps it */
      .sharding = SHARDING_NONE },          /* the shard axis shards the parameters */
    { .name = "nemotron4-340b",
      .recipe = "NeMo Nemotron4 340B (24.11)",
      .step_line = STEP_LINE_EPOCH,
      .metric_steps = 1,
      .full = { SIZES(96, 18432, 73728, 96, 8, 256000, 4096), .family = FAMILY_NEMOTRON, .mlp = MLP_SQUARED_RELU,
                .norm = NORM_LAYER, .rope_base = 10000.0, .rope_fraction = 0.5, .norm_epsilon = 1e-5,
                .init_std = 0.0063, .labels_next_token = true },
      .small = &nemotron_small,
      .small_layout = "tensor pipeline",
      .optimizer = &nemotron_optimizer,
      .formula = &nemotron_formula,
      .bf16 = &nemotron_storage,
      .fp8 = &nemotron_fp8,
      .tokens = TOKENS_RAMP,
      .recipe_tokens = TOKENS_RAMP,
      .recompute = RECOMPUTE_ATTENTION,
      .sharding = SHARDING_OPTIMIZER,
      .head_deferral = 22 },
    { .name = "grok1-314b",
      .recipe = "NeMo Grok-1 314B (25.02)",
      .step_line = STEP_LINE_EPOCH,
      .metric_steps = 5,
      .full = { SIZES(64, 6144, 32768, 48, 8, 128256, 8192), .family = FAMILY_GROK, .experts = 8, .active = 2,
                .balance = 0.01, .mlp = MLP_GEGLU, .rope_base = 1e6, .rope_fraction = 1.0, .norm_epsilon = 1e-5,
                .init_std = 0.008, .labels_next_token = true },
      .small = &grok_small,
      .small_layout = "expert tensor pipeline context",
      .optimizer = &grok_optimizer,
      .formula = &grok_formula,
      .bf16 = &bf16_storage,
      .fp8 = &fp8_storage,
      .tokens = TOKENS_RAMP,
      .recipe_tokens = TOKENS_RAMP,
      .recompute = RECOMPUTE_NONE,
      .sharding = SHARDING_OPTIMIZER,
      .batch_fixed_below = 512 },
    { .name = "gpt3-175b",
      GPT3_ROW,
      .full = { SIZES(96, 12288, 49152, 96, 96, 50304, 2048), .position_rows = 16384, GPT3_SHAPE },
      .small = &gpt3_small,
      .small_layout = "pipeline tensor",
      .optimizer = &gpt3_optimizer,
      .recompute = RECOMPUTE_ATTENTION_ELEMENTWISE }, /* in the recipe not for the last chunk (DECISIONS.md) */
    { .name = "gpt3-52k",
      GPT3_ROW,
      .full = { SIZES(8, 16, 64, 2, 2, 1024, 1024), .position_rows = 2048, GPT3_SHAPE },
      .small = &gpt3_52k,
      .small_layout = "pipeline tensor",
      .optimizer = &gpt3_52k_optimizer,
      .warmup_of_run = true,
      .recompute = RECOMPUTE_LAYER },
};

const workload_row *workload_at(int i) { return i < (int)(sizeof rows / sizeof rows[0]) ? &rows[i] : NULL; }
