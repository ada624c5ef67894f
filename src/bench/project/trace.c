/* Chrome traces. */
#include "bench/project/trace.h"
#include "bench/facts/sink.h"
#include "bench/record/json.h"

enum { PROCESSES_OF_A_CASE = 1000 };

static int process(int number, int at) { return number * PROCESSES_OF_A_CASE + at; }

/* The first event is empty, so that every other event can begin with a comma. */
void trace_begin(FILE *to)
{
    if (to) fprintf(to, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[{}");
}

void trace_process(FILE *to, int number, const char *what, int at)
{
    if (to)
        fprintf(to, ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"case %d, %s %d\"}}",
                process(number, at), number, what, at);
}

static void write_span(FILE *to, int process, const span *s)
{
    fprintf(to,
            ",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,"
            "\"args\":{\"microbatch\":%d,\"layer\":%d,\"phase\":\"%s\",\"axis\":\"%s\"}}",
            s->origin.name ? s->origin.name : "", op_kind_name(s->kind), 1e6 * s->begin, 1e6 * (s->end - s->begin),
            process, s->queue, (int)s->origin.microbatch, s->origin.layer, phase_name(s->origin.phase),
            s->axis ? s->axis : "");
}

void trace_operation(FILE *to, int number, const preparation *work, const timeline_event *e)
{
    const submitted *s = e->what;
    const work_item *x = &work->order->item[s->item];
    if (!to || x->note < 0) return;
    span ran = { .kind = work->note[x->note].op.kind,
                 .queue = s->queue,
                 .origin = { s->step, s->microbatch, s->chunk, s->layer, x->phase, x->name },
                 .begin = e->begin,
                 .end = e->end,
                 .axis = x->group >= 0 ? work->order->group[x->group].axis : NULL };
    write_span(to, process(number, e->rank), &ran);
}

void trace_end(FILE *to)
{
    if (to) fprintf(to, "]}\n");
}

/* ---- the trace of a run ---- */

static bool open_trace(void **state, const run_source *run, char *reason, size_t length)
{
    if (!run->timeline) return true;
    *state = json_open_in_run(run->timeline, run, reason, length);
    trace_begin(*state);
    return *state;
}

static void write_spans(void *state, const case_result *r)
{
    if (!state || !r->seen.span_count) return;
    trace_process(state, r->given->number, "rank", 0);
    for (int64_t i = 0; i < r->seen.span_count; i++) write_span(state, process(r->given->number, 0), &r->seen.spans[i]);
}

static void close_trace(void *state, const run_source *run, const final_counts *n)
{
    (void)run, (void)n;
    trace_end(state);
    json_close(state);
}

const sink timeline_sink = { .name = "--timeline", .open = open_trace, .end = write_spans, .close = close_trace };
