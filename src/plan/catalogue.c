/* The workloads, one row each, and the list of them. */
#include "plan/catalogue.h"
#include "base/say.h"
#include <string.h>

#define LLAMA31_RECIPE "NeMo Llama 3.1 (25.04)"
#define LLAMA31_COMMON                                                                                                 \
    .kv_heads = 8, .vocabulary = 128256, .sequence = 8192, .rope_base = 500000.0, .norm_epsilon = 1e-5

/* Laptop proxy: 9,965,824 parameters. */
static const model_shape llama_small = {
    .layers = 8, .hidden = 256, .ffn = 1024, .heads = 8, .kv_heads = 4, .vocabulary = 4096, .sequence = 256
};

static const optimizer_rule llama31_optimizer = { .beta1 = 0.9,
                                                  .beta2 = 0.95,
                                                  .epsilon = 1e-5,
                                                  .decay = 0.1,
                                                  .clip = 1.0,
                                                  .learning_rate = 3e-4,
                                                  .learning_rate_minimum = 3e-5,
                                                  .learning_rate_warmup = 2000 };

#define LLAMA31_ROW                                                                                                    \
    .recipe = LLAMA31_RECIPE, .small = &llama_small, .optimizer = &llama31_optimizer, .formula = &llama_formula,       \
    .tokens = TOKENS_UNIFORM, .recompute = RECOMPUTE_NONE, .sharding = SHARDING_OPTIMIZER

static const workload_row rows[] = {
    { .name = "llama3.1-8b",
      LLAMA31_ROW,
      .full = { .layers = 32, .hidden = 4096, .ffn = 14336, .heads = 32, .init_std = 0.01, LLAMA31_COMMON } },
    { .name = "llama3.1-70b",
      LLAMA31_ROW,
      .head_deferral = 22,
      .full = { .layers = 80, .hidden = 8192, .ffn = 28672, .heads = 64, .init_std = 0.008944, LLAMA31_COMMON } },
    { .name = "llama3.1-405b",
      LLAMA31_ROW,
      .head_deferral = 50,
      .full = { .layers = 126,
                .hidden = 16384,
                .ffn = 53248,
                .heads = 128,
                .init_std = 0.02,
                .rope_scaling = true,
                LLAMA31_COMMON } },
};
enum { ROWS = sizeof rows / sizeof rows[0] };

const workload_row *workload_at(int i) { return i < ROWS ? &rows[i] : NULL; }

const workload_row *workload_find(text_view name)
{
    for (int i = 0; i < ROWS; i++)
        if (text_equal(name, rows[i].name)) return &rows[i];
    return NULL;
}

const workload_row *workload_nearest(text_view name)
{
    const workload_row *nearest = &rows[0];
    for (int i = 1; i < ROWS; i++)
        if (text_distance(name, rows[i].name) < text_distance(name, nearest->name)) nearest = &rows[i];
    return nearest;
}

optimizer_rule optimizer_for(const workload_row *w, case_size size)
{
    optimizer_rule rule = *w->optimizer;
    if (size == SIZE_FULL) return rule;
    rule.epsilon = 1e-8;
    rule.learning_rate = rule.learning_rate_minimum = 1e-3;
    rule.learning_rate_warmup = 0;
    rule.learning_rate_constant = true;
    return rule;
}

static void print_workload(const workload_row *w)
{
    model_shape m = w->full;
    m.head_dim = m.hidden / m.heads;
    say("\n[%s]  %s\n", w->name, w->recipe);
    say("  %.3f billion parameters: %lld layers, hidden %lld, ffn %lld, %lld heads, %lld kv heads, vocabulary %lld, "
        "sequence %lld\n",
        (double)model_parameters(&m) * 1e-9, (long long)m.layers, (long long)m.hidden, (long long)m.ffn,
        (long long)m.heads, (long long)m.kv_heads, (long long)m.vocabulary, (long long)m.sequence);
    say("  %.6e flops a sequence by the recipe's formula, %.6e with causal attention\n", formula_flops(w->formula, &m),
        formula_model_flops(w->formula, &m));
}

static void print_recipe(const recipe_row *r, const workload_row *w)
{
    bool built = strcmp(r->precision, "bf16") == 0;
    say("  %-5s %6d %7lld %7d %9d %8d %6d %5d %6d %6lld %7lld%s%s\n", r->precision, r->gpus, (long long)r->layers,
        r->tensor, r->pipeline, r->context, r->data, r->shard, r->chunks_per_stage, (long long)r->micro_batch,
        (long long)r->global_batch, r->layers != w->full.layers ? "  proxy" : "", built ? "" : "  not built: fp8");
}

void catalogue_print(void)
{
    for (int i = 0; i < ROWS; i++) {
        print_workload(&rows[i]);
        say("  %-5s %6s %7s %7s %9s %8s %6s %5s %6s %6s %7s\n", "", "gpus", "layers", "tensor", "pipeline", "context",
            "data", "shard", "chunks", "micro", "global");
        for (int j = 0; recipe_at(j); j++)
            if (strcmp(recipe_at(j)->workload, rows[i].name) == 0) print_recipe(recipe_at(j), &rows[i]);
    }
}
