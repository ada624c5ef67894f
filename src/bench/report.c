/* The report, read like HPL's: sentences for people. */
#include "base/build_info.h"
#include "base/fail.h"
#include "base/say.h"
#include "bench/check.h"
#include "bench/forecast.h"
#include "bench/launch/libraries.h"
#include "bench/record/chain.h"
#include "bench/record/place.h"
#include "bench/result/accept.h"
#include "bench/result/repeats.h"
#include "bench/result/rules.h"
#include "bench/result/sinks.h"
#include "bench/sample_lines.h"
#include "bench/slow/line.h"
#include "bench/step_lines.h"
#include "bench/summary.h"
#include "plan/catalogue/flops.h"
#include "plan/model/params.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char rule[] = "================================================================================\n";
static const char thin[] = "--------------------------------------------------------------------------------\n";

/* What the report remembers: lines of its last table. */
typedef struct {
    const deck *deck;
    double check_seconds; /* of the case at hand: its first check */
    bool terminal;
    int rows;
    summary_row row[];
} cases_told;

/* The progress line ends without a newline; what comes next takes its place. */
static void clear_progress(const cases_told *t)
{
    if (t->terminal) say("\r\033[K");
}

/* The second check has the first's references, but of experts. */
static double again(const cases_told *t, const bench_case *c) { return c->model.experts ? t->check_seconds : 0.0; }

/* Seconds of the cases that follow, checked as long as this one, if their ranks compute as fast as this one's. */
static double cases_to_come(const cases_told *t, const bench_case *now, double step_seconds)
{
    double seconds = 0.0;
    for (int64_t i = now->number; i < t->deck->cases; i++) {
        const bench_case *c = &t->deck->item[i];
        if (c->skipped[0] || c->not_built[0]) continue;
        seconds += forecast_case(c, forecast_step(now, step_seconds, c)) + t->check_seconds + again(t, c);
    }
    return seconds;
}

static void say_progress(const cases_told *t, const case_result *r, int64_t step)
{
    char here[DURATION_TEXT], all[DURATION_TEXT];
    const bench_case *c = r->given;
    double mean = r->spent_seconds / (double)(step + 1), left = steps_seconds_left(r, step, mean) + again(t, c);
    int64_t total = steps_last(r, step) + 1;
    if (!t->terminal) return;
    say("case %d of %lld, step %lld of %lld: about %s left in it, %s in the deck", c->number, (long long)t->deck->cases,
        (long long)(step + 1), (long long)total, duration_text(left, here),
        duration_text(left + cases_to_come(t, c, mean), all));
    fflush(stdout);
}

/* Before the first timed step where there is a warm-up, else after it. */
static void say_estimate(const cases_told *t, const case_result *r, int64_t step)
{
    char here[DURATION_TEXT], all[DURATION_TEXT];
    const bench_case *c = r->given;
    double seconds = r->step_seconds[step], left = steps_seconds_left(r, step, seconds) + again(t, c);
    if (step != (c->warmup ? c->warmup - 1 : 0)) return;
    say("Estimate   about %s for the rest of this case, at the %.4g s of the %s", duration_text(left, here), seconds,
        c->warmup ? "last warm-up step" : "first step");
    if (c->number < t->deck->cases)
        say("; %s for the whole deck, if the cases that follow compute as fast and are checked as long",
            duration_text(left + cases_to_come(t, c, seconds), all));
    say("\n");
}

static bool is_backend_told(const deck *d, int64_t i)
{
    for (int64_t k = 0; k < i; k++)
        if (d->item[k].backend == d->item[i].backend && !strcmp(d->item[k].backend_reason, d->item[i].backend_reason))
            return true;
    return false;
}

/* As a rule all cases of a deck have one. */
static void report_backends(const deck *d)
{
    for (int64_t i = 0; i < d->cases; i++)
        if (!is_backend_told(d, i))
            say("Backend    %s: %s\n", backend_name(d->item[i].backend), d->item[i].backend_reason);
}

enum { DEVICES_SHOWN = 64 };

