/* What can be read off the list of a stage. */
#include "plan/schedule/schedule.h"
#include <stdlib.h>

void schedule_add(schedule *s, schedule_verb verb, int64_t chunk, int64_t microbatch)
{
    s->action[s->length++] = (schedule_action){ verb, (int)chunk, microbatch };
}

void schedule_free(schedule *s)
{
    free(s->action);
    *s = (schedule){ 0 };
}

/* chunk -1: all. */
static int64_t live(const schedule *s, int chunk)
{
    int64_t now = 0, most = 0;
    for (int64_t i = 0; i < s->length; i++) {
        const schedule_action *a = &s->action[i];
        if (chunk >= 0 && a->chunk != chunk) continue;
        now += (a->verb == FORWARD) - (a->verb == BACKWARD);
        if (now > most) most = now;
    }
    return most;
}

int64_t schedule_live(const schedule *s) { return live(s, -1); }
int64_t schedule_live_chunk(const schedule *s, int chunk) { return live(s, chunk); }

bool schedule_last_backward(const schedule *s, int64_t index)
{
    const schedule_action *a = &s->action[index];
    if (a->verb != BACKWARD) return false;
    for (int64_t i = index + 1; i < s->length; i++)
        if (s->action[i].verb == BACKWARD && s->action[i].chunk == a->chunk) return false;
    return true;
}

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
