/* Validation of lists: first of each stage's list alone, then of each link. */
#include "base/memory.h"
#include "plan/schedule/schedule_simulate.h"
#include <stdarg.h>

typedef struct {
    const bench_case *given;
    int stage;
    int64_t *next; /* [3][chunks]: next microbatch of each verb and chunk */
    char *mistake;
} inspection;

__attribute__((format(printf, 2, 3))) static bool refuse(char *mistake, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(mistake, MISTAKE_LENGTH, format, arguments);
    va_end(arguments);
    return false;
}

static int64_t *next(const inspection *x, schedule_verb verb, int chunk)
{
    return &x->next[(int)verb * x->given->layout.chunks_per_stage + chunk];
}

static bool holds_head(const inspection *x, int chunk)
{
    const mesh_layout *l = &x->given->layout;
    return x->stage == l->degree[AXIS_PIPELINE] - 1 && chunk == l->chunks_per_stage - 1;
}

static bool inspect_name(const inspection *x, const schedule_action *a)
{
    const bench_case *c = x->given;
    action_text name = schedule_action_text(a);
    if (a->chunk < 0 || a->chunk >= c->layout.chunks_per_stage || a->microbatch < 0 || a->microbatch >= c->microbatches)
        return refuse(x->mistake, "stage %d: there is no %s among %d chunks and %lld microbatches", x->stage, name.text,
                      c->layout.chunks_per_stage, (long long)c->microbatches);
    if (a->verb == BACKWARD_WEIGHT && (!holds_head(x, a->chunk) || !schedule_defers(c, a->microbatch)))
        return refuse(x->mistake, "stage %d: %s was not deferred", x->stage, name.text);
    return true;
}

static bool inspect_order(const inspection *x, const schedule_action *a)
{
    action_text name = schedule_action_text(a);
    int64_t expected = *next(x, a->verb, a->chunk);
    if (a->microbatch < expected) return refuse(x->mistake, "stage %d: %s comes twice", x->stage, name.text);
    if (a->microbatch > expected)
        return refuse(x->mistake, "stage %d: %s comes before microbatch %lld of its chunk", x->stage, name.text,
                      (long long)expected);
    if (a->verb == BACKWARD && a->microbatch >= *next(x, FORWARD, a->chunk))
        return refuse(x->mistake, "stage %d: %s comes before its forward", x->stage, name.text);
    if (a->verb == BACKWARD_WEIGHT && a->microbatch >= *next(x, BACKWARD, a->chunk))
        return refuse(x->mistake, "stage %d: %s comes before its backward", x->stage, name.text);
    return true;
}

static int64_t first_deferred(const inspection *x, int chunk)
{
    return holds_head(x, chunk) ? schedule_first_deferred(x->given) : x->given->microbatches;
}

static bool inspect_stage(const inspection *x, const schedule *s)
{
    int chunks = x->given->layout.chunks_per_stage;
    for (int chunk = 0; chunk < chunks; chunk++) *next(x, BACKWARD_WEIGHT, chunk) = first_deferred(x, chunk);
    for (int64_t n = 0; n < s->length; n++) {
        const schedule_action *a = &s->action[n];
        if (!inspect_name(x, a) || !inspect_order(x, a)) return false;
        ++*next(x, a->verb, a->chunk);
    }
    for (int n = 0; n < 3 * chunks; n++) {
        schedule_action missing = { (schedule_verb)(n / chunks), n % chunks, x->next[n] };
        if (missing.microbatch < x->given->microbatches)
            return refuse(x->mistake, "stage %d: %s is missing", x->stage, schedule_action_text(&missing).text);
    }
    return true;
}

static bool inspect_stages(const bench_case *c, const schedule *list, char *mistake)
{
    int chunks = c->layout.chunks_per_stage;
    bool valid = true;
    for (int stage = 0; stage < c->layout.degree[AXIS_PIPELINE] && valid; stage++) {
        inspection x = { c, stage, allocate(3 * chunks, sizeof *x.next, "validating a schedule"), mistake };
        valid = inspect_stage(&x, &list[stage]);
        free(x.next);
    }
    return valid;
}

typedef int link_side(const bench_case *c, int stage, const schedule_action *a);

/* Returns the next action, from *at on, that uses this link on that side; NULL after the last. */
static const schedule_action *next_on(const bench_case *c, const schedule *s, int stage, link_side *side, int link,
                                      int64_t *at)
{
    while (*at < s->length && side(c, stage, &s->action[*at]) != link) ++*at;
    return *at < s->length ? &s->action[(*at)++] : NULL;
}

/* Compares each send with its receive. Every send has one, because every list is complete. */
static bool inspect_link(const bench_case *c, const schedule *list, int link, char *mistake)
{
    int stages = c->layout.degree[AXIS_PIPELINE], to = link % stages,
        from = (to + (link < stages ? stages - 1 : 1)) % stages;
    int64_t sends = 0, receives = 0;
    const schedule_action *sent;
    while ((sent = next_on(c, &list[from], from, link_out, link, &sends))) {
        const schedule_action *expected = next_on(c, &list[to], to, link_in, link, &receives);
        int stage = from;
        schedule_action delivered = neighbour_action(c, &stage, sent, 1);
        if (expected->chunk != delivered.chunk || expected->microbatch != delivered.microbatch)
            return refuse(mistake, "stage %d sends the input of stage %d's %s where that one expects the input of %s",
                          from, to, schedule_action_text(&delivered).text, schedule_action_text(expected).text);
    }
    return true;
}

bool schedule_validate(const bench_case *c, const schedule *list, char mistake[MISTAKE_LENGTH])
{
    mistake[0] = '\0';
    bool valid = inspect_stages(c, list, mistake);
    for (int link = 0; valid && link < 2 * c->layout.degree[AXIS_PIPELINE]; link++)
        valid = inspect_link(c, list, link, mistake);
    return valid;
}
