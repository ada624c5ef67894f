/* Cases of a sweep that do the same run, because they differ only in keys that neither uses. */
#include "plan/deck/same_run.h"
#include "plan/keys/keys.h"
#include <string.h>

static bool is_fp8(const bench_case *c) { return c->precision == PRECISION_FP8; }
static bool is_hostile(const bench_case *c) { return c->order == ORDER_HOSTILE; }
static bool has_experts(const bench_case *c) { return c->model.experts > 0; }
static bool is_on_cuda(const bench_case *c) { return c->backend == BACKEND_CUDA; }
static bool profiles(const bench_case *c) { return c->profile.last > 0; }
static bool expects(const bench_case *c) { return c->expect != EXPECT_NONE; }
static bool saves(const bench_case *c) { return strcmp(c->checkpoint, "none") != 0; }
static bool has_tensor_ranks(const bench_case *c) { return c->layout.degree[AXIS_TENSOR] > 1; }
static bool can_shard(const bench_case *c) { return c->layout.degree[AXIS_DATA] * c->layout.degree[AXIS_CONTEXT] > 1; }
static bool rounds_context(const bench_case *c)
{
    return c->layout.degree[AXIS_CONTEXT] > 1 && c->precision != PRECISION_FP32;
}

static const struct {
    key_id key;
    bool (*is_used)(const bench_case *c);
    const char *condition; /* in words */
    bool harmless;         /* a key without effect is reported, and no mistake */
} conditional[] = {
    { KEY_FP8_SCALE, is_fp8, "precision is fp8" },
    { KEY_FP8_SCALING, is_fp8, "precision is fp8" },
    { KEY_ORDER_SEED, is_hostile, "order is hostile" },
    { KEY_TOLERANCE, expects, "expect is given" },
    { KEY_CHECKPOINT_EVERY, saves, "checkpoint is given" },
    { KEY_CHECKPOINT_KEEP, saves, "checkpoint is given" },
    { KEY_CHECKPOINT_READ, saves, "checkpoint is given" },
    { KEY_PROFILE_RANKS, profiles, "profile is given" },
    { KEY_CAPACITY, has_experts, "the model has experts", true },
    { KEY_STRIPS, has_tensor_ranks, "tensor is above 1", true },
    { KEY_SHARDING, can_shard, "data x context is above 1", true },
    { KEY_CONTEXT_GRADIENTS, rounds_context, "context is above 1 and precision is not fp32", true },
    { KEY_SHARE_DEVICES, is_on_cuda, "backend is cuda", true },
    { KEY_DETERMINISTIC, is_on_cuda, "backend is cuda", true },
    { KEY_ATTENTION, is_on_cuda, "backend is cuda", true },
    { KEY_TRANSFER_SMS, is_on_cuda, "backend is cuda", true },
    { KEY_PEAK_FP8, is_fp8, "precision is fp8", true },
};

bool key_is_used(key_id key, const bench_case *c)
{
    for (size_t i = 0; i < sizeof conditional / sizeof *conditional; i++)
        if (conditional[i].key == key) return conditional[i].is_used(c);
    return true;
}

const char *key_condition(key_id key, bool *harmless)
{
    for (size_t i = 0; i < sizeof conditional / sizeof *conditional; i++)
        if (conditional[i].key == key) return *harmless = conditional[i].harmless, conditional[i].condition;
    return NULL;
}

bool same_run(const bench_case *a, const bench_case *b)
{
    for (key_id key = 0; key < KEYS; key++) {
        const key_row *row = key_at(key);
        const char *field_of_a = (const char *)a + row->offset, *field_of_b = (const char *)b + row->offset;
        bool differs = key_takes_list(key) && memcmp(field_of_a, field_of_b, row->bytes) != 0;
        if (differs && (key_is_used(key, a) || key_is_used(key, b))) return false;
    }
    return true;
}