/* A line a rank, up to some. */
static void report_devices(const run_source *run)
{
    say("CUDA       %s\n", run->cuda);
    for (int i = 0; run->devices && i < run->ranks && i < DEVICES_SHOWN; i++) {
        const machine_device *d = &run->devices[i];
        say("Rank %-5d %s on %.*s, %s, driver %s, %d multiprocessors, %.1f GB%s\n", i, d->name, HOST_NAME_BYTES,
            run->hosts + (size_t)i * HOST_NAME_BYTES, d->identity, d->driver, d->multiprocessors, d->memory_bytes / 1e9,
            d->ecc ? ", ECC" : "");
    }
    if (run->ranks > DEVICES_SHOWN) say("           and %d more: the record lists them\n", run->ranks - DEVICES_SHOWN);
}

/* Of a sweep. */
static void report_left_out(const deck *d)
{
    for (int64_t i = 0; i < d->cases; i++)
        if (d->item[i].stands_for > 1)
            say("Case %-5d stands for %d of its section's combinations: they differ in nothing that it uses, and run "
                "once\n",
                d->item[i].number, d->item[i].stands_for);
}

/* Where it is not what the deck says alone. */
static void report_place(const record_place *p)
{
    for (int i = 0; i < PLACE_NOTES; i++)
        if (p->note[i][0]) say("Record     %s\n", p->note[i]);
}

/* They may change what every call of the program does. */
static void report_preloaded(const library_list *l)
{
    for (int i = 0; l && i < l->count; i++)
        if (l->item[i].preloaded) say("Preloaded  %s (%s)\n", l->item[i].path, l->item[i].identity);
}

static void report_banner(void *state, const run_source *run)
{
    const deck *d = run->deck;
    (void)state;
    say("%s", rule);
    say("xgsw  --  real large-language-model training steps, timed and verified\n");
    say("commit %.12s%s, built %s\n", build_commit, build_dirty ? " (modified)" : "", build_date);
    say("%s", rule);
    say("%s\n%s\n\n", d->title[0], d->title[1]);
    say("Deck       %s, %lld cases\n", run->deck_name, (long long)d->cases);
    if (strcmp(d->item[0].nonce, "none") != 0) say("Nonce      %s\n", d->item[0].nonce);
    report_left_out(d);
    say("Ranks      %d, %d threads each\n", run->ranks, run->threads);
    report_backends(d);
    report_place(run->place);
    say("Products   %s\n", run->products);
    say("Messages   %s\n", run->mpi);
    report_preloaded(run->libraries);
    say("Rules      " RULES_VERSION ": what VALID and Comparable mean, and why, is said in validation/RULES.md\n");
    say("\nA \"GPU\" below is one rank. Step lines show rank 0's clock; summaries take the slowest rank.\n");
    say("A case is PASSED if its residuals are below %d before and after the timed steps, its numbers finite, its "
        "order without hazards.\n",
        CHECK_THRESHOLD);
    if (run->cuda && run->cuda[0]) report_devices(run);
}

static void report_experts_layout(const bench_case *c)
{
    long long experts = c->model.experts, held = experts / c->layout.expert, active = c->model.active;
    if (experts == 0) return;
    say("Experts    %lld, %lld of them on each rank; a token chooses %lld; ", experts, held, active);
    if (c->capacity > 0) say("capacity %g times an even share\n", c->capacity);
    else say("no capacity: rows for all tokens, nothing is dropped\n");
}

