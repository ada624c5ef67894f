/* A slice as a table, and as JSON objects. */
#include "base/build_info.h"
#include "base/say.h"
#include "bench/launch/case_machine.h"
#include "bench/project/listed.h"
#include "bench/record/json.h"
#include "bench/slice/slice.h"
#include "plan/catalogue/catalogue.h"
#include <math.h>

static const char *const conditions[CONDITIONS] = { "all", "left", "resident" };
static const char *const sustained_names[SUSTAINED] = { "median",       "mean",        "p10",          "p90",
                                                        "clock_before", "clock_after", "power_before", "power_after" };
static const phase layer_phases[] = { PHASE_FORWARD, PHASE_RECOMPUTE, PHASE_BACKWARD };
enum { LAYER_PHASES = sizeof layer_phases / sizeof *layer_phases, OPERAND_TEXT = 160 };

/* Returns the published step time of the case's recipe on this device, or NaN. */
static double published_seconds(const bench_case *c)
{
    const recipe_row *row = recipe_origin(c, machine_device_of(case_machine(c).kind).name);
    return row && row->step_seconds > 0.0 ? row->step_seconds : (double)NAN;
}

static double step_seconds(const slice *s, condition with)
{
    double seconds = 0.0;
    for (int i = 0; i < s->work.notes; i++)
        seconds += (double)note_count(&s->work.note[i]) * s->time[i].value[with][MEDIAN];
    return seconds;
}

/* Returns the seconds of a phase of one layer and one microbatch. */
static double layer_seconds(const slice *s, condition with, phase p)
{
    double seconds = 0.0;
    for (int i = 0; i < s->work.notes; i++)
        seconds += (double)s->work.note[i].layer_count[p] * s->time[i].value[with][MEDIAN];
    return seconds / (double)(s->layers * s->given->microbatches);
}

/* Writes "bf16[8192,4096]", or with strides "bf16[8192,4096]/4096,1". Returns text. */
static const char *operand_text(const tensor *t, bool strides, char text[OPERAND_TEXT])
{
    int used = snprintf(text, OPERAND_TEXT, "%s[", dtype_name(t->type));
    for (int k = 0; k < t->dims; k++)
        used += snprintf(text + used, (size_t)(OPERAND_TEXT - used), "%s%lld", k ? "," : "", (long long)t->dim[k]);
    used += snprintf(text + used, (size_t)(OPERAND_TEXT - used), "]");
    for (int k = 0; strides && k < t->dims; k++)
        used += snprintf(text + used, (size_t)(OPERAND_TEXT - used), "%c%lld", k ? ',' : '/', (long long)t->stride[k]);
    return text;
}

static void print_operation(const slice *s, const op_note *n, const sustained *t)
{
    char first[OPERAND_TEXT], second[OPERAND_TEXT] = "";
    const double *all = t->value[WITH_ALL];
    double step = (double)note_count(n) * all[MEDIAN];
    operand_text(&n->op.operand[0].tensor, false, first);
    if (n->op.operands > 1) operand_text(&n->op.operand[1].tensor, false, second);
    say("  %-20.20s %-20s %-22s %-22s %7lld %10.1f %10.1f %10.1f %10.1f %10.1f %10.2f %6.2f %7.1f\n", n->name,
        op_kind_name(n->op.kind), first, second, (long long)note_count(n), 1e6 * all[MEDIAN], 1e6 * all[P10],
        1e6 * all[P90], 1e6 * t->value[WITH_REMAINING][MEDIAN], 1e6 * t->value[WITH_RESIDENT][MEDIAN], 1e3 * step,
        100.0 * step / step_seconds(s, WITH_ALL), 1e-12 * op_flops(&n->op) / all[MEDIAN]);
}

static void print_sums(const slice *s, condition with)
{
    double step = step_seconds(s, with), published = published_seconds(s->given);
    if (isnan(step)) return;
    say("  %-8s  step %.4f s of computing, %.1f TFLOP/s; a layer and microbatch:", conditions[with], step,
        1e-12 * s->flops / step);
    for (int p = 0; p < LAYER_PHASES; p++)
        say(" %s %.3f ms", phase_name(layer_phases[p]), 1e3 * layer_seconds(s, with, layer_phases[p]));
    if (isfinite(published)) say("; %.1f %% of the published step of %g s", 100.0 * step / published, published);
    say("\n");
}

