/* Invented, consistent results and the record of them, for the tests of the record. */
#pragma once
#include "bench/facts/judge.h"
#include "bench/record/place.h"
#include "bench/record/provenance.h"
#include "bench/record/record.h"
#include "plan/deck/deck.h"
#include "plan/model/params.h"
#include "units/tests.h"
#include <time.h>

enum {
    SAMPLE_HOST,
    SAMPLE_RECIPE,
    SAMPLE_PROXY,
    SAMPLE_NOT_VALID,
    SAMPLE_SKIPPED,
    SAMPLE_EXPERTS,
    SAMPLE_FP8,
    SAMPLE_FAILED,
    SAMPLES
};

enum { SAMPLE_RANKS = 32 };

/* One section per case, in the order above. The last is omitted from a record without a failed case. */
#define SAMPLE_LAST "[llama3.1-8b]\nsize = small\nbackend = host\ndata = 4\nfault = drop all_reduce 3 1\n"
static const char sample_deck[] = "A deck of the tests\nby nobody\nrecord = sample.h5   # \xc3\xbc\n"
                                  "warmup = 2\nsteps = 11\nmicrobatch = 1\n"
                                  "[llama3.1-8b]\nsize = small\nbackend = host\ndata = 4\n"
                                  "[llama3.1-8b]\nsize = full\nbackend = cuda\ncontext = 2\ndata = 4\n"
                                  "global_batch = 128\n"
                                  "[llama3.1-405b]\nsize = full\nbackend = cuda\n"
                                  "[llama3.1-8b]\nsize = small\nbackend = host\ntensor = 2\ndata = 2\nsteps = 12\n"
                                  "check = off\nlearning_rate_warmup = 3\n"
                                  "[llama3.1-8b]\nsize = small\nbackend = host\ntensor = 4\ndata = 16\n"
                                  "[grok1-314b]\nsize = small\nbackend = host\ndata = 4\n"
                                  "[llama3.1-8b]\nsize = full\nbackend = cuda\nprecision = fp8\ncontext = 2\n"
                                  "data = 4\nglobal_batch = 128\n" SAMPLE_LAST;

/* Advances the clock by a day per call, which is more than all times in the sample. */
time_t time(time_t *out)
{
    static time_t now = 4102444800; /* 2100-01-01, after the build */
    now += 86400;
    if (out) *out = now;
    return now;
}

/* Returns a reproducible number between 0 and 1. */
static inline double sample_noise(int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a * 0x9E3779B97F4A7C15u + (uint64_t)b * 0xC2B2AE3D27D4EB4Fu + 1;
    x ^= x >> 29, x *= 0xBF58476D1CE4E5B9u, x ^= x >> 32;
    return (double)(x >> 11) / 9007199254740992.0;
}

static inline bench_case sample_case(int which)
{
    static deck planned;
    deck_source source = { .name = "gsw.dat",
                           .text = sample_deck,
                           .length = sizeof sample_deck - 1,
                           .ranks = SAMPLE_RANKS,
                           .cuda_usable = true };
    if (!planned.cases) planned = deck_read(&source);
    if (planned.cases != SAMPLES) fail_msg("%s", planned.messages ? planned.message[0].line : "another deck");
    return planned.item[which];
}

static inline double sample_learning_rate(const bench_case *c, int64_t t)
{
    const optimizer_rule *o = &c->optimizer;
    int64_t warmup = o->learning_rate_warmup, last = c->warmup + c->steps - 1;
    if (t < warmup) return o->learning_rate * (double)(t + 1) / (double)(warmup + 1);
    if (o->learning_rate_constant || last <= warmup) return o->learning_rate;
    double part = (double)(t - warmup) / (double)(last - warmup);
    return o->learning_rate_minimum +
           0.5 * (o->learning_rate - o->learning_rate_minimum) * (1.0 + cos(3.141592653589793 * part));
}

static inline const char *sample_device(void)
{
    const char *name = getenv("SAMPLE_DEVICE");
    return name ? name : "NVIDIA H100 80GB HBM3";
}