static void report_layout(const bench_case *c)
{
    const int *n = c->layout.degree;
    say("Layout     tensor %d, pipeline %d, context %d, expert %d, data %d, shard %d: %d of %d ranks; sharding %s, "
        "overlap "
        "%s\n",
        n[AXIS_TENSOR], n[AXIS_PIPELINE], n[AXIS_CONTEXT], c->layout.expert, n[AXIS_DATA], n[AXIS_SHARD],
        c->layout.ranks, c->world_ranks, sharding_name(c->sharding), c->overlap ? "on" : "off");
    report_experts_layout(c);
    if (c->precision == PRECISION_FP8)
        say("Scales     %s, %s\n", fp8_scale_name(c->fp8_scale), fp8_scaling_name(c->fp8_scaling));
    if (n[AXIS_TENSOR] > 1) {
        say("Strips     %d of each tensor rank's positions", c->strips);
        if (c->strips_asked > c->strips) say(", not %d: strips x tensor must divide the positions", c->strips_asked);
        say("\n");
    }
    if (n[AXIS_PIPELINE] > 1)
        say("Schedule   %s, chunks_per_stage %d\n", schedule_name(c->schedule), c->layout.chunks_per_stage);
    if (c->backend == BACKEND_CUDA)
        say("Devices    deterministic %s, attention %s, algorithms %s, %d multiprocessors for transfers by kernels\n",
            c->deterministic ? "yes" : "no", attention_name(c->attention), c->algorithms,
            c->layout.ranks > 1 ? c->transfer_sms : 0);
    if (c->order == ORDER_HOSTILE) say("Order      hostile, seed %u\n", c->order_seed);
    if (c->fault.kind != FAULT_NONE)
        say("FAULT      %s %s %lld %d is planted: this case must not pass, unless the fault changes nothing\n",
            fault_name(c->fault.kind), c->fault.operation, (long long)c->fault.nth, c->fault.rank);
}

static void report_placement(const bench_case *c)
{
    char split[REASON_LENGTH];
    placement p = placement_here(&c->layout);
    say("Placement  %s\n", p.text);
    if (placement_complaint(&p, &c->layout, split)) say("Warning    %s\n", split);
}

static void report_case_begins(void *state, const bench_case *c)
{
    (void)state;
    const model_shape *m = &c->model;
    say("\n%s", thin);
    say("Case %d     %s, size %s, %s, backend %s", c->number, c->model_name, size_name(c->size),
        precision_name(c->precision), backend_name(c->backend));
    if (c->repeats > 1) say(", repeat %d of %lld", c->repeat, (long long)c->repeats);
    say("\n");
    say("Model      layers %lld, hidden %lld, ffn %lld, heads %lld/%lld, vocabulary %lld, sequence %lld: %lld "
        "parameters\n",
        (long long)m->layers, (long long)m->hidden, (long long)m->ffn, (long long)m->heads, (long long)m->kv_heads,
        (long long)m->vocabulary, (long long)m->sequence, (long long)model_parameters(m));
    report_layout(c);
    report_placement(c);
    say("Batch      global %lld = %lld microbatches of %lld on %d data ranks; tokens %s, recompute %s\n",
        (long long)c->global_batch, (long long)c->microbatches, (long long)c->micro_batch,
        c->layout.degree[AXIS_DATA] * c->layout.degree[AXIS_SHARD], tokens_name(c->tokens),
        recompute_name(c->recompute));
    if (c->size != SIZE_FULL)
        say("Rates      learning rate %g constant, epsilon %g, init std %.4g%s: scaled, so that faults show in a model "
            "this narrow\n",
            c->optimizer.learning_rate, c->optimizer.epsilon, m->init_std,
            m->init == INIT_FAN_IN ? " / sqrt(fan-in)" : "");
    say("%s", thin);
}

static void report_check(void *state, const case_result *r, int which)
{
    const check_result *k = &r->check[which];
    const char *when = which ? "after" : "before";
    cases_told *t = state;
    if (which) clear_progress(t);
    else t->check_seconds = k->done ? k->seconds : 0.0;
    if (!k->done) return;
    say("Check %-7s residual %8.4g %s %d   loss %.4g  gradient %.4g, %.4g  weights %.4g   %.2f s\n", when, k->residual,
        k->passed ? "<" : ">=", CHECK_THRESHOLD, k->loss, k->gradient_first, k->gradient_fourth, k->weights,
        k->seconds);
    if (r->given->precision == PRECISION_FP8)
        say("Check %-7s FP8      along the gradients %.4g  scales %.4g, %lld other than the reference's own\n", when,
            k->along, k->scales, (long long)k->scale_flips);
    if (r->given->model.experts)
        say("Check %-7s experts  %8.4g %s %d   %lld choices differ from a reference's, their logits by %.3g at most\n",
            when, k->routing, k->routing < CHECK_THRESHOLD ? "<" : ">=", CHECK_THRESHOLD, (long long)k->flips,
            k->margin);
    if (!k->passed) say("Check %-7s FAILED: %s\n", when, k->worst);
}

