/* The simulator. Each stage advances as far as its links allow, until none can. The order in which stages are visited
 * does not matter, because the start of an action depends only on earlier actions. */
#include "plan/schedule/schedule_simulate.h"
#include "base/memory.h"
#include <string.h>

const schedule_costs schedule_unit_costs = { { [FORWARD] = 1, [BACKWARD] = 2 } };

/* Progress of a link: numbers of transfers, and the time of each. */
typedef struct {
    int64_t sent, posted, done, consumed;
    int64_t *sent_at, *posted_at, *done_at; /* [microbatches x chunks] */
} link_state;

typedef struct {
    const bench_case *given;
    const schedule *list;
    const schedule_costs *costs;
    schedule_timing *timing;
    link_state *link;        /* [2 stages] */
    int64_t *next, *free_at; /* [stages]: next action; end of the previous action */
} simulation;

static void *zeros(int64_t count, size_t size) { return allocate(count, size, "simulating a schedule"); }

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Completes transfers in order. A transfer completes when both ends are ready and the previous one is complete. */
static void complete_transfers(link_state *l)
{
    for (; l->done < l->sent && l->done < l->posted; l->done++) {
        int64_t ready = later(l->sent_at[l->done], l->posted_at[l->done]);
        l->done_at[l->done] = l->done ? later(ready, l->done_at[l->done - 1]) : ready;
    }
}

static void post_receive(simulation *s, int stage, int64_t index, int64_t time)
{
    if (index >= s->list[stage].length) return;
    int link = link_in(s->given, stage, &s->list[stage].action[index]);
    if (link == NO_LINK) return;
    link_state *l = &s->link[link];
    l->posted_at[l->posted++] = time;
    complete_transfers(l);
}

static bool has_input(const simulation *s, int in) { return in == NO_LINK || s->link[in].consumed < s->link[in].done; }
static bool has_buffer(const simulation *s, int out)
{
    return out == NO_LINK || s->link[out].done == s->link[out].sent;
}

static bool advance(simulation *s, int stage)
{
    if (s->next[stage] == s->list[stage].length) return false;
    const schedule_action *a = &s->list[stage].action[s->next[stage]];
    int in = link_in(s->given, stage, a), out = link_out(s->given, stage, a);
    if (!has_input(s, in) || !has_buffer(s, out)) return false;
    int64_t start = s->free_at[stage];
    if (in != NO_LINK) start = later(start, s->link[in].done_at[s->link[in].consumed++]);
    if (out != NO_LINK && s->link[out].sent) start = later(start, s->link[out].done_at[s->link[out].sent - 1]);
    schedule_span span = { start, start + s->costs->cost[a->verb] };
    s->timing->span[stage][s->next[stage]++] = span;
    s->timing->busy[stage] += span.end - span.start;
    s->timing->makespan = later(s->timing->makespan, s->free_at[stage] = span.end);
    if (out != NO_LINK) s->link[out].sent_at[s->link[out].sent++] = span.end;
    if (out != NO_LINK) complete_transfers(&s->link[out]);
    post_receive(s, stage, s->next[stage] + 1, span.end);
    return true;
}

static void run(simulation *s)
{
    for (int stage = 0; stage < s->timing->stages; stage++) {
        post_receive(s, stage, 0, 0);
        post_receive(s, stage, 1, 0);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int stage = 0; stage < s->timing->stages; stage++)
            while (advance(s, stage)) moved = true;
    }
}

static void describe_wait(const simulation *s, int stage, char *text, size_t size)
{
    const schedule_action *a = &s->list[stage].action[s->next[stage]];
    int out = link_out(s->given, stage, a), other = stage;
    if (!has_input(s, link_in(s->given, stage, a))) {
        schedule_action before = neighbour_action(s->given, &other, a, -1);
        snprintf(text, size, "stage %d at %s waits for stage %d's %s", stage, schedule_action_text(a).text, other,
                 schedule_action_text(&before).text);
    } else
        snprintf(text, size, "stage %d at %s waits for stage %d to receive what it sent before", stage,
                 schedule_action_text(a).text, out % s->timing->stages);
}

static void describe_deadlock(const simulation *s, char mistake[MISTAKE_LENGTH])
{
    size_t used = 0;
    for (int stage = 0; stage < s->timing->stages && used < MISTAKE_LENGTH; stage++) {
        if (s->next[stage] == s->list[stage].length) continue;
        char text[128];
        describe_wait(s, stage, text, sizeof text);
        used += (size_t)snprintf(mistake + used, MISTAKE_LENGTH - used, "%s%s", used ? "; " : "stuck: ", text);
    }
}

static void simulation_open(simulation *s)
{
    schedule_timing *t = s->timing;
    int64_t transfers = s->given->microbatches * t->chunks;
    t->busy = zeros(t->stages, sizeof *t->busy);
    t->span = zeros(t->stages, sizeof *t->span);
    for (int i = 0; i < t->stages; i++) t->span[i] = zeros(s->list[i].length, sizeof **t->span);
    s->next = zeros(t->stages, sizeof *s->next);
    s->free_at = zeros(t->stages, sizeof *s->free_at);
    s->link = zeros(2 * t->stages, sizeof *s->link);
    for (int i = 0; i < 2 * t->stages; i++) {
        link_state *l = &s->link[i];
        l->sent_at = zeros(3 * transfers, sizeof *l->sent_at);
        l->posted_at = l->sent_at + transfers;
        l->done_at = l->posted_at + transfers;
    }
}

static void simulation_close(simulation *s)
{
    for (int i = 0; i < 2 * s->timing->stages; i++) free(s->link[i].sent_at);
    free(s->link);
    free(s->next);
    free(s->free_at);
}

schedule_timing schedule_simulate(const bench_case *c, const schedule *list, const schedule_costs *costs)
{
    schedule_timing t = { .stages = c->layout.degree[AXIS_PIPELINE], .chunks = c->layout.chunks_per_stage };
    if (!schedule_validate(c, list, t.mistake)) return t;
    simulation s = { .given = c, .list = list, .costs = costs, .timing = &t };
    simulation_open(&s);
    run(&s);
    describe_deadlock(&s, t.mistake);
    simulation_close(&s);
    return t;
}

void schedule_timing_free(schedule_timing *t)
{
    for (int i = 0; i < t->stages && t->span; i++) free(t->span[i]);
    free(t->span);
    free(t->busy);
    *t = (schedule_timing){ 0 };
}