/* Three quarters of a step are computing; one fifteenth of that was delayed. */
static inline void sample_ranks(facts *f, const bench_case *c, double seconds)
{
    int ranks = c->layout.ranks;
    size_t n = (size_t)(f->total * ranks);
    double window[SAMPLE_RANKS] = { 0.0 }, timed = (double)c->steps, idle = c->backend == BACKEND_HOST ? 9.0 : 10.0;
    rank_times *x = &f->ranks;
    x->step = calloc(n, sizeof *x->step);
    x->work = calloc((size_t)ranks, sizeof *x->work);
    f->devices = calloc((size_t)ranks * 2, sizeof *f->devices);
    for (int table = 0; table < RANK_TABLES; table++) x->table[table] = calloc(n, sizeof *x->table[table]);
    for (size_t i = 0; i < n; i++) {
        int64_t t = (int64_t)i / ranks;
        x->step[i] = seconds * (0.98 + 0.02 * sample_noise(t, (int)i % ranks)) * (t == 0 ? 3.0 : 1.0);
        x->table[RANK_LATE][i] = 0.01 * x->step[i], x->table[RANK_EXPOSED_TENSOR][i] = 0.0625 * x->step[i];
        x->table[RANK_EXPOSED_GRADIENT][i] = 0.03125 * x->step[i];
        x->table[RANK_COMPUTING][i] = 0.75 * x->step[i];
        x->table[RANK_RUN_DELAY][i] = 0.05 * x->step[i];
        window[i % (size_t)ranks] += t < c->warmup ? 0.0 : x->step[i];
    }
    for (int i = 0; i < ranks; i++) {
        x->work[i] = (rank_work){ .flops = 1e12, .bytes = 1e9, .host = "host" };
        x->work[i].sums = (rank_sums){
            .idle_seconds = idle / 64.0 * window[i],
            .dispatch_seconds = window[i] / 64.0,
            .phase_seconds = { [PHASE_FORWARD] = 0.25 * window[i], [PHASE_BACKWARD] = 0.5 * window[i] },
            .messages = { [0] = 20 * c->steps, [5] = 14 * c->steps },
            .bytes = { [0] = 4e6 * timed, [5] = 1e6 * timed },
            .seconds = { [0] = 0.0625 * window[i], [5] = 0.03125 * window[i] },
        };
        for (int when = 0; when < 2; when++) {
            machine_device *d = &f->devices[2 * i + when];
            d->clocks_known = true;
            snprintf(d->name, sizeof d->name, "%s", c->backend == BACKEND_CUDA ? sample_device() : "host");
        }
    }
}

static inline void sample_steps(facts *f, const bench_case *c)
{
    for (int64_t t = 0; t < c->warmup + c->steps; t++) {
        f->own_seconds[t] = f->ranks.step[t * c->layout.ranks];
        f->begin[t] = t ? f->begin[t - 1] + f->own_seconds[t - 1] : 0.5;
        f->loss[t] = log((double)c->model.vocabulary) - 0.01 * (double)t + 1e-3 * sample_noise(t, -1);
        f->gradient_norm[t] = 1.0 + sample_noise(t, -2);
        f->learning_rate[t] = sample_learning_rate(c, t);
        static const double routed[] = { 0.041, 12.0, 480.0, 560.0, 0.05 };
        for (int i = 0; c->model.experts && i < ROUTED_FACTS; i++) f->routed[i][t] = routed[i];
        f->completed++;
    }
}

/* In the mean over the timed steps, one input value in ten thousand was rounded to 0. */
static inline void sample_fp8(case_result *r, const bench_case *c)
{
    for (int64_t t = 0; c->precision == PRECISION_FP8 && t < c->warmup + c->steps; t++) {
        double odd = t < c->warmup ? 0.5 : 1e-5 * (double)(t - c->warmup - c->steps / 2);
        fp8_facts step[FP8_KINDS] = { { 1e-4 + odd, 0.0, 16.0, t == 4 ? 256.0 : 128.0 },
                                      { 0.0, 0.0, 1024.0, 2048.0 },
                                      { 1e-3, 1e-6, t == 5 ? 32768.0 : 65536.0, 1048576.0 } };
        for (int64_t i = 0; i < r->seen.fp8_tensors; i++)
            r->seen.fp8_scale[t * r->seen.fp8_tensors + i] =
                i < FP8_KINDS ? step[i].scale_least : step[i % FP8_KINDS].scale_most;
        if (t >= c->warmup) facts_add_fp8(&r->seen, t - c->warmup, step);
    }
}

