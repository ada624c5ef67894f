/* The machine-readable line of a case. */
#include "base/say.h"
#include "bench/report.h"
#include <math.h>
#include <stdio.h>

static void number(const char *name, double x, const char *after)
{
    if (isfinite(x)) say("\"%s\":%.12g%s", name, x, after);
    else say("\"%s\":null%s", name, after);
}

static void quoted(const char *s)
{
    say("\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') say("\\%c", *s);
        else if ((unsigned char)*s < 32) say("\\u%04x", (unsigned)*s);
        else say("%c", *s);
    }
    say("\"");
}

static void word(const char *name, const char *value)
{
    say("\"%s\":", name);
    quoted(value);
    say(",");
}

static void first_line(const char *name, const char *value)
{
    char line[640];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(value, "\n"), value);
    word(name, line);
}

static void list(const char *name, const double *x, int64_t n)
{
    say("\"%s\":[", name);
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x[i])) say("%s%.17g", i ? "," : "", x[i]);
        else say("%snull", i ? "," : "");
    say("],");
}

static void layout(const bench_case *c)
{
    say("\"layout\":{");
    for (int a = 0; a < AXES; a++) say("\"%s\":%d,", axis_name((mesh_axis)a), c->layout.degree[a]);
    say("\"expert\":%d,\"chunks_per_stage\":%d},", c->layout.expert, c->layout.chunks_per_stage);
}

static void residual(const case_result *r)
{
    static const char *const when[2] = { "before", "after" };
    say("\"residual\":{");
    for (int i = 0; i < 2; i++) {
        const check_result *k = &r->check[i];
        say("\"%s\":", when[i]);
        if (!k->done) {
            say("null%s", i ? "}," : ",");
            continue;
        }
        say("{");
        number("scaled", k->residual, ",");
        number("loss", k->loss, ",");
        number("gradient_first", k->gradient_first, ",");
        number("gradient_fourth", k->gradient_fourth, ",");
        number("weights", k->weights, ",");
        number("seconds", k->seconds, i ? "}}," : "},");
    }
}

static void reasons(const case_result *r)
{
    say("\"reasons\":[");
    for (int i = 0; i < r->fail_reasons; i++) say("%s", i ? "," : ""), quoted(r->fail_reason[i]);
    for (int i = 0; i < r->invalid_reasons; i++)
        say("%s", i || r->fail_reasons ? "," : ""), quoted(r->invalid_reason[i]);
    say("]");
}

/* Rank 0: counts of all steps, seconds of the measured window. */
static void operations(const tally *t)
{
    bool any = false;
    say("\"operations\":{");
    for (int k = 0; k < OP_KINDS; k++) {
        const tally_row *row = &t->kind[k];
        if (!row->count) continue;
        say("%s\"%s\":{\"count\":%lld,\"flops\":%.12g,\"seconds\":%.9g}", any ? "," : "", op_kind_name((op_kind)k),
            (long long)row->count, row->flops, row->seconds);
        any = true;
    }
    say("},\"exposed_seconds\":{");
    for (int a = 0; a < t->axes; a++) say("%s\"%s\":%.9g", a ? "," : "", t->axis[a].axis, t->axis[a].exposed_seconds);
    say("},\"dispatch_seconds\":%.9g,", t->dispatch_seconds);
}

static void planted(const planted_fault *f)
{
    if (f->kind == FAULT_NONE) say("\"fault\":null,");
    else say("\"fault\":\"%s %s %lld %d\",", fault_name(f->kind), f->operation, (long long)f->nth, f->rank);
}

static void identity(const bench_case *c)
{
    say("XGSW_RESULT {\"case\":%d,", c->number);
    word("workload", c->workload);
    word("size", size_name(c->size));
    word("precision", precision_name(c->precision));
    word("backend", backend_name(c->backend));
    word("backend_reason", c->backend_reason);
    say("\"ranks\":%d,", c->layout.ranks);
    layout(c);
    word("sharding", sharding_name(c->sharding));
    word("schedule", schedule_name(c->schedule));
    word("recompute", recompute_name(c->recompute));
    word("overlap", c->overlap ? "on" : "off");
    word("tokens", tokens_name(c->tokens));
    word("order", order_name(c->order));
    planted(&c->fault);
    say("\"sequence\":%lld,\"micro_batch\":%lld,\"global_batch\":%lld,\"warmup\":%lld,\"steps\":%lld,",
        (long long)c->model.sequence, (long long)c->micro_batch, (long long)c->global_batch, (long long)c->warmup,
        (long long)c->steps);
}

static void numbers(const case_result *r)
{
    const bench_case *c = r->given;
    identity(c);
    say("\"step_seconds\":{");
    number("median", r->median_seconds, ",");
    number("min", r->minimum_seconds, ",");
    number("max", r->maximum_seconds, "},");
    number("recipe_step_seconds", r->recipe_seconds, ",");
    number("tokens_per_second", r->tokens_per_second, ",");
    number("tokens_per_second_per_gpu", r->tokens_per_second / c->layout.ranks, ",");
    number("tflops_per_gpu", r->tflops_per_gpu, ",");
    number("model_flops_per_sequence", c->model_flops_per_sequence, ",");
    number("recipe_mfu", r->recipe_mfu, ",");
    number("model_mfu", r->model_mfu, ",");
    word("device", r->device);
    word("throttled", r->throttled);
    first_line("engines", r->engines);
    number("days_per_trillion_tokens", r->days_per_trillion, ",");
    number("arena_bytes", (double)r->arena_bytes, ",");
    number("outside_bytes", r->outside_bytes, ",");
    number("own_outside_bytes", r->own_outside_bytes, ",");
    list("losses", r->loss, r->completed);
    list("gradient_norms", r->gradient_norm, r->completed);
    residual(r);
    operations(&r->tally);
    say("\"faults\":%lld,\"hazards\":%lld,", (long long)r->faults, (long long)r->hazards);
    say("\"shadowed\":{\"operations\":%lld,\"elements\":%lld,\"failed\":%lld,\"left_out\":%lld,",
        (long long)r->shadow.operations, (long long)r->shadow.elements, (long long)r->shadow.failed,
        (long long)r->shadow.left_out);
    number("worst", r->shadow.worst, "},");
}

void report_json(const case_result *r)
{
    numbers(r);
    say("\"verdict\":\"%s\",\"passed\":%s,\"valid\":%s,", r->passed ? "PASSED" : "FAILED", r->passed ? "true" : "false",
        r->valid ? "true" : "false");
    reasons(r);
    say("}\n");
}

/* Every field of a result, null or empty. */
void report_json_skipped(const bench_case *c, const char *reason)
{
    case_result r = { .given = c,
                      .median_seconds = NAN,
                      .minimum_seconds = NAN,
                      .maximum_seconds = NAN,
                      .recipe_seconds = NAN,
                      .tokens_per_second = NAN,
                      .tflops_per_gpu = NAN,
                      .recipe_mfu = NAN,
                      .model_mfu = NAN,
                      .days_per_trillion = NAN };
    result_invalidate(&r, "SKIPPED: %s", reason);
    numbers(&r);
    say("\"verdict\":\"SKIPPED\",\"passed\":false,\"valid\":false,");
    word("skipped", reason);
    reasons(&r);
    say("}\n");
}