static void report_shadow(const shadow_report *s)
{
    if (s->operations == 0) return;
    say("Kernels    %lld operations beside the host's, %lld elements; largest difference %.3g of what is allowed, %s\n",
        (long long)s->operations, (long long)s->elements, s->worst, s->worst_operation);
    if (s->left_out) say("Kernels    %lld operations were too large to compare\n", (long long)s->left_out);
    if (s->file[0]) say("Kernels    FAILED: to run the first mismatch again: ./xgsw --replay %s\n", s->file);
    if (s->unwritten[0]) say("Kernels    FAILED: the first mismatch could not be written: %s\n", s->unwritten);
}

static void report_step(void *state, const case_result *r, int64_t step)
{
    const cases_told *t = state;
    clear_progress(t);
    say_step(r, step);
    say_estimate(t, r, step);
    say_progress(t, r, step);
}

/* Where rank 0's measured window went: computing operations, transfers that nothing hid, the dispatcher. */
static void report_profile(const case_result *r)
{
    const tally *t = &r->tally;
    double total = 0.0;
    for (int64_t i = r->given->warmup; i < r->completed; i++) total += r->step_seconds[i];
    say("Profile   ");
    for (int k = 0; k < OP_KINDS; k++)
        if (!op_is_transfer((op_kind)k) && t->kind[k].seconds > 0.005 * total)
            say(" %s %.1f %%,", op_kind_name((op_kind)k), 100.0 * t->kind[k].seconds / total);
    for (int a = 0; a < t->axes; a++)
        say(" waiting for %s %.1f %%,", t->axis[a].axis, 100.0 * t->axis[a].exposed_seconds / total);
    say(" idle %.1f %%, dispatch %.2f %%", 100.0 * t->idle_seconds / total, 100.0 * t->dispatch_seconds / total);
    if (t->beside_seconds > 0.0)
        say("; of these %.1f %% beside others (weight gradients, sums)", 100.0 * t->beside_seconds / total);
    say("\n");
}

/* So that a starved one shows; without those of a few numbers. */
static void report_transfers(const case_result *r)
{
    const char *before = "Transfers  ";
    for (const tally_transfer *x = r->tally.transfer; x < r->tally.transfer + r->tally.transfers; x++) {
        if (x->bytes < 1e4 * (double)x->messages) continue;
        say("%s%s %.3g GB/s (%lld of %.3g MB)", before, x->name, x->bytes_per_second / 1e9, (long long)x->messages,
            x->bytes / (double)x->messages / 1e6);
        before = ", ";
    }
    if (before[0] == ',') say("\n");
}

static void report_peak(const case_result *r)
{
    const char *precision = precision_name(r->given->precision);
    double known = gpu_peak(r->device, r->given->precision), given = deck_peak(r->given, r->given->precision);
    if (!isnan(r->recipe_mfu))
        say("; recipe MFU %.2f %%, model MFU %.2f %% of %.1f TFLOP/s%s\n", 100.0 * r->recipe_mfu, 100.0 * r->model_mfu,
            case_peak(r->given, r->device, r->given->precision) / 1e12, known > 0.0 ? "" : ", given by the deck");
    else if (r->device[0]) say("; MFU n/a: no %s peak is known for this device, %s\n", precision, r->device);
    else say("; MFU n/a: the ranks' devices differ\n");
    if (known > 0.0 && given > 0.0 && given != known)
        say("Peak       peak_%s = %g of the deck is not used: %.1f TFLOP/s is known of this device\n", precision,
            given / 1e12, known / 1e12);
}

static void report_ceiling(const case_result *r)
{
    if (isnan(r->recipe_ceiling)) return;
    say("Ceiling    recipe MFU %.2f %%, model MFU %.2f %% with attention and LM head at the BF16 peak; reached %.1f "
        "%%, "
        "%.1f %% of it\n",
        100.0 * r->recipe_ceiling, 100.0 * r->model_ceiling, 100.0 * r->recipe_reached, 100.0 * r->model_reached);
}