/* Three samples per rank: GPUs of 500 W each, or a host without sensors. */
static inline void sample_samples(case_result *r, const bench_case *c)
{
    bool devices = c->backend == BACKEND_CUDA;
    enum { EACH_RANK = 3 };
    size_t n = EACH_RANK * (size_t)c->layout.ranks;
    double seconds = 0.0, none = devices ? 0.0 : NAN;
    for (int64_t t = 0; t < r->seen.completed; t++) seconds += r->seen.ranks.step[t * c->layout.ranks];
    double energy = 500.0 * seconds;
    r->seen.samples =
        (sample_set){ .every = 1.0, .cost_share = 1e-4, .joules = NAN, .watts = none + 500.0, .method = "" };
    r->seen.samples.node_cores = 2;
    r->seen.samples.list = calloc(n, sizeof *r->seen.samples.list);
    for (size_t i = 0; i < n; i++) {
        double part = (double)(i % EACH_RANK) / (EACH_RANK - 1);
        machine_sample s = { .seconds = part * seconds, .clock_hertz = none + 1.7e9 };
        s.temperature = none + 60.0, s.power_watts = none + 500.0, s.device_joules = none + part * energy;
        s.clock_least = s.clock_most = s.clock_hertz, s.temperature_most = s.temperature;
        s.power_least = s.power_most = s.power_watts, s.package_joules = NAN;
        s.events = devices ? 4 : -1;
        r->seen.samples.list[i] = (ranked_sample){ (int)i / EACH_RANK, s };
    }
    r->seen.samples.count = (int64_t)n;
    if (!devices) return;
    r->seen.samples.joules = energy * c->layout.ranks, r->seen.samples.method = "invented counters";
}

static inline check_result sample_check(double residual)
{
    check_result k = { .residual = residual,
                       .loss = residual / 4,
                       .gradient_first = residual,
                       .gradient_fourth = residual / 2,
                       .weights = residual / 8,
                       .seconds = 0.25,
                       .done = true,
                       .passed = residual < 16.0 };
    snprintf(k.worst, sizeof k.worst, "layers.1.down, step 0, rank 1");
    return k;
}

/* Adds a check with shadowed operations. */
static inline void sample_checked(case_result *r, double residual)
{
    r->seen.check = sample_check(residual);
    r->seen.machine.shadow = (shadow_report){ .operations = 500, .elements = 70000 };
}

/* Rank 0's last step: operations one after another, grouped by kind. */
static inline void sample_spans(case_result *r, const bench_case *c)
{
    double at = 0.0;
    r->seen.spans = calloc((size_t)tally_operations(&r->seen.tally), sizeof *r->seen.spans);
    for (int k = 0; k < OP_KINDS; k++)
        for (int64_t i = 0; i < r->seen.tally.kind[k].count / c->steps; i++, at += 1e-6)
            r->seen.spans[r->seen.span_count++] =
                (span){ .kind = (op_kind)k,
                        .queue = op_is_transfer((op_kind)k) ? 2 : 0,
                        .begin = at,
                        .end = at + 1e-6,
                        .origin = { .name = "qkv", .phase = PHASE_FORWARD, .layer = (int)(i % 4) } };
}

