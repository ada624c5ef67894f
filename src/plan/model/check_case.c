/* Cases derived from a case. */
#include "plan/model/check_case.h"
#include "plan/model/params.h"
#include "plan/model/shapes.h"
#include <stdio.h>

static void check_batch(bench_case *c)
{
    int pipeline = c->layout.degree[AXIS_PIPELINE];
    c->microbatch = 1;
    c->microbatches = pipeline > 2 ? pipeline : 2;
    c->global_batch = (int64_t)c->layout.degree[AXIS_DATA] * c->layout.degree[AXIS_SHARD] * c->microbatches;
}

/* The learning rate is divided by the layers. Adam moves every weight by about that rate, and the changes add up over
 * the layers, so a correct deep model would otherwise drift away from its reference in four steps. Tokens are uniform,
 * because zeros, and ramps once they are learned, leave gradients that are mostly rounding errors. */
bench_case check_case(const bench_case *c)
{
    const workload_row *w = workload_find(text_of(c->workload));
    bench_case check = *c;
    check.size = SIZE_CHECK;
    check.proxy = true;
    check.recipe_layout = false, check.recipe_gpus = 0;
    check.model = shape_check(w, &c->layout, c->strips, shape_slots(c->model.layers, &c->layout));
    check.optimizer = optimizer_for(w, SIZE_CHECK, CHECK_STEPS);
    check.optimizer.learning_rate *= 2.0 / (double)check.model.layers;
    check.warmup = 0;
    check.steps = CHECK_STEPS;
    check.check = CHECK_OFF;
    check.tokens = TOKENS_UNIFORM;
    snprintf(check.model_name, NAME_LENGTH, "%s, check model", w->name);
    check_batch(&check);
    count_flops(&check, w->formula);
    return check;
}

static bool has_separate_expert_scales(const bench_case *c)
{
    return c->precision == PRECISION_FP8 && c->fp8_scaling == FP8_CURRENT && c->layout.expert > 1;
}

bool can_be_imitated(const bench_case *c)
{
    int context = c->layout.degree[AXIS_CONTEXT], expert = c->layout.expert;
    return !has_separate_expert_scales(c) || expert % context == 0 || context % expert == 0;
}

int imitated_experts(const bench_case *c)
{
    int data_ranks = c->layout.expert / c->layout.degree[AXIS_CONTEXT];
    return has_separate_expert_scales(c) && can_be_imitated(c) && data_ranks > 1 ? data_ranks : 0;
}

static int imitated_degree(const bench_case *c, mesh_axis axis)
{
    return c->layout.degree[axis] > 1 ? c->layout.degree[axis] : 0;
}

bench_case single_rank_case(const bench_case *c, bool fp32)
{
    bench_case single = *c;
    single.layout = one_rank_layout;
    single.capacity_groups =
        (capacity_groups){ c->layout.degree[AXIS_TENSOR], c->layout.degree[AXIS_CONTEXT], c->strips };
    single.ranks = single.world_ranks = 1;
    single.recipe_layout = false, single.recipe_gpus = 0;
    single.backend = BACKEND_HOST;
    if (fp32) single.precision = PRECISION_FP32;
    if (single.precision != PRECISION_FP32)
        single.imitated =
            (imitated_ranks){ .tensor = imitated_degree(c, AXIS_TENSOR), .context = imitated_degree(c, AXIS_CONTEXT) };
    single.sharding = SHARDING_NONE;
    single.recompute = RECOMPUTE_NONE;
    single.schedule = SCHEDULE_1F1B;
    single.strips = 1;
    single.overlap = single.weight_gradient_queue = false;
    single.order = ORDER_SUBMITTED;
    single.check = CHECK_OFF;
    single.fault = (planted_fault){ .kind = FAULT_NONE };
    single.microbatches = c->global_batch / c->microbatch;
    single.skipped[0] = '\0';
    shape_complete(&single.model, 1);
    return single;
}