/* Underflowed, saturated, range of scales. */
static void report_fp8(const case_result *r)
{
    const fp8_figures *x = r->fp8;
    if (r->given->precision != PRECISION_FP8) return;
    say("FP8       ");
    for (int i = 0; i < FP8_KINDS; i++)
        say("%s %s %.2g %% to 0, %.2g %% saturated, scales %.3g to %.3g", i ? ";" : "", fp8_kind_name((fp8_kind)i),
            100.0 * x[i].underflowed, 100.0 * x[i].saturated, x[i].scale_least, x[i].scale_most);
    say("\n");
}

/* Of the last step. */
static void report_experts(const case_result *r)
{
    int64_t last = r->completed - 1;
    if (!r->given->model.experts || last < 0) return;
    double tokens = (double)(r->tokens_per_step * r->given->model.layers),
           choices = tokens * (double)r->given->model.active;
    say("Experts    balance loss %.6f, dropped %.0f of %.0f choices; before that an expert of a layer has %.0f to "
        "%.0f, variation %.3f\n",
        r->routed[ROUTED_BALANCE][last], r->routed[ROUTED_DROPS][last], choices, r->routed[ROUTED_LEAST][last],
        r->routed[ROUTED_MOST][last], r->routed[ROUTED_VARIATION][last]);
}

/* With the limits of the run rules. */
static void report_steadiness(const case_result *r)
{
    if (isnan(r->drift)) return;
    say("Steadiness spread %.3f (p90 / p10, at most %.3g), drift %.3f (last half / first half, at most %.3g either "
        "way)\n",
        r->spread, SPREAD_LIMIT, r->drift, DRIFT_LIMIT);
}

static void report_repeats(const case_result *r)
{
    const repeated_seconds *s = &r->repeated;
    if (s->count < 2) return;
    say("Repeats    %d of %lld: median of the medians %.4f s, min %.4f, max %.4f; spread %.1f %%, limit %.0f %%\n",
        s->count, (long long)r->given->repeats, s->median, s->minimum, s->maximum, 100.0 * s->spread,
        100.0 * REPEATS_LIMIT);
}

static void report_numbers(const case_result *r)
{
    say("Step time  median %.4f s, min %.4f, max %.4f; %.4f by the recipe's rule: ", r->median_seconds,
        r->minimum_seconds, r->maximum_seconds, r->recipe_seconds);
    int64_t last = r->given->metric_steps, steps = r->completed - r->given->warmup;
    say(last == 1 ? "the last step\n" : "mean of the last %lld steps\n", (long long)(last < steps ? last : steps));
    report_steadiness(r);
    report_repeats(r);
    report_experts(r);
    say("Speed      %.1f tokens/s, %.1f tokens/s/GPU, %.5f TFLOP/s/GPU", r->tokens_per_second,
        r->tokens_per_second_per_gpu, r->tflops_per_gpu);
    report_peak(r);
    report_ceiling(r);
    report_fp8(r);
    say_clocks(r);
    say_samples(r);
    say("Engines    %.*s\n", (int)strcspn(r->engines, "\n"), r->engines);
    report_profile(r);
    report_transfers(r);
    say_ranks(r);
    if (isnan(r->days_per_trillion)) say("Days       n/a for 1T tokens: a proxy model\n");
    else say("Days       %.2f for 1T tokens\n", r->days_per_trillion);
    say("Memory     arena %.3f MB on rank 0; outside it at most %.1f MB a rank (libraries, MPI, references)",
        (double)r->arena_bytes / 1e6, r->outside_bytes / 1e6);
    if (r->given->backend == BACKEND_CUDA)
        say(", %.1f MB on a GPU (context, libraries, all processes), of which communicators %.1f MB on rank 0",
            r->device_outside_bytes / 1e6, r->window[1].communicator_bytes / 1e6);
    say("\n");
}

/* Of both checks; "n/a" if there was none. */
static const char *worst_residual(const case_result *r, char text[16])
{
    snprintf(text, 16, r->check[0].done || r->check[1].done ? "%.4g" : "n/a",
             fmax(r->check[0].residual, r->check[1].residual));
    return text;
}

