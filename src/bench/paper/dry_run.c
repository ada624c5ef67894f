/* The dry run. */
#include "bench/paper/dry_run.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/checkpoint/checkpoint.h"
#include "bench/facts/accept.h"
#include "bench/facts/rules.h"
#include "bench/paper/forecast.h"
#include "bench/record/json.h"
#include "plan/catalogue/catalogue.h"
#include "plan/deck/catalogue_list.h"
#include "plan/deck/deck.h"
#include "plan/model/shapes.h"
#include "plan/model/sm_shares.h"
#include "plan/schedule/schedule.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void describe_recipe(const bench_case *c)
{
    if (c->recipe_layout) say(", the recipe's");
    else if (c->recipe_gpus) say(", the recipe's for %d, data-parallel to %d", c->recipe_gpus, c->layout.ranks);
    say("\n");
}

static void describe_layout(const bench_case *c)
{
    const int *n = c->layout.degree;
    char text[LAYOUT_TEXT];
    say("  layout      tensor %d  pipeline %d  context %d  expert %d  data %d  shard %d  chunks_per_stage %d: %d of %d "
        "rank%s",
        n[AXIS_TENSOR], n[AXIS_PIPELINE], n[AXIS_CONTEXT], c->layout.expert, n[AXIS_DATA], n[AXIS_SHARD],
        c->layout.chunks_per_stage, c->ranks, c->world_ranks, plural(c->world_ranks));
    describe_recipe(c);
    if (c->layout.copies > 1)
        say("  copies      %d at the same time, each of %d rank%s; sizes below are of one copy\n", c->layout.copies,
            c->layout.ranks, plural(c->layout.ranks));
    if (idle_text(c, text)[0]) say("  idle        %s\n", text);
    int data = n[AXIS_DATA] * n[AXIS_SHARD];
    say("  batch       global %lld = %lld microbatch%s of %lld on %d data rank%s; tokens %s, recompute %s, "
        "sharding %s, overlap %s\n",
        (long long)c->global_batch, (long long)c->microbatches, c->microbatches == 1 ? "" : "es",
        (long long)c->microbatch, data, plural(data), tokens_name(c->tokens), recompute_name(c->recompute),
        sharding_name(c->sharding), c->overlap ? "on" : "off");
}

/* Fills in what is known without a run: the rules that the case breaks, and why it cannot be accepted. */
static void predict_verdict(foreseen_case *f)
{
    case_result *r = f->result;
    const bench_case *c = r->given;
    const char *device = c->backend == BACKEND_CUDA ? f->device : "host";
    if (!c->skipped[0]) rules_foresee(c, &r->ruling.invalids);
    if (!accept_expects(c)) return;
    accept_text(c, device, f->expected);
    const char *obstacle = c->skipped[0]                       ? "SKIPPED"
                           : r->ruling.invalids.count          ? "NOT VALID"
                           : isnan(accept_expected(c, device)) ? "no published cell"
                                                               : "";
    snprintf(r->ruling.not_accepted, sizeof r->ruling.not_accepted, "%s", obstacle);
}

static void describe_verdict(const foreseen_case *f)
{
    const case_result *r = f->result;
    const char *why = r->ruling.not_accepted;
    for (int i = 0; i < r->ruling.invalids.count; i++) say("  NOT VALID   %s\n", r->ruling.invalids.list[i].sentence);
    if (f->expected[0])
        say("  expected    %s%s%s%s\n", f->expected, why[0] ? ": NOT ACCEPTED (" : "", why, why[0] ? ")" : "");
}

/* Slots are layers and the ends of the pipeline: embedding and loss. */
static void describe_chunks(const bench_case *c)
{
    int64_t chunks = (int64_t)c->layout.degree[AXIS_PIPELINE] * c->layout.chunks_per_stage,
            ends = shape_slots(c->model.layers, &c->layout);
    if (chunks == 1) say("no pipeline");
    else
        say("%lld chunks of %lld slots = %lld layers%s", (long long)chunks,
            (long long)((c->model.layers + ends) / chunks), (long long)c->model.layers,
            ends ? " + embedding + loss" : "");
}

