/* Report lines of projections. */
#include "base/say.h"
#include "base/text.h"
#include "bench/facts/figures.h"
#include "bench/project/project.h"
#include "plan/catalogue/catalogue.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static double mfu_of(const bench_case *c, const machine_sheet *s, double seconds)
{
    if (s->host) return (double)NAN;
    return 100.0 * model_flops_utilization(c->global_batch, c->recipe_flops_per_sequence, seconds, c->layout.ranks,
                                           gpu_peak(s->device->name, c->precision));
}

static void print_published(const bench_case *c, const machine_sheet *s)
{
    for (int i = 0; recipe_at(i); i++) {
        const recipe_row *row = recipe_at(i);
        if (!recipe_is_origin(row, c) || s->host || !device_is(s->device->name, row->gpu)) continue;
        say("  published   %.3f s a step, MFU %.1f %%, on %d %s\n", row->step_seconds, mfu_of(c, s, row->step_seconds),
            row->gpus, row->gpu);
    }
}

/* Prints the part of the step that is measured, published and assumed. */
static void print_origins(const machine_sheet *s, const projection *p)
{
    double seconds[ORIGINS] = { 0.0 };
    for (sheet_term t = 0; t < TERMS; t++)
        if (!term_is_factor(t)) seconds[s->term[t].origin] += p->term[t];
    say("  rests on    ");
    for (sheet_origin o = 0; o < ORIGINS; o++)
        say("%s%s terms %.0f %%", o ? ", " : "", origin_name(o), 100.0 * seconds[o] / p->seconds);
    say("; %.0f %% of the computing has shapes that the sheet does not list\n",
        100.0 * p->estimated / fmax(projected_computing(&p->busiest), 1e-300));
}

/* Prints each term's share of the critical path, and the changes by its least and most values, in percent of the step.
 * Shares of factors are in addition to 100 %. */
static void print_terms(const machine_sheet *s, const projection *p)
{
    const char *comma = "";
    say("  terms       ");
    for (sheet_term t = 0; t < TERMS; t++) {
        double percent = 100.0 / p->seconds;
        if (p->term[t] * percent < 0.05) continue;
        say("%s%s %.1f %% (%+.2f %+.2f)", comma, term_name(t), p->term[t] * percent,
            projection_change(p, s, t, LEAST) * percent, projection_change(p, s, t, MOST) * percent);
        comma = ", ";
    }
    say("\n");
}

static double seconds_of(const tally *t, op_kind a, op_kind b) { return t->kind[a].seconds + t->kind[b].seconds; }

static void print_time(const projection *p)
{
    const tally *t = &p->busiest;
    double products = seconds_of(t, OP_MATMUL, OP_GROUPED_MATMUL), optimizer = t->phase_seconds[PHASE_OPTIMIZER];
    double attention = seconds_of(t, OP_ATTENTION_FORWARD, OP_ATTENTION_BACKWARD), bubble = projected_bubble(p, t);
    double rest = projected_computing(t) - products - attention - optimizer, part = 100.0 / p->seconds;
    say("  time        products %.1f %%, attention %.1f %%, memory-bound kernels %.1f %%, optimizer %.1f %%, bubble "
        "%.1f "
        "%% (stage %d)\n",
        part * products, part * attention, part * rest, part * optimizer, part * bubble, p->stage);
    const char *between = "  exposed     ";
    for (int i = 0; i < t->axes; i++) {
        if (strcmp(t->axis[i].axis, "pipeline") == 0 || t->axis[i].exposed_seconds == 0.0) continue;
        say("%s%s %.1f %%", between, t->axis[i].axis, part * t->axis[i].exposed_seconds);
        between = ", ";
    }
    if (between[0] == ',') say("\n");
}

static void print_case(const bench_case *c, const machine_sheet *s, const projection *p)
{
    say("case %d: %s, %s, %d rank%s of %s", c->number, c->model_name, precision_name(c->precision), c->layout.ranks,
        plural(c->layout.ranks), s->name);
    if (c->layout.copies > 1) say(", one of %d copies", c->layout.copies);
    say("\n");
    say("  step        %.5g s, from %.5g to %.5g; %.0f tokens/s", p->seconds, p->least, p->most,
        tokens_per_second(c->model.sequence, c->global_batch, p->seconds));
    if (!s->host && gpu_peak(s->device->name, c->precision) > 0.0)
        say(", MFU %.1f %%, from %.1f to %.1f", mfu_of(c, s, p->seconds), mfu_of(c, s, p->most),
            mfu_of(c, s, p->least));
    say("\n");
    if (p->missing[0]) say("  NOT PRICED  %s: not in the sheet; calibrate this deck\n", p->missing);
    print_published(c, s);
    print_time(p);
    print_terms(s, p);
    print_origins(s, p);
    say("  memory      %.1f GB on the rank that needs most", p->bytes / 1e9);
    if (s->host) say("\n");
    else
        say(", of %.0f GB%s\n", s->device->memory_bytes / 1e9,
            p->bytes > s->device->memory_bytes ? ": DOES NOT FIT" : "");
}

static void print_varied(const bench_case *c, const machine_sheet *s, sheet_term vary)
{
    char why[256];
    say("  vary        %s in %s:", term_name(vary), term_unit(vary));
    for (sheet_value v = LEAST; v <= MOST; v++) {
        machine_sheet other = *s;
        projection p;
        other.term[vary].value[EXPECTED] = s->term[vary].value[v];
        if (!project_case(c, &other, NULL, &p, why, sizeof why)) continue;
        say("%s %.4g gives %.5g s, MFU %.1f %%", v == LEAST ? "" : ";", s->term[vary].value[v] / term_si(vary),
            p.seconds, mfu_of(c, s, p.seconds));
    }
    say("\n");
}

static bool project_one(const bench_case *c, const machine_sheet *s, sheet_term vary, FILE *trace)
{
    char why[1024] = "";
    projection p;
    if (c->skipped[0]) say("case %d: SKIPPED: %s\n", c->number, c->skipped);
    else if (project_case(c, s, trace, &p, why, sizeof why)) {
        print_case(c, s, &p);
        if (vary < TERMS) print_varied(c, s, vary);
    } else say("case %d: NOT PROJECTED: %s\n", c->number, why);
    say("\n");
    return !why[0];
}

bool project_deck(const deck *d, const machine_sheet *s, sheet_term vary, FILE *trace)
{
    bool all = true;
    for (int64_t i = 0; i < d->cases; i += d->item[i].repeats) all = project_one(&d->item[i], s, vary, trace) && all;
    return all;
}