/* Totals of the timed steps, with the flops of one rank. All ranks have equal shares. */
static inline void sample_tally(case_result *r, const bench_case *c)
{
    double timed = (double)c->steps, kept = (double)c->layout.ranks, s = (double)c->model.sequence,
           h = (double)c->model.hidden, share = timed * (double)c->global_batch / kept,
           head = 6.0 * s * h * (double)c->model.padded_vocabulary, square = 6.0 * (double)c->model.layers * h * s * s;
    const rank_sums *own = &r->seen.ranks.work[0].sums;
    double window = 64.0 * own->dispatch_seconds;
    tally_row *kind = r->seen.tally.kind;
    kind[OP_MATMUL] = (tally_row){ (int64_t)timed * 84, share * (c->model_block_flops_per_sequence + head), 3e8 * timed,
                                   0.5 * window };
    kind[OP_ATTENTION_FORWARD] = (tally_row){ (int64_t)timed * 4, share * square / 3, 1e6 * timed, 0.125 * window };
    kind[OP_ATTENTION_BACKWARD] =
        (tally_row){ (int64_t)timed * 4, share * square * 2 / 3, 2e6 * timed, 0.125 * window };
    kind[OP_ALL_GATHER] = (tally_row){ (int64_t)timed * 20, 0, 4e6 * timed, 0.0625 * window };
    kind[OP_ALL_REDUCE] = (tally_row){ (int64_t)timed * 14, 0, 1e6 * timed, 0.03125 * window };
    memcpy(r->seen.tally.phase_seconds, own->phase_seconds, sizeof own->phase_seconds);
    r->seen.tally.axis[0] =
        (tally_axis){ "tensor", (int64_t)timed * 20, 4e6 * timed, 0, 0.0625 * window, 0.0625 * window, 0 };
    r->seen.tally.axis[1] =
        (tally_axis){ "gradient", (int64_t)timed * 14, 1e6 * timed, 0, 0.03125 * window, 0.03125 * window, 0 };
    r->seen.tally.axes = r->seen.tally.transfers = 2;
    r->seen.tally.transfer[0] = (tally_transfer){ "tensor all_gather", (int64_t)timed * 20, 4e6 * timed,
                                                  0.0625 * window, 4e6 * timed / (0.0625 * window) };
    r->seen.tally.transfer[1] = (tally_transfer){ "gradient all_reduce", (int64_t)timed * 14, 1e6 * timed,
                                                  0.03125 * window, 1e6 * timed / (0.03125 * window) };
    r->seen.tally.dispatch_seconds = own->dispatch_seconds, r->seen.tally.idle_seconds = own->idle_seconds;
}

static inline void sample_machine(case_result *r, const bench_case *c)
{
    int node[SAMPLE_RANKS] = { 0 };
    for (int k = 0; k < ARENA_KINDS; k++) r->seen.arena_bytes += r->seen.bytes_by_kind[k] = (size_t)(64 * (k + 1));
    r->seen.outside_bytes = 1e8, r->seen.own_outside_bytes = 5e7, r->seen.total_seconds = 1000.0;
    r->seen.begin_seconds = 2000.0 * c->number;
    r->seen.placement = placement_of(&c->layout, node, node);
    snprintf(r->seen.engines, sizeof r->seen.engines, "attention and products of a sample; products oneDNN 2.6.0");
    sample_tally(r, c);
    sample_spans(r, c);
}

/* Judges the result by the program's rules. All ranks are on one node with two threads each. */
static inline void sample_judge(case_result *r, int which)
{
    if (r->given->check != CHECK_OFF) sample_checked(r, 1.25);
    if (r->given->check == CHECK_FULL) {
        r->seen.machine.replay = (shadow_report){ .operations = 60,
                                                  .elements = 600,
                                                  .worst = 0.25,
                                                  .products = 30,
                                                  .comparisons = 3000,
                                                  .worst_comparison = 0.5 };
        r->seen.replay_seconds = 2.0;
    }
    if (which == SAMPLE_FAILED) {
        r->seen.check = sample_check(400.0);
        r->seen.machine.faults = 54, r->seen.check.faults = 36;
        snprintf(r->seen.check.struck, sizeof r->seen.check.struck, "all_reduce");
        snprintf(r->seen.struck, sizeof r->seen.struck, "all_reduce");
    }
    if (r->given->layout.ranks > r->given->layout.degree[AXIS_PIPELINE])
        r->seen.conserved = (conservation){ .comparisons = 1600, .worst = 0.25, .replicas = 12 };
    r->seen.load =
        (host_load){ .node_ranks = SAMPLE_RANKS, .cores = 64, .threads = 2, .sharing = 1, .quota = INFINITY };
    r->figures = figures_of(&r->seen, r->given);
    judge_case(r);
}