void slice_print(const slice *s)
{
    const bench_case *c = s->given;
    say("slice of case %d: %s, size %s, %s, rank %d of %d on %s: stage %d, %lld layers, %lld microbatches\n", c->number,
        c->model_name, size_name(c->size), precision_name(c->precision), s->rank, c->layout.ranks,
        machine_device_of(case_machine(c).kind).name, s->stage, (long long)s->layers, (long long)c->microbatches);
    say("  microseconds of each operation alone: with all multiprocessors (median, p10, p90), with all but %d (left), "
        "next to a resident block\n  %-20s %-20s %-45s %7s %10s %10s %10s %10s %10s %10s %6s %7s\n",
        s->transfer_sms, "operation", "kind", "first operands", "a step", "median", "p10", "p90", "left", "resident",
        "ms a step", "%", "TFLOP/s");
    for (int i = 0; i < s->work.notes; i++) print_operation(s, &s->work.note[i], &s->time[i]);
    for (condition with = WITH_ALL; with < CONDITIONS; with++) print_sums(s, with);
    say("\n");
}

/* ---- as objects ---- */

static void write_rank(const slice *s, FILE *to, const char *deck_name)
{
    char text[512];
    machine_kind kind = case_machine(s->given).kind;
    machine_device device = machine_device_of(kind);
    json_keys(to, s->given);
    json_word(to, "deck", deck_name);
    json_word(to, "commit", build_commit);
    json_word(to, "device", device.name);
    json_word(to, "driver", device.driver);
    json_word(to, "libraries", machine_library(kind, text, sizeof text));
    fprintf(to, ",\"ranks\":%d,\"rank\":%d,\"stage\":%d,\"threads\":%d", s->given->layout.ranks, s->rank, s->stage,
            machine_threads(kind));
    fprintf(to, ",\"stage_layers\":%lld,\"microbatches\":%lld,\"multiprocessors\":%d,\"left_multiprocessors\":%d",
            (long long)s->layers, (long long)s->given->microbatches, device.multiprocessors, s->transfer_sms);
    json_number(to, "sustained_seconds", s->seconds);
    json_number(to, "published_seconds", published_seconds(s->given));
    json_number(to, "step_flops", s->flops);
    for (condition with = WITH_ALL; with < CONDITIONS; with++) {
        snprintf(text, sizeof text, "%s_step_seconds", conditions[with]);
        json_number(to, text, step_seconds(s, with));
    }
    fprintf(to, "}\n");
}

/* A line of a machine sheet has no characters that JSON would escape. */
static void write_sheet_line(const op_note *n, const sustained *t, FILE *to)
{
    const listed_time x = listed_of(&n->op, t->value[WITH_ALL][MEAN]);
    fprintf(to, ",\"sheet_line\":\"");
    listed_write(to, "op", &x);
    fprintf(to, "\"");
}

static void write_operation(const op_note *n, const sustained *t, FILE *to)
{
    static const char *const accesses[] = { [READ] = "read", [WRITE] = "write", [UPDATE] = "update" };
    char text[OPERAND_TEXT];
    fprintf(to, "{\"operation\":\"%s\",\"kind\":\"%s\"", n->name, op_kind_name(n->op.kind));
    json_number(to, "flops", op_flops(&n->op));
    write_sheet_line(n, t, to);
    for (int p = 0; p < PHASES; p++)
        if (n->count[p])
            fprintf(to, ",\"%s_times\":%lld,\"%s_times_of_layers\":%lld", phase_name((phase)p), (long long)n->count[p],
                    phase_name((phase)p), (long long)n->layer_count[p]);
    for (int i = 0; i < n->op.operands; i++) {
        const operand *x = &n->op.operand[i];
        if (!tensor_present(&x->tensor)) continue;
        fprintf(to, ",\"%s %s\":\"%s\"", accesses[x->access], op_rules[n->op.kind].operand[i].name,
                operand_text(&x->tensor, true, text));
    }
    for (int i = 0; i < CONDITIONS * SUSTAINED; i++) {
        snprintf(text, sizeof text, "%s_%s", conditions[i / SUSTAINED], sustained_names[i % SUSTAINED]);
        json_number(to, text, t->value[i / SUSTAINED][i % SUSTAINED]);
    }
    fprintf(to, "}\n");
}

void slice_write(const slice *s, FILE *json, const char *deck_name)
{
    write_rank(s, json, deck_name);
    for (int i = 0; i < s->work.notes; i++) write_operation(&s->work.note[i], &s->time[i], json);
}