static void describe_schedule(const bench_case *c)
{
    int64_t deferred = c->microbatches - schedule_first_deferred(c);
    say("  schedule    %s, ", schedule_name(c->schedule));
    describe_chunks(c);
    say("; %lld forwards and backwards a stage\n", (long long)(c->microbatches * c->layout.chunks_per_stage));
    if (deferred)
        say("              the LM head's weight gradients of the last %lld microbatches wait for the drain\n",
            (long long)deferred);
}

static void describe_parameters(const bench_case *c, const paper *p)
{
    double states = 0.0, parameters = 0.0;
    for (int i = 0; i < p->stages; i++) {
        const paper_stage *s = &p->stage[i];
        states += (double)(s->bytes[WEIGHTS] + s->bytes[GRADIENTS] + s->bytes[OPTIMIZER]);
        parameters += (double)s->parameters;
    }
    say("  parameters  %lld; weights + gradients + optimizer %.4f bytes per parameter held\n",
        (long long)model_parameters(&c->model), states / parameters);
}

/* Flops are whole numbers, so the sum over ranks must equal the formula exactly. */
static void describe_flops(const bench_case *c, const paper *p)
{
    double batch = (double)c->global_batch, model = (double)step_model_flops(c);
    bool equal = paper_model_flops(p) == step_model_flops(c);
    say("  flops       %.6e recipe, %.6e model per sequence; %.6e recipe, %.6e model per step\n",
        c->recipe_flops_per_sequence, c->model_flops_per_sequence, batch * c->recipe_flops_per_sequence, model);
    say("              the ranks' model flops sum to %.6e, %s the model's; submitted ", (double)paper_model_flops(p),
        equal ? "exactly" : "NOT");
    say("%.6e, %.6f of the model's\n", paper_submitted_flops(p, c), paper_submitted_flops(p, c) / model);
}

/* Prints one line for neighbouring stages that are alike. The report of a run prints what copy engines really moved. */
static void describe_sm_shares(const bench_case *c, const char *device)
{
    char text[SM_SHARES_TEXT], previous[SM_SHARES_TEXT] = "";
    unsigned copied = copy_engine_kinds(&c->layout, device_domain(device));
    for (int i = 0; c->backend == BACKEND_CUDA && i < c->layout.degree[AXIS_PIPELINE]; i++) {
        sm_shares r = sm_shares_of(c, i, copied);
        sm_shares_text(&r, text);
        if (strcmp(text, previous)) say("  transfers   %s\n", text);
        strcpy(previous, text);
    }
}

static void describe_memory(const paper *p)
{
    say("\n  stage    rank  layers  live     parameters");
    for (int k = 0; k < ARENA_KINDS; k++) say(" %14s", arena_kind_name((arena_kind)k));
    say(" %14s  bytes a rank\n", "total");
    for (int i = 0; i < p->stages; i++) {
        const paper_stage *s = &p->stage[i];
        say("  %5d %7d %7lld %5lld %14lld", i, s->rank, (long long)s->layers, (long long)s->live,
            (long long)s->parameters);
        for (int k = 0; k < ARENA_KINDS; k++) say(" %14zu", s->bytes[k]);
        say(" %14zu\n", s->total);
    }
}