/* Returns the result; close it with result_close. */
static inline case_result sample_result(const bench_case *c, int which)
{
    static const double seconds[SAMPLES] = { 0.2, 12.27, 5.4, 0.1, 0.0, 0.2, 9.33, 0.2 };
    case_result r;
    result_open(&r, c);
    sample_ranks(&r.seen, c, seconds[which]);
    sample_steps(&r.seen, c);
    sample_fp8(&r, c);
    sample_machine(&r, c);
    sample_samples(&r, c);
    sample_judge(&r, which);
    return r;
}

/* Deck, cases and results must outlive the records. */
static char sample_text[sizeof sample_deck];
static bench_case sample_given[SAMPLES];
static case_result sample_kept[SAMPLES];

static inline void sample_add(record *r, int which)
{
    bench_case *c = &sample_given[which];
    case_result *result = &sample_kept[which];
    *c = sample_case(which);
    result_close(result);
    if (which == SAMPLE_SKIPPED) result_skip(result, c, c->skipped);
    else *result = sample_result(c, which);
    record_add(r, result);
}

/* Takes the name again and releases its last holder, without a journal. Returns NULL and sets reason if refused. */
static inline record *sample_place(run_source *run, const char *path, char *reason, size_t length)
{
    static record_place place = { .none = true, .file = -1 };
    place_delete_journal(&place);
    place_close(&place);
    if (!place_reserve(&place, path, reason, length)) return NULL;
    run->place = &place;
    run->provenance = provenance_open(run);
    return record_open(run);
}

/* Returns NULL and sets reason if refused. The deck has the given number of cases, but only the first is filled in. */
static inline record *sample_open(const char *path, int64_t cases, char *reason, size_t length)
{
    static char host[SAMPLE_RANKS][HOST_NAME_BYTES];
    static char *argv[] = { "./xgsw", "--ranks", "it's 4", "gsw.dat", NULL };
    static machine_device device[SAMPLE_RANKS];
    static char switches[SAMPLE_RANKS][SWITCHES_BYTES];
    static bench_case first;
    static deck planned;
    static run_source run;
    size_t bytes = sizeof sample_deck - (cases == SAMPLES ? 1 : sizeof SAMPLE_LAST);
    memcpy(sample_text, sample_deck, bytes), sample_text[bytes] = 0;
    for (int i = 0; i < SAMPLE_RANKS; i++) {
        snprintf(host[i], HOST_NAME_BYTES, "node1");
        device[i] = (machine_device){ .driver = "580.82",
                                      .bus = "00000000:3B:00.0",
                                      .serial = "165",
                                      .multiprocessors = 132,
                                      .memory_bytes = 85e9,
                                      .power_limit_watts = 700.0,
                                      .clock_limit_hertz = 1.98e9 };
        snprintf(device[i].name, sizeof device[i].name, "%s", sample_device());
        snprintf(device[i].identity, sizeof device[i].identity, "GPU-%d", i);
    }
    snprintf(first.record, sizeof first.record, "%s", path);
    planned = (deck){ .item = &first, .cases = cases };
    run = (run_source){ .deck = &planned,
                        .deck_name = "gsw.dat",
                        .deck_text = sample_text,
                        .deck_length = bytes,
                        .argc = 4,
                        .argv = argv,
                        .ranks = SAMPLE_RANKS,
                        .hosts = host[0],
                        .switches = switches[0],
                        .threads = 2,
                        .mpi = "Open MPI 4.1.4",
                        .products = "oneDNN 2.6.0",
                        .cuda = "CUDA 13.0",
                        .devices = device };
    return sample_place(&run, path, reason, length);
}
