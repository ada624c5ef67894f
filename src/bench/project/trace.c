/* Chrome traces. */
#include "bench/project/trace.h"

enum { STAGES_OF_A_CASE = 1000 };

static int process(int number, int stage) { return number * STAGES_OF_A_CASE + stage; }

/* The last event has no comma, so each begins with one and the first is empty. */
void trace_begin(FILE *to)
{
    if (to) fprintf(to, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[{}");
}

void trace_stage(FILE *to, int number, int stage)
{
    if (to)
        fprintf(to, ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"case %d, stage %d\"}}",
                process(number, stage), number, stage);
}

void trace_operation(FILE *to, int number, const preparation *work, const timeline_event *e)
{
    const submitted *s = e->what;
    const work_item *x = &work->order->item[s->item];
    if (!to || x->note < 0) return;
    fprintf(to,
            ",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,"
            "\"args\":{\"microbatch\":%d,\"layer\":%d,\"phase\":\"%s\"}}",
            x->name, op_kind_name(work->note[x->note].op.kind), 1e6 * e->begin, 1e6 * (e->end - e->begin),
            process(number, e->rank), s->queue, s->microbatch, s->layer, phase_name(x->phase));
}

void trace_end(FILE *to)
{
    if (to) fprintf(to, "]}\n");
}