static void report_acceptance(const case_result *r)
{
    char expected[EXPECTED_TEXT];
    if (r->acceptance == ACCEPTANCE_NONE) return;
    say("Expected   %s: %s%s%s\n", accept_text(r->given, r->device, expected), acceptance_words[r->acceptance],
        r->not_accepted[0] ? ": " : "", r->not_accepted);
}

static void report_summary(const case_result *r)
{
    const bench_case *c = r->given;
    char worst[16], progress[PROGRESS_TEXT], layout[LAYOUT_TEXT];
    report_shadow(&r->shadow);
    if (r->completed > c->warmup) report_numbers(r);
    if (r->stopped) say("INTERRUPTED after %s: %s\n", result_progress(r, progress), r->stopped_by);
    for (int i = 0; i < r->fail_reasons; i++) say("FAILED     %s\n", r->fail_reason[i]);
    for (int i = 0; i < r->invalid_reasons; i++) say("NOT VALID  %s\n", r->invalid_reason[i]);
    say("Comparable %s%s\n", r->comparable ? "" : "no: ", r->comparison);
    say("%-16s %-6s %-5s ranks %d  %s  %.4f s  %.1f tokens/s  residual %s  %s  %s\n", c->workload, size_name(c->size),
        precision_name(c->precision), c->layout.ranks, layout_text(&c->layout, layout), r->median_seconds,
        r->tokens_per_second, worst_residual(r, worst), r->valid ? "VALID" : "NOT VALID", verdict_words[r->verdict]);
}

static void report_case_ends(void *state, const case_result *r)
{
    const bench_case *c = r->given;
    cases_told *t = state;
    t->row[t->rows++] = summary_row_of(r);
    if (r->verdict != VERDICT_SKIPPED) report_summary(r);
    else
        say("\n%sCase %d     %s, size %s, %s: SKIPPED: %s\n", thin, c->number, c->model_name, size_name(c->size),
            precision_name(c->precision), r->skipped);
    report_acceptance(r);
}

static void report_end(void *state, const run_source *run, const final_counts *n)
{
    const record_place *place = run->place;
    bool any_ran = n->passed + n->failed + n->interrupted > 0;
    const cases_told *t = state;
    summary_print(run->deck, t->row, t->rows);
    say("\n%s", rule);
    say("Finished %d cases: %d PASSED, %d FAILED, %d SKIPPED%s\n", n->passed + n->failed + n->skipped + n->interrupted,
        n->passed, n->failed, n->skipped, n->interrupted ? ", 1 INTERRUPTED" : "");
    say("Valid      %d of %d that ran\n", n->valid, n->passed + n->failed + n->interrupted);
    if (!any_ran) say("Trained    nothing: no case ran\n");
    if (n->strict && n->lacking) say("Strict     %d cases are SKIPPED or NOT VALID: that fails\n", n->lacking);
    if (!place->none)
        say("Record     %s%s\n", any_ran ? place->record : "not written: no case ran",
            any_ran && n->stopped ? ": all cases and steps up to the stop; run the deck again for the others" : "");
    if (!place->none && any_ran) say("Root       %s\n", run->chain->root.hex);
    say("%s", rule);
    say("%s\n", accept_word(n));
    if (n->expecting) say(n->not_accepted[0] ? "NOT ACCEPTED: %s\n" : "ACCEPTED\n", n->not_accepted);
}

static bool report_open(void **state, const run_source *run, char *reason, size_t length)
{
    cases_told *t = calloc(1, sizeof *t + (size_t)run->deck->cases * sizeof t->row[0]);
    if (!t) FAIL("no memory for %lld lines of the summary", (long long)run->deck->cases);
    t->deck = run->deck, t->terminal = run->terminal;
    *state = t;
    return true;
}

static void report_close(void *state) { free(state); }

const sink report_sink = { .name = "report",
                           .open = report_open,
                           .run_begins = report_banner,
                           .case_begins = report_case_begins,
                           .check_ends = report_check,
                           .step_ends = report_step,
                           .case_ends = report_case_ends,
                           .run_ends = report_end,
                           .close = report_close };
