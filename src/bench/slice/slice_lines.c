/* A slice in words, and as objects. */
#include "base/build_info.h"
#include "base/say.h"
#include "bench/launch/case_machine.h"
#include "bench/record/json.h"
#include "bench/slice/slice.h"
#include "plan/catalogue/catalogue.h"
#include <math.h>

enum { SHAPE_TEXT = 120 };
static const phase layer_phases[] = { PHASE_FORWARD, PHASE_RECOMPUTE, PHASE_BACKWARD };
enum { LAYER_PHASES = sizeof layer_phases / sizeof *layer_phases };
static const char *const conditions[CONDITIONS] = { "all", "left", "resident" };

/* Returns the published step of the cell that the case is, or NaN. */
static double published_seconds(const bench_case *c)
{
    const recipe_row *row = recipe_origin(c, machine_device_of(case_machine(c).kind).name);
    return row && row->step_seconds > 0.0 ? row->step_seconds : (double)NAN;
}

/* ---- in words ---- */

/* "bf16[8192,4096] bf16[4096,1024]": the first two operands; returns text. */
static const char *shape_text(const op *o, char text[SHAPE_TEXT])
{
    size_t used = 0;
    for (int i = 0; i < o->operands && i < 2; i++) {
        const tensor *t = &o->operand[i].tensor;
        if (!tensor_present(t)) continue;
        used += (size_t)snprintf(text + used, SHAPE_TEXT - used, "%s%s", used ? " " : "", dtype_name(t->type));
        for (int k = 0; k < t->dims; k++)
            used += (size_t)snprintf(text + used, SHAPE_TEXT - used, "%c%lld", k ? ',' : '[', (long long)t->dim[k]);
        used += (size_t)snprintf(text + used, SHAPE_TEXT - used, "]");
    }
    return text;
}

static void print_operation(const slice *s, const sliced_rank *r, int i)
{
    char shape[SHAPE_TEXT] = "";
    const op_note *n = &r->noted.note[i];
    const sustained *of = s->of[r->which[i]];
    double step = (double)slice_times(r, i) * of[WITH_ALL].median;
    say("  %-20.20s %-20s %-44s %7lld %10.4g %10.4g %10.4g %10.4g %10.4g %10.4g %6.2f %7.1f\n", n->name,
        op_kind_name(n->op.kind), shape_text(&n->op, shape), (long long)slice_times(r, i), of[WITH_ALL].median,
        of[WITH_ALL].p10, of[WITH_ALL].p90, of[WITH_LEFT].median, of[WITH_RESIDENT].median, step,
        100.0 * step / slice_step_seconds(s, r, WITH_ALL), 1e-12 * op_flops(&n->op) / of[WITH_ALL].median);
}

static void print_sums(const slice *s, const sliced_rank *r)
{
    double published = published_seconds(s->given);
    for (int w = 0; w < CONDITIONS; w++) {
        double step = slice_step_seconds(s, r, (condition)w);
        if (isnan(step)) continue;
        say("  %-9s step %.6g s of computing, %.1f TFLOP/s; a layer and microbatch:", conditions[w], step,
            1e-12 * r->flops / step);
        for (int p = 0; p < LAYER_PHASES; p++)
            say(" %s %.4g s", phase_name(layer_phases[p]), slice_layer_seconds(s, r, (condition)w, layer_phases[p]));
        if (isfinite(published)) say("; %.1f %% of the published step of %g s", 100.0 * step / published, published);
        say("\n");
    }
}

static void print_rank(const slice *s, const sliced_rank *r)
{
    say("\nrank %d, stage %d: %lld layers, %lld microbatches; seconds of each operation alone, with all "
        "multiprocessors,\nwith all but %d, and next to a resident block\n",
        r->rank, r->stage, (long long)r->layers, (long long)s->given->microbatches, s->left);
    say("  %-20s %-20s %-44s %7s %10s %10s %10s %10s %10s %10s %6s %7s\n", "operation", "kind", "first operands",
        "a step", "median", "p10", "p90", "left", "resident", "s a step", "%", "TFLOP/s");
    for (int i = 0; i < r->noted.notes; i++)
        if (r->which[i] >= 0) print_operation(s, r, i);
    print_sums(s, r);
}

void slice_print(const slice *s)
{
    const bench_case *c = s->given;
    machine_device device = machine_device_of(case_machine(c).kind);
    say("slice of case %d: %s, size %s, %s, %d ranks, on %s: %d operations, %.3f GB for the largest\n", c->number,
        c->model_name, size_name(c->size), precision_name(c->precision), c->layout.ranks, device.name, s->noted.notes,
        (double)s->operand_bytes / 1e9);
    for (int i = 0; i < s->ranks; i++) print_rank(s, &s->rank[i]);
    say("\n");
}

/* ---- as objects ---- */

