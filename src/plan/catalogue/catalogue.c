/* Lookups in the catalogue. */
#include "plan/catalogue/catalogue.h"
#include <stdio.h>

const workload_row *workload_find(text_view name)
{
    int i = 0;
    while (workload_at(i) && !text_equal(name, workload_at(i)->name)) i++;
    return workload_at(i);
}

const workload_row *workload_nearest(text_view name)
{
    const workload_row *nearest = workload_at(0);
    for (int i = 1; workload_at(i); i++)
        if (text_distance(name, workload_at(i)->name) < text_distance(name, nearest->name)) nearest = workload_at(i);
    return text_near(name, nearest->name) ? nearest : NULL;
}

const char *workload_remedy(text_view name, char out[2 * NAME_LENGTH])
{
    const workload_row *nearest = workload_nearest(name);
    snprintf(out, 2 * NAME_LENGTH, nearest ? "the nearest is %s" : "--list names them", nearest ? nearest->name : "");
    return out;
}

optimizer_rule optimizer_for(const workload_row *w, case_size size, int64_t steps)
{
    optimizer_rule rule = *w->optimizer;
    if (w->warmup_of_run) rule.learning_rate_warmup = steps / 10;
    if (size == SIZE_FULL) return rule;
    rule.epsilon = 1e-8;
    rule.learning_rate = rule.learning_rate_minimum = 1e-3;
    rule.learning_rate_warmup = 0;
    rule.learning_rate_from_zero = false;
    rule.learning_rate_constant = true;
    return rule;
}

static const storage_rule fp32_storage = { .weight = KEPT_FP32,
                                           .embedding = KEPT_FP32,
                                           .other = KEPT_FP32,
                                           .gradient = KEPT_FP32,
                                           .sharded_gradient = KEPT_FP32,
                                           .moment = KEPT_FP32,
                                           .activation = KEPT_FP32 };

storage_rule storage_for(const workload_row *w, const bench_case *c)
{
    const storage_rule *rules[] = { [PRECISION_FP32] = &fp32_storage,
                                    [PRECISION_BF16] = w->bf16,
                                    [PRECISION_FP8] = c->fp8_scaling == FP8_CURRENT ? w->bf16 : w->fp8 };
    return *rules[c->precision];
}

storage_rule storage_of(const bench_case *c) { return storage_for(workload_find(text_of(c->workload)), c); }

static const struct {
    int bytes;
    const char *name;
} formats[KEPT_FORMATS] = {
    [KEPT_NOT] = { 0, "none" },
    [KEPT_FP8_TWICE] = { 2, "fp8 and its transpose" },
    [KEPT_BF16] = { 2, "bf16" },
    [KEPT_FP32] = { 4, "fp32" },
};

int kept_bytes(kept_format format) { return formats[format].bytes; }
const char *kept_name(kept_format format) { return formats[format].name; }
