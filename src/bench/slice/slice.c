/* Selection of the ranks and operations to time. */
#include "bench/slice/slice.h"
#include "base/memory.h"
#include "base/say.h"
#include "bench/launch/case_machine.h"
#include "bench/slice/alone.h"
#include "plan/catalogue/devices.h"
#include "plan/model/chunks.h"
#include "plan/model/sm_shares.h"
#include "train/measure.h"
#include <math.h>

/* Adds the computing operations of the counted step that read indices, or those that do not. */
static void add_work(slice *s, const preparation *noted, bool indices)
{
    for (int i = 0; i < noted->notes; i++) {
        const op *o = &noted->note[i].op;
        size_t bytes;
        bool reads_indices = false;
        for (int k = 0; k < o->operands; k++) reads_indices |= o->operand[k].tensor.type == I32;
        if (op_is_transfer(o->kind) || reads_indices != indices || !note_count(&noted->note[i])) continue;
        s->work.note[s->work.notes] = noted->note[i];
        s->work.note[s->work.notes++].op = alone_on_paper(o, &bytes);
        if (bytes > s->bytes) s->bytes = bytes;
    }
}

/* Assumes that copy engines move the transfers within an NVLink domain of the device. */
slice slice_open(const bench_case *c, int rank, double seconds)
{
    mesh m;
    const trainer_options o = { .machine = case_machine(c) };
    mesh_open(&m, &c->layout, rank, MESH_PAPER);
    measure paper = measure_case(c, &m, &o);
    int domain = device_domain(machine_device_of(o.machine.kind).name);
    slice s = { .given = c, .rank = rank, .stage = m.at[AXIS_PIPELINE], .seconds = seconds, .passes = 1 };
    s.transfer_sms = sm_shares_of(c, s.stage, copy_engine_kinds(&c->layout, domain)).left_free;
    s.layers = stage_layers(c, s.stage);
    s.flops = tally_flops(&paper.step);
    s.work.note = allocate(paper.prepared.notes, sizeof *s.work.note, "operations of a slice");
    add_work(&s, &paper.prepared, false);
    s.unindexed = s.work.notes;
    add_work(&s, &paper.prepared, true);
    for (int i = 0; i < HAZARD_QUEUES; i++)
        if (paper.prepared.scratch[i] > s.work.scratch[0]) s.work.scratch[0] = paper.prepared.scratch[i];
    s.time = allocate(s.work.notes, sizeof *s.time, "times of operations");
    measure_free(&paper);
    mesh_close(&m);
    return s;
}

void slice_close(slice *s)
{
    preparation_free(&s->work);
    free(s->time);
}

/* Copies times of operations that an earlier rank also has, if that rank leaves as many multiprocessors to transfers.
 * Returns whether operations without times remain; these are NaN. */
static bool copy_known(slice *s, const slice *earlier, int ranks)
{
    bool untimed = false;
    for (int i = 0; i < s->work.notes; i++) {
        for (int k = 0; k < CONDITIONS * SUSTAINED; k++) s->time[i].value[k / SUSTAINED][k % SUSTAINED] = NAN;
        for (int r = 0; r < ranks; r++)
            for (int k = 0; k < earlier[r].work.notes && earlier[r].transfer_sms == s->transfer_sms; k++)
                if (ops_alike(&earlier[r].work.note[k].op, &s->work.note[i].op)) s->time[i] = earlier[r].time[k];
        untimed |= isnan(s->time[i].value[WITH_ALL][MEDIAN]);
    }
    return untimed;
}

static void slice_case(const bench_case *c, const options *o, FILE *json)
{
    static const double usual_seconds = 2.0;
    int stages = c->layout.degree[AXIS_PIPELINE], ranks = o->stages ? stages : 1;
    slice *s = allocate(ranks, sizeof *s, "the slices of a case");
    for (int i = 0; i < ranks; i++) {
        int rank = o->rank > 0 ? (int)o->rank : i * (c->layout.ranks / stages);
        s[i] = slice_open(c, rank, o->sustained > 0.0 ? o->sustained : usual_seconds);
        if (copy_known(&s[i], s, i)) slice_measure(&s[i]);
        slice_print(&s[i]);
        if (json) slice_write(&s[i], json, o->deck);
    }
    for (int i = 0; i < ranks; i++) slice_close(&s[i]);
    free(s);
}

bool slice_deck(const deck *d, const options *o, FILE *json, char *why, size_t length)
{
    for (int64_t i = 0; i < d->cases; i++) {
        const bench_case *c = &d->item[i];
        if (c->skipped[0]) snprintf(why, length, "case %d is skipped: %s", c->number, c->skipped);
        else if (o->rank >= c->layout.ranks)
            snprintf(why, length, "--rank %lld: case %d has ranks 0 to %d", (long long)o->rank, c->number,
                     c->layout.ranks - 1);
        else continue;
        return false;
    }
    bool enabled = say_enabled();
    say_enable(enabled && json != stdout);
    for (int64_t i = 0; i < d->cases; i += d->item[i].repeats) slice_case(&d->item[i], o, json);
    say_enable(enabled);
    return true;
}
