/* Schedules: warm-up forwards, then one forward and one backward in turn, then the backwards left.
 * What tells the schedules apart is the length of the warm-up: one row of the table each. */
#include "plan/schedule.h"
#include "base/fail.h"
#include <stdlib.h>

typedef struct {
    int64_t stages, stage, chunks, microbatches;
} position;

static int64_t gpipe_warmup(position p) { return p.microbatches; }

/* Narayanan et al. 2019, PipeDream-flush. */
static int64_t one_forward_one_backward_warmup(position p) { return p.stages - p.stage - 1; }

/* Narayanan et al. 2021, section 2.2. */
static int64_t interleaved_warmup(position p) { return 2 * (p.stages - p.stage - 1) + (p.chunks - 1) * p.stages; }

static int64_t (*const warmups[])(position) = {
    [SCHEDULE_GPIPE] = gpipe_warmup,
    [SCHEDULE_1F1B] = one_forward_one_backward_warmup,
    [SCHEDULE_INTERLEAVED] = interleaved_warmup,
};

/* The k-th forward or backward of a stage: a chunk takes as many microbatches as there are stages, then the next. */
static schedule_action turn(position p, schedule_verb verb, int64_t k)
{
    int64_t chunk = k / p.stages % p.chunks;
    return (schedule_action){ .verb = verb,
                              .chunk = (int)(verb == FORWARD ? chunk : p.chunks - 1 - chunk),
                              .microbatch = k / (p.stages * p.chunks) * p.stages + k % p.stages };
}

static void weave(schedule *s, position p, int64_t warmup)
{
    int64_t forwards = 0, backwards = 0, turns = s->length / 2;
    while (backwards < turns) {
        bool forward = forwards < turns && forwards - backwards <= warmup;
        schedule_action next = forward ? turn(p, FORWARD, forwards++) : turn(p, BACKWARD, backwards++);
        s->action[forwards + backwards - 1] = next;
    }
}

schedule schedule_make(const bench_case *c, int stage)
{
    position p = { c->layout.degree[AXIS_PIPELINE], stage, c->layout.chunks_per_stage, c->microbatches };
    schedule s = { .length = 2 * p.microbatches * p.chunks };
    s.action = malloc((size_t)s.length * sizeof *s.action);
    if (!s.action) FAIL("no memory for a schedule of %lld actions", (long long)s.length);
    weave(&s, p, warmups[c->schedule](p));
    return s;
}

void schedule_free(schedule *s)
{
    free(s->action);
    *s = (schedule){ 0 };
}

int64_t schedule_live(const schedule *s)
{
    int64_t live = 0, most = 0;
    for (int64_t i = 0; i < s->length; i++) {
        live += s->action[i].verb == FORWARD ? 1 : -1;
        if (live > most) most = live;
    }
    return most;
}

bool schedule_last_backward(const schedule *s, int64_t index)
{
    const schedule_action *a = &s->action[index];
    if (a->verb != BACKWARD) return false;
    for (int64_t i = index + 1; i < s->length; i++)
        if (s->action[i].verb == BACKWARD && s->action[i].chunk == a->chunk) return false;
    return true;
}

void schedule_print(const schedule *s, FILE *out)
{
    for (int64_t i = 0; i < s->length; i++)
        fprintf(out, "%s%c%d.%lld", i ? " " : "", s->action[i].verb == FORWARD ? 'F' : 'B', s->action[i].chunk,
                (long long)s->action[i].microbatch);
    fprintf(out, "\n");
}
