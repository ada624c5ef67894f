/* Check that the lists form a training step: first each stage's list alone, then each link, which must carry what is
 * expected. */
#include "base/memory.h"
#include "plan/schedule/schedule_simulate.h"
#include <stdarg.h>

typedef struct {
    const bench_case *given;
    int stage;
    int64_t *next; /* [3][chunks]: next microbatch by verb and chunk; at the end `microbatches` */
    char *mistake;
} inspection;

__attribute__((format(printf, 2, 3))) static bool wrong(char *mistake, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(mistake, MISTAKE_LENGTH, format, arguments);
    va_end(arguments);
    return false;
}

static int64_t *next(const inspection *i, schedule_verb verb, int chunk)
{
    return &i->next[(int)verb * i->given->layout.chunks_per_stage + chunk];
}

static bool holds_head(const inspection *i, int chunk)
{
    const mesh_layout *l = &i->given->layout;
    return i->stage == l->degree[AXIS_PIPELINE] - 1 && chunk == l->chunks_per_stage - 1;
}

static bool inspect_name(const inspection *i, const schedule_action *a)
{
    const bench_case *c = i->given;
    action_text name = schedule_action_text(a);
    if (a->chunk < 0 || a->chunk >= c->layout.chunks_per_stage || a->microbatch < 0 || a->microbatch >= c->microbatches)
        return wrong(i->mistake, "stage %d: there is no %s among %d chunks and %lld microbatches", i->stage, name.text,
                     c->layout.chunks_per_stage, (long long)c->microbatches);
    if (a->verb == BACKWARD_WEIGHT && (!holds_head(i, a->chunk) || !schedule_defers(c, a->microbatch)))
        return wrong(i->mistake, "stage %d: %s was not deferred", i->stage, name.text);
    return true;
}

static bool inspect_order(const inspection *i, const schedule_action *a)
{
    action_text name = schedule_action_text(a);
    int64_t turn = *next(i, a->verb, a->chunk);
    if (a->microbatch < turn) return wrong(i->mistake, "stage %d: %s comes twice", i->stage, name.text);
    if (a->microbatch > turn)
        return wrong(i->mistake, "stage %d: %s comes before microbatch %lld of its chunk", i->stage, name.text,
                     (long long)turn);
    if (a->verb == BACKWARD && a->microbatch >= *next(i, FORWARD, a->chunk))
        return wrong(i->mistake, "stage %d: %s comes before its forward", i->stage, name.text);
    if (a->verb == BACKWARD_WEIGHT && a->microbatch >= *next(i, BACKWARD, a->chunk))
        return wrong(i->mistake, "stage %d: %s comes before its backward", i->stage, name.text);
    return true;
}

/* Returns the first deferred microbatch; `microbatches` if there is none. */
static int64_t first_deferred(const inspection *i, int chunk)
{
    return holds_head(i, chunk) ? schedule_first_deferred(i->given) : i->given->microbatches;
}

static bool inspect_stage(const inspection *i, const schedule *s)
{
    int chunks = i->given->layout.chunks_per_stage;
    for (int chunk = 0; chunk < chunks; chunk++) *next(i, BACKWARD_WEIGHT, chunk) = first_deferred(i, chunk);
    for (int64_t n = 0; n < s->length; n++) {
        const schedule_action *a = &s->action[n];
        if (!inspect_name(i, a) || !inspect_order(i, a)) return false;
        ++*next(i, a->verb, a->chunk);
    }
    for (int n = 0; n < 3 * chunks; n++) {
        schedule_action missing = { (schedule_verb)(n / chunks), n % chunks, i->next[n] };
        if (missing.microbatch < i->given->microbatches)
            return wrong(i->mistake, "stage %d: %s is missing", i->stage, schedule_action_text(&missing).text);
    }
    return true;
}

static bool inspect_stages(const bench_case *c, const schedule *list, char *mistake)
{
    int chunks = c->layout.chunks_per_stage;
    bool right = true;
    for (int stage = 0; stage < c->layout.degree[AXIS_PIPELINE] && right; stage++) {
        inspection i = { c, stage, allocate(3 * chunks, sizeof *i.next, "validating a schedule"), mistake };
        right = inspect_stage(&i, &list[stage]);
        free(i.next);
    }
    return right;
}

typedef int link_side(const bench_case *c, int stage, const schedule_action *a);

/* Returns the next action, from *at on, that uses this link on that side; NULL after the last. */
static const schedule_action *next_on(const bench_case *c, const schedule *s, int stage, link_side *side, int link,
                                      int64_t *at)
{
    while (*at < s->length && side(c, stage, &s->action[*at]) != link) ++*at;
    return *at < s->length ? &s->action[(*at)++] : NULL;
}

/* Compares what is sent with what is expected. Each send has a receive, because every list is complete. */
static bool inspect_link(const bench_case *c, const schedule *list, int link, char *mistake)
{
    int stages = c->layout.degree[AXIS_PIPELINE], to = link % stages,
        from = (to + (link < stages ? stages - 1 : 1)) % stages;
    int64_t sends = 0, receives = 0;
    const schedule_action *sent;
    while ((sent = next_on(c, &list[from], from, link_out, link, &sends))) {
        const schedule_action *wanted = next_on(c, &list[to], to, link_in, link, &receives);
        int stage = from;
        schedule_action brought = action_beside(c, &stage, sent, 1);
        if (wanted->chunk != brought.chunk || wanted->microbatch != brought.microbatch)
            return wrong(mistake, "stage %d sends the input of stage %d's %s where that one expects the input of %s",
                         from, to, schedule_action_text(&brought).text, schedule_action_text(wanted).text);
    }
    return true;
}

bool schedule_validate(const bench_case *c, const schedule *list, char mistake[MISTAKE_LENGTH])
{
    mistake[0] = '\0';
    bool right = inspect_stages(c, list, mistake);
    for (int link = 0; right && link < 2 * c->layout.degree[AXIS_PIPELINE]; link++)
        right = inspect_link(c, list, link, mistake);
    return right;
}
