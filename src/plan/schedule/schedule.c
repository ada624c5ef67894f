/* The action list of a stage, and what follows from it. */
#include "plan/schedule/schedule.h"
#include "base/memory.h"

#define WRITE(constant, write, name) [constant] = write,
static void (*const write_list[])(schedule *s, schedule_place p) = { SCHEDULES(WRITE) };

int64_t schedule_first_deferred(const bench_case *c)
{
    int64_t first = c->layout.degree[AXIS_PIPELINE] > 1 ? c->microbatches - c->head_deferral : c->microbatches;
    return first > 0 ? first : 0;
}

bool schedule_defers(const bench_case *c, int64_t microbatch) { return microbatch >= schedule_first_deferred(c); }

static void add_deferred(schedule *s, const bench_case *c, schedule_place p)
{
    if (p.stage < p.stages - 1) return;
    for (int64_t m = schedule_first_deferred(c); m < p.microbatches; m++)
        schedule_add(s, BACKWARD_WEIGHT, p.chunks - 1, m);
}

schedule schedule_make(const bench_case *c, int stage)
{
    schedule_place p = { c->layout.degree[AXIS_PIPELINE], stage, c->layout.chunks_per_stage, c->microbatches };
    int64_t actions = (2 * p.chunks + 1) * p.microbatches;
    schedule s = { .action = allocate(actions, sizeof *s.action, "a schedule") };
    write_list[c->schedule](&s, p);
    add_deferred(&s, c, p);
    return s;
}

void schedule_free(schedule *s)
{
    free(s->action);
    *s = (schedule){ 0 };
}

/* Counts the most microbatches in flight in a chunk; chunk -1: in all chunks. */
static int64_t most_in_flight(const schedule *s, int chunk)
{
    int64_t in_flight = 0, most = 0;
    for (int64_t i = 0; i < s->length; i++) {
        const schedule_action *a = &s->action[i];
        if (chunk >= 0 && a->chunk != chunk) continue;
        in_flight += (a->verb == FORWARD) - (a->verb == BACKWARD);
        if (in_flight > most) most = in_flight;
    }
    return most;
}

int64_t schedule_live(const schedule *s) { return most_in_flight(s, -1); }
int64_t schedule_live_chunk(const schedule *s, int chunk) { return most_in_flight(s, chunk); }

action_text schedule_action_text(const schedule_action *a)
{
    static const char letter[] = { [FORWARD] = 'F', [BACKWARD] = 'B', [BACKWARD_WEIGHT] = 'W' };
    action_text t;
    snprintf(t.text, sizeof t.text, "%c%d.%lld", letter[a->verb], a->chunk, (long long)a->microbatch);
    return t;
}

void schedule_print(const schedule *s, FILE *out)
{
    for (int64_t i = 0; i < s->length; i++)
        fprintf(out, "%s%s", i ? " " : "", schedule_action_text(&s->action[i]).text);
    fprintf(out, "\n");
}
