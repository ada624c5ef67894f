/* The words of decks and reports: one list for each enumeration of bench_case.h. */
#include "plan/keys/names.h"
#include "base/op_kinds.h"
#include "plan/bench_case.h"
#include <stdio.h>

static const char *const axis_names[] = { "tensor", "context", "shard", "data", "pipeline" };
const char *const size_names[] = { "auto", "full", "small", "check", 0 };
const char *const precision_names[] = { "fp32", "bf16", "fp8", 0 };
const char *const fp8_scale_names[] = { "power_of_two", "exact", 0 };
const char *const fp8_scaling_names[] = { "delayed", "current", 0 };
const char *const backend_names[] = { "auto", "host", "cuda", 0 };
const char *const tokens_names[] = { "uniform", "ramp", "zeros", 0 };
const char *const recompute_names[] = {
    "none", "attention", "mlp", "layer", "attention_mlp", "elementwise", "attention_elementwise", 0
};
const char *const sharding_names[] = { "none", "optimizer", 0 };
#define NAME(constant, write, name) [constant] = name,
const char *const schedule_names[] = { SCHEDULES(NAME) 0 };
const char *const order_names[] = { "submitted", "hostile", 0 };
const char *const check_names[] = { "off", "model", "full", 0 };
const char *const context_gradient_names[] = { "fp32", "bf16", 0 };
const char *const overlap_names[] = { "off", "on", 0 };
const char *const all_names[] = { "all", 0 };
const char *const none_names[] = { "none", 0 };
const char *const expect_names[] = { "none", "reference", 0 };
const char *const answer_names[] = { "no", "yes", 0 };
const char *const checkpoint_read_names[] = { "no", "shifted", 0 };
const char *const attention_names[] = { "auto", "own", 0 };
const char *const fault_names[] = { "none", "drop", "stale", "repeat", "scale", "flip", "unwait", 0 };
#define OPERATION(constant, name) #name,
const char *const operation_names[] = { OPS_OF_STEPS(OPERATION) 0 };

const char *axis_name(mesh_axis axis) { return axis_names[axis]; }
const char *size_name(case_size size) { return size_names[size]; }
const char *precision_name(case_precision precision) { return precision_names[precision]; }
const char *fp8_scale_name(fp8_scale_rule rule) { return fp8_scale_names[rule]; }
const char *fp8_scaling_name(fp8_scaling_rule rule) { return fp8_scaling_names[rule]; }
const char *backend_name(case_backend backend) { return backend_names[backend]; }
const char *tokens_name(tokens_kind tokens) { return tokens_names[tokens]; }
const char *recompute_name(recompute_mask recompute) { return recompute_names[recompute]; }
const char *sharding_name(state_sharding sharding) { return sharding_names[sharding]; }
const char *schedule_name(schedule_kind schedule) { return schedule_names[schedule]; }
const char *attention_name(attention_choice attention) { return attention_names[attention]; }
const char *fault_name(fault_kind kind) { return fault_names[kind]; }

void names_list(const char *const *words, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; words[i] && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? " " : "", words[i]);
}

const char *layout_text(const mesh_layout *l, char text[LAYOUT_TEXT])
{
    const struct {
        const char *name;
        int degree;
    } part[] = { { "tensor", l->degree[AXIS_TENSOR] },
                 { "pipeline", l->degree[AXIS_PIPELINE] },
                 { "chunks", l->chunks_per_stage },
                 { "context", l->degree[AXIS_CONTEXT] },
                 { "expert", l->expert },
                 { "data", l->degree[AXIS_DATA] },
                 { "shard", l->degree[AXIS_SHARD] } };
    size_t used = 0;
    snprintf(text, LAYOUT_TEXT, "one rank");
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (part[i].degree > 1)
            used += (size_t)snprintf(text + used, LAYOUT_TEXT - used, "%s%s %d", used ? ", " : "", part[i].name,
                                     part[i].degree);
    return text;
}

const char *idle_text(const bench_case *c, char text[LAYOUT_TEXT])
{
    text[0] = 0;
    if (c->world_ranks > c->ranks && c->layout.copies == 1)
        snprintf(text, LAYOUT_TEXT, "%d of %d ranks: no further data rank fits, with a batch and experts that divide",
                 c->world_ranks - c->ranks, c->world_ranks);
    return text;
}