static void describe_largest(const bench_case *c, const paper *p)
{
    const paper_stage *parameters = &p->stage[0], *bytes = &p->stage[0];
    for (int i = 1; i < p->stages; i++) {
        if (p->stage[i].parameters > parameters->parameters) parameters = &p->stage[i];
        if (p->stage[i].total > bytes->total) bytes = &p->stage[i];
    }
    say("  most        %lld parameters on rank %d, %zu bytes (%.3f GB) on rank %d and on ranks with the same layers\n",
        (long long)parameters->parameters, parameters->rank, bytes->total, (double)bytes->total / 1e9, bytes->rank);
    if (c->backend == BACKEND_CUDA)
        say("              scratch of the CUDA libraries %s\n", machine_built(MACHINE_CUDA) ? "included" : "n/a");
    else
        say("              scratch with %d thread%s a rank (OMP_NUM_THREADS)\n", machine_threads(MACHINE_HOST),
            plural(machine_threads(MACHINE_HOST)));
}

/* The recipes of Llama 3.1 also save the BF16 weights, although they follow from the masters: 14 bytes a parameter. */
static void describe_checkpoint(const bench_case *c)
{
    enum { RECIPE_BYTES = 14 };
    double bytes = checkpoint_bytes(c), parameters = (double)model_parameters(&c->model);
    say("  checkpoint  %.4g GB, %.3g bytes per parameter", bytes / 1e9, bytes / parameters);
    if (strncmp(c->workload, "llama3.1-", strlen("llama3.1-")) == 0 && !c->proxy)
        say("; the recipe's, with the BF16 weights as well, %.4g GB = %.4g GiB", RECIPE_BYTES * parameters / 1e9,
            RECIPE_BYTES * parameters / (double)(1 << 30));
    say("\n");
}

static void describe_work(const paper *p)
{
    say("\n  stage    model flops      submitted     operations  of a rank in a step\n");
    for (int i = 0; i < p->stages; i++) {
        const paper_stage *s = &p->stage[i];
        say("  %5d %14.6e %14.6e %14lld\n", i, (double)s->model_flops, tally_flops(&s->step),
            (long long)tally_operations(&s->step));
    }
}

static tally_axis axis_of(const paper_stage *s, const char *axis)
{
    for (int i = 0; i < s->step.axes; i++)
        if (strcmp(s->step.axis[i].axis, axis) == 0) return s->step.axis[i];
    return (tally_axis){ .axis = axis };
}

static void describe_axis(const bench_case *c, const paper *p, const group *g)
{
    tally_axis most = axis_of(&p->stage[0], g->axis);
    double sent = most.sent;
    int where = 0;
    for (int i = 1; i < p->stages; i++) {
        tally_axis a = axis_of(&p->stage[i], g->axis);
        sent += a.sent;
        if (a.sent > most.sent) most = a, where = i;
    }
    if (most.messages == 0) return;
    say("  %-10s %5d %14lld %14.0f %7d %20.6e\n", g->axis, g->size, (long long)most.messages, most.sent, where,
        sent * (double)(c->layout.ranks / p->stages));
}

/* The gradient's group is data, shard and context together; the model's group is pipeline and tensor together. */
static void describe_messages(const bench_case *c, const paper *p)
{
    mesh m;
    mesh_open(&m, &c->layout, 0, MESH_PAPER);
    const group *groups[] = { &m.axis[AXIS_TENSOR],
                              &m.axis[AXIS_CONTEXT],
                              &m.expert,
                              &m.axis[AXIS_PIPELINE],
                              &m.axis[AXIS_SHARD],
                              &m.axis[AXIS_DATA],
                              &m.gradient,
                              &m.model,
                              &m.all };
    say("\n  axis       ranks       messages     bytes sent   stage   sent by all ranks  a step of the rank "
        "that sends most\n");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (groups[i] != &m.expert || c->model.experts) describe_axis(c, p, groups[i]);
    mesh_close(&m);
}

static bool describe_hazards(const paper *p)
{
    if (p->hazards.count == 0) say("\n  hazards     none\n");
    else say("\n  hazards     %lld, NOT ORDERED:\n", (long long)p->hazards.count);
    for (int i = 0; i < p->hazards.sentences; i++) say("              %s\n", p->hazards.sentence[i]);
    return p->hazards.count == 0;
}