static void write_case(const slice *s, FILE *to, const char *deck_name)
{
    char text[512];
    machine_kind kind = case_machine(s->given).kind;
    machine_device device = machine_device_of(kind);
    json_keys(to, s->given);
    json_word(to, "object", "case");
    json_word(to, "deck", deck_name);
    json_word(to, "commit", build_commit);
    json_number(to, "ranks", s->given->layout.ranks);
    json_word(to, "device", device.name);
    json_word(to, "driver", device.driver);
    json_word(to, "libraries", machine_library(kind, text, sizeof text));
    json_number(to, "threads", machine_threads(kind));
    json_number(to, "multiprocessors", device.multiprocessors);
    json_number(to, "left_multiprocessors", s->left);
    json_number(to, "sustained_seconds", s->seconds);
    json_number(to, "operand_bytes", (double)s->operand_bytes);
    json_number(to, "published_seconds", published_seconds(s->given));
    fprintf(to, "}\n");
}

static void write_integers(FILE *to, const char *name, const int64_t *x, int n)
{
    fprintf(to, ",\"%s\":[", name);
    for (int i = 0; i < n; i++) fprintf(to, "%s%lld", i ? "," : "", (long long)x[i]);
    fprintf(to, "]");
}

static void write_operands(FILE *to, const op *o)
{
    static const char *const accesses[] = { [READ] = "read", [WRITE] = "write", [UPDATE] = "update" };
    const char *comma = "";
    fprintf(to, ",\"operands\":[");
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &o->operand[i];
        if (!tensor_present(&x->tensor)) continue;
        fprintf(to, "%s{\"place\":%d", comma, i);
        json_word(to, "name", op_rules[o->kind].operand[i].name);
        json_word(to, "access", accesses[x->access]);
        json_word(to, "format", dtype_name(x->tensor.type));
        write_integers(to, "dims", x->tensor.dim, x->tensor.dims);
        write_integers(to, "strides", x->tensor.stride, x->tensor.dims);
        fprintf(to, "}");
        comma = ",";
    }
    fprintf(to, "]");
}

static void write_sustained(FILE *to, const char *name, const sustained *t)
{
    fprintf(to, ",\"%s\":{\"with\":\"%s\"", name, name);
    json_number(to, "median", t->median);
    json_number(to, "p10", t->p10);
    json_number(to, "p90", t->p90);
    json_number(to, "clock_hertz_before", t->clock_hertz[0]);
    json_number(to, "clock_hertz_after", t->clock_hertz[1]);
    json_number(to, "power_watts_before", t->power_watts[0]);
    json_number(to, "power_watts_after", t->power_watts[1]);
    fprintf(to, "}");
}

static void write_operation(const slice *s, FILE *to, int i)
{
    const op_note *n = &s->noted.note[i];
    fprintf(to, "{\"operation\":%d", i);
    json_word(to, "object", "operation");
    json_word(to, "name", n->name);
    json_word(to, "kind", op_kind_name(n->op.kind));
    json_number(to, "flops", op_flops(&n->op));
    json_number(to, "bytes", op_bytes(&n->op));
    for (int w = 0; w < CONDITIONS; w++)
        if (isfinite(s->of[i][w].median)) write_sustained(to, conditions[w], &s->of[i][w]);
    write_operands(to, &n->op);
    fprintf(to, "}\n");
}

/* How often a step runs each operation: by phase, and those of them that layers make. */
static void write_times(const sliced_rank *r, FILE *to)
{
    const char *comma = "";
    fprintf(to, ",\"times\":[");
    for (int i = 0; i < r->noted.notes; i++)
        for (int p = 0; r->which[i] >= 0 && p < PHASES; p++) {
            const op_note *n = &r->noted.note[i];
            if (n->times[p] == 0) continue;
            fprintf(to, "%s{\"operation\":%d,\"phase\":\"%s\",\"times\":%lld,\"of_layers\":%lld}", comma, r->which[i],
                    phase_name((phase)p), (long long)n->times[p], (long long)n->of_layers[p]);
            comma = ",";
        }
    fprintf(to, "]");
}

static void write_rank(const slice *s, const sliced_rank *r, FILE *to)
{
    fprintf(to, "{\"rank\":%d,\"stage\":%d,\"layers\":%lld,\"microbatches\":%lld", r->rank, r->stage,
            (long long)r->layers, (long long)s->given->microbatches);
    json_word(to, "object", "rank");
    json_number(to, "flops", r->flops);
    for (int w = 0; w < CONDITIONS; w++) {
        double step = slice_step_seconds(s, r, (condition)w);
        if (isnan(step)) continue;
        fprintf(to, ",\"%s\":{\"with\":\"%s\"", conditions[w], conditions[w]);
        json_number(to, "step_seconds", step);
        json_number(to, "share_of_published", step / published_seconds(s->given));
        for (int p = 0; p < LAYER_PHASES; p++)
            json_number(to, phase_name(layer_phases[p]), slice_layer_seconds(s, r, (condition)w, layer_phases[p]));
        fprintf(to, "}");
    }
    write_times(r, to);
    fprintf(to, "}\n");
}

void slice_write(const slice *s, FILE *json, const char *deck_name)
{
    write_case(s, json, deck_name);
    for (int i = 0; i < s->noted.notes; i++) write_operation(s, json, i);
    for (int i = 0; i < s->ranks; i++) write_rank(s, &s->rank[i], json);
}
