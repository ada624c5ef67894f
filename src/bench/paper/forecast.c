/* Forecasts from formulas, published steps and paper. */
#include "bench/paper/forecast.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/paper/memory.h"
#include "plan/catalogue/catalogue.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *duration_text(double seconds, char text[DURATION_TEXT])
{
    double minutes = seconds / 60.0, hours = minutes / 60.0;
    if (seconds < 120.0) snprintf(text, DURATION_TEXT, seconds < 10.0 ? "%.1f s" : "%.0f s", seconds);
    else snprintf(text, DURATION_TEXT, minutes < 120.0 ? "%.1f min" : "%.1f h", minutes < 120.0 ? minutes : hours);
    return text;
}

double forecast_case(const bench_case *c, double step_seconds)
{
    double warmup = (double)c->warmup * step_seconds;
    return warmup + fmax((double)c->steps * step_seconds, 60.0 * c->minutes);
}

double forecast_fit(const bench_case *c, const paper *p, double device_bytes)
{
    double most = 0.0, most_outside = 0.0;
    int rank = 0;
    for (int i = 0; i < p->stages; i++) {
        mesh m;
        mesh_open(&m, &c->layout, p->stage[i].rank, MESH_PAPER);
        double outside = c->backend == BACKEND_CUDA ? memory_outside_estimate(&m) : 0.0;
        mesh_close(&m);
        if ((double)p->stage[i].total + outside <= most) continue;
        most = (double)p->stage[i].total + outside, most_outside = outside, rank = p->stage[i].rank;
    }
    if (c->backend != BACKEND_CUDA)
        say("  fits        if a node has %.3f GB for each of its ranks, and memory for MPI and the libraries\n",
            most / 1e9);
    else
        say("  fits        %s a device of %.1f GB: %.3f GB on rank %d, of which about %.1f GB for context, libraries "
            "and communicators\n",
            most <= device_bytes ? "yes," : "NO,", device_bytes / 1e9, most / 1e9, rank, most_outside / 1e9);
    return most;
}

void forecast_domain(const bench_case *c, const char *device)
{
    int ranks = c->layout.degree[AXIS_TENSOR], domain = device_find(device)->domain;
    if (c->backend == BACKEND_CUDA && domain % ranks)
        say("  NVLink      NO, tensor groups of %d ranks do not fill domains of %d GPU%s of %s evenly\n", ranks, domain,
            plural(domain), device);
}

static void print_published(const recipe_row *row, const bench_case *c)
{
    char text[DURATION_TEXT], cell[64] = "";
    int copies = c->layout.copies, used = copies > 1 ? snprintf(cell, sizeof cell, " in %d copies", copies) : 0;
    double seconds = row->step_seconds,
           mfu = model_flops_utilization(c->global_batch, c->recipe_flops_per_sequence, seconds, c->layout.ranks,
                                         gpu_peak(row->gpu, c->precision));
    if (!c->recipe_layout) snprintf(cell + used, sizeof cell - (size_t)used, ", as published for %d", row->gpus);
    say("  %-11s %.3f s a step on %d %s%s: %.0f tokens/s, recipe MFU %.1f %%; %lld steps%s take %s\n",
        c->recipe_layout ? "published" : "scaled", seconds, c->ranks, row->gpu, cell,
        copies * tokens_per_second(c->model.sequence, c->global_batch, seconds), 100.0 * mfu,
        (long long)(c->warmup + c->steps), c->minutes > 0.0 ? " or more" : "",
        duration_text(forecast_case(c, seconds), text));
}

void forecast_published(const bench_case *c, const char *device)
{
    const char *format = recipe_format(c, device);
    for (int i = 0; recipe_at(i); i++)
        if (recipe_is_origin(recipe_at(i), c)) print_published(recipe_at(i), c);
    if (format) say("  published   in %s on %s: not the same work\n", format, device);
}

static double busiest_flops(const paper *p)
{
    double most = 0.0;
    for (int i = 0; i < p->stages; i++) most = fmax(most, tally_flops(&p->stage[i].step));
    return most;
}

/* Returns the seconds of a step from the measured step, otherwise the published step, otherwise 0. */
static double step_seconds(const deck_time *t, const bench_case *c, double flops)
{
    const recipe_row *row = c->backend == BACKEND_CUDA ? recipe_origin(c, t->device) : NULL;
    if (t->step_seconds > 0.0) return t->step_seconds * flops / t->flops;
    return row ? row->step_seconds : 0.0;
}

/* Returns the seconds of a step at ASSUMED_MFU. Returns 0 for a narrow model, whose products are too small for it, and
 * for a device without a known peak. */
static double assumed_seconds(const deck_time *t, const bench_case *c)
{
    enum { NARROW = 4096 };
    double peak = c->backend == BACKEND_CUDA ? gpu_peak(t->device, c->precision) : 0.0,
           flops = (double)c->global_batch * c->recipe_flops_per_sequence / c->layout.ranks;
    return peak > 0.0 && c->model.hidden >= NARROW ? flops / peak / (ASSUMED_MFU / 100.0) : 0.0;
}

double forecast_add(deck_time *t, const bench_case *c, const paper *p)
{
    double flops = p ? busiest_flops(p) : 0.0, repeats = (double)c->repeats;
    if (t->flops == 0.0) t->flops = flops, t->first = c->number;
    double known = step_seconds(t, c, flops), step = known > 0.0 ? known : assumed_seconds(t, c);
    t->steps += c->repeats * (c->warmup + c->steps);
    t->seconds += repeats * forecast_case(c, step);
    t->cases += (int)c->repeats;
    t->assumed += step > known ? (int)c->repeats : 0;
    t->unknown += step > 0.0 ? 0 : (int)c->repeats;
    t->soaks |= c->minutes > 0.0;
    double least = repeats * forecast_case(c, known);
    return least > 0.0 ? least : (double)NAN;
}

static void say_basis(const deck_time *t)
{
    int published = t->cases - t->assumed - t->unknown;
    if (t->step_seconds > 0.0) {
        say("at %g s a step of case %d", t->step_seconds, t->first);
        if (t->cases > 1) say(", the others' in proportion to the flops of their busiest rank");
        return;
    }
    if (published) say("%d at published step times", published);
    if (t->assumed) say("%s%d at an assumed MFU of %d %%", published ? ", " : "", t->assumed, ASSUMED_MFU);
    if (t->unknown) say("%s%d unknown", published + t->assumed ? ", " : "", t->unknown);
    if (t->unknown && t->soaks) say(" (only soaks count)");
}

void forecast_deck(const deck_time *t, const char *label)
{
    char text[DURATION_TEXT];
    if (t->seconds == 0.0) return;
    say("%s%s %s for the %lld step%s%s of %d case%s, without start and checks:\n%*s", label,
        t->unknown ? "at least" : "about", duration_text(t->seconds, text), (long long)t->steps, plural(t->steps),
        t->soaks ? " or more" : "", t->cases, plural(t->cases), (int)strlen(label), "");
    say_basis(t);
    say("\n");
}

double forecast_step(const bench_case *measured, double seconds, const bench_case *other)
{
    double rank_flops = (double)measured->global_batch * measured->model_flops_per_sequence / measured->layout.ranks,
           other_rank_flops = (double)other->global_batch * other->model_flops_per_sequence / other->layout.ranks;
    return seconds * other_rank_flops / rank_flops;
}