static void describe_not_built(const bench_case *c)
{
    if (c->backend == BACKEND_CUDA && !machine_built(MACHINE_CUDA)) say("  not built: backend cuda\n");
}

static void describe_title(const bench_case *c)
{
    say("case %d: %s, size %s, %s, backend %s, %d rank%s\n", c->number, c->model_name, size_name(c->size),
        precision_name(c->precision), backend_name(c->backend), c->world_ranks, plural(c->world_ranks));
    if (c->stands_for > 1)
        say("  (stands for %d combinations of its section, which differ only in unused keys; runs once)\n",
            c->stands_for);
    if (c->repeats > 1)
        say("  (run %lld times, as cases %d to %lld)\n", (long long)c->repeats, c->number,
            c->number + (long long)c->repeats - 1);
    if (c->skipped[0]) say("  SKIPPED: %s\n", c->skipped);
}

/* Prints a case and fills in its memory and time. Returns whether its operations are ordered. */
static bool describe_measured(foreseen_case *f, deck_time *time)
{
    const bench_case *c = f->result->given;
    paper p = paper_open(c);
    describe_layout(c);
    say("  model       ");
    model_print(&c->model);
    if (c->precision == PRECISION_FP8)
        say("  scales      %s, %s\n", fp8_scale_name(c->fp8_scale), fp8_scaling_name(c->fp8_scaling));
    describe_schedule(c);
    describe_parameters(c, &p);
    describe_flops(c, &p);
    describe_sm_shares(c, f->device);
    describe_not_built(c);
    describe_memory(&p);
    describe_largest(c, &p);
    describe_checkpoint(c);
    f->memory_bytes = forecast_fit(c, &p, f->device_bytes);
    forecast_domain(c, f->device);
    forecast_published(c, f->device);
    describe_verdict(f);
    f->seconds = forecast_add(time, c, &p);
    for (int a = 0; a < p.stage->step.axes; a++) f->messages += p.stage->step.axis[a].messages;
    describe_work(&p);
    describe_messages(c, &p);
    bool ordered = describe_hazards(&p);
    paper_close(&p);
    return ordered;
}

static bool describe(foreseen_case *f, deck_time *time)
{
    bool ordered = true;
    describe_title(f->result->given);
    if (f->result->given->skipped[0]) describe_verdict(f);
    else ordered = describe_measured(f, time);
    say("\n");
    return ordered;
}

bool dry_run_is_bounded(const deck *d, char *sentence, size_t length)
{
    enum { MOST_PASSES = 1 << 20 };
    double passes = 0.0;
    for (int64_t i = 0; i < d->cases; i += d->item[i].repeats)
        if (!d->item[i].skipped[0]) passes += (double)d->item[i].microbatches * (double)d->item[i].model.layers;
    snprintf(
        sentence, length,
        "the cases submit %.0f passes of a microbatch through a layer; a dry run takes at most %d: give fewer cases",
        passes, MOST_PASSES);
    return passes <= MOST_PASSES;
}

bool dry_run(const deck *d, const options *o, FILE *json, bool measured)
{
    bool ordered = true, enabled = say_enabled();
    deck_time time = { .device = o->device, .step_seconds = o->step_seconds };
    say_enable(enabled && json != stdout);
    if (d->no_effect[0]) say("no effect   %s\n\n", d->no_effect);
    for (int64_t i = 0; i < d->cases; i += d->item[i].repeats) {
        case_result result = { .given = &d->item[i] };
        foreseen_case f = { &result, "", (double)NAN, o->device, o->device_bytes, (double)NAN };
        predict_verdict(&f);
        if (measured) ordered = describe(&f, &time) && ordered;
        if (measured && o->schedule && !d->item[i].skipped[0]) show_schedule(&d->item[i]);
        if (json) json_foresee(json, &f);
    }
    forecast_deck(&time, "time        ");
    say_enable(enabled);
    return ordered;
}
