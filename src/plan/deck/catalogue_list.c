/* Output of --list. */
#include "plan/deck/catalogue_list.h"
#include "base/say.h"
#include "plan/deck/deck.h"
#include "plan/model/params.h"
#include "plan/model/shapes.h"
#include <math.h>
#include <string.h>

static const char *const mlp_names[] = {
    [MLP_SWIGLU] = "SwiGLU", [MLP_GEGLU] = "GEGLU", [MLP_GELU] = "GeLU", [MLP_SQUARED_RELU] = "squared ReLU"
};

void model_print(const model_shape *m)
{
    say("layers %lld, hidden %lld, ffn %lld, heads %lld/%lld, vocabulary %lld", (long long)m->layers,
        (long long)m->hidden, (long long)m->ffn, (long long)m->heads, (long long)m->kv_heads, (long long)m->vocabulary);
    if (m->padded_vocabulary != m->vocabulary) say(", padded to %lld", (long long)m->padded_vocabulary);
    say(", sequence %lld; %s, %s%s%s", (long long)m->sequence, m->norm == NORM_RMS ? "RMSNorm" : "LayerNorm",
        mlp_names[m->mlp], m->linear_biases ? ", biases" : "", m->tied_embedding ? ", tied embedding" : "");
    if (m->experts) say(", %lld experts, %lld active", (long long)m->experts, (long long)m->active);
    if (m->position_rows) say(", %lld learned positions", (long long)m->position_rows);
    if (m->position_rows == 0 && m->rope_fraction < 1) say(", %g of the head dim rotated", m->rope_fraction);
    say("\n");
}

static void print_storage(const char *precision, const storage_rule *s)
{
    say("  %-4s  weights %s, word embedding %s, master %s, moments %s; gradients ", precision, kept_name(s->weight),
        kept_name(s->embedding), kept_name(s->master), kept_name(s->moment));
    if (s->sharded_gradient == s->gradient) say("%s\n", kept_name(s->gradient));
    else
        say("%s sums of bf16 reductions (as in the recipe) with shard > 1, otherwise %s\n",
            kept_name(s->sharded_gradient), kept_name(s->gradient));
}

static void print_workload(const workload_row *w)
{
    model_shape m = w->full;
    shape_complete(&m, 1);
    say("\n[%s]  %s\n", w->name, w->recipe);
    say("  %lld parameters; ", (long long)model_parameters(&m));
    say("flops per sequence: %.6e by the recipe's formula, %.6e with causal attention and actual kv_heads\n",
        formula_flops(w->formula, &m), model_flops(&m));
    say("  ");
    model_print(&m);
    print_storage("bf16", w->bf16);
    print_storage("fp8", w->fp8);
    say("  recompute %s, sharding %s%s\n", recompute_name(w->recompute), sharding_name(w->sharding),
        w->sharding == SHARDING_OPTIMIZER ? " where data x context > 1" : "");
    if (m.tied_embedding)
        say("  the head is the embedding, of std 1, so logits have std sqrt(hidden) and the first loss is near "
            "sqrt(2 ln(vocabulary) hidden), %.0f\n",
            sqrt(2.0 * log((double)m.vocabulary) * (double)m.hidden));
}

static void print_recipe(const recipe_row *r, const workload_row *w)
{
    bool proxy = r->layers != w->full.layers;
    say("  %-5s %6d %5s %9lld %7lld %7d %9d %8d %7d %5d %6d %7d %6lld %7lld%s%s%s\n", precision_name(r->precision),
        r->gpus, r->gpu, (long long)r->sequence, (long long)r->layers, r->tensor, r->pipeline, r->context, r->expert,
        r->data, r->shard, r->chunks_per_stage, (long long)r->microbatch, (long long)r->global_batch,
        proxy ? "  proxy" : "", r->format ? "  published in " : "", r->format ? r->format : "");
}

void workload_print(const workload_row *w)
{
    print_workload(w);
    say("  %-5s %6s %5s %9s %7s %7s %9s %8s %7s %5s %6s %7s %6s %7s\n", "", "gpus", "gpu", "sequence", "layers",
        "tensor", "pipeline", "context", "expert", "data", "shard", "chunks", "micro", "global");
    for (int j = 0; recipe_at(j); j++)
        if (strcmp(recipe_at(j)->workload, w->name) == 0) print_recipe(recipe_at(j), w);
}

void catalogue_print(void)
{
    for (int i = 0; workload_at(i); i++) workload_print(workload_at(i));
    devices_print();
}
