/* A rank waits for an operation of a group; those of the group that have not entered it keep it waiting. */
#include "machine/watch/verdict.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 16, LINE = 640, SHOWN = 8 };

/* ---- who ---- */

static const rank_state *state_of_rank(const rank_state *s, int count, int rank)
{
    for (int k = 0; k < count; k++) /* mostly in the order of ranks */
        if (s[(rank + k) % count].rank == rank) return &s[(rank + k) % count];
    return NULL;
}

static uint64_t entered(const rank_state *s, uint64_t key)
{
    for (int i = 0; i < RANK_GROUPS; i++)
        if (s->entered[i].key == key) return s->entered[i].order;
    return 0;
}

static bool has_entered(const rank_state *s, const watch_event *e)
{
    return s->presence != RANK_ABSENT && entered(s, e->group.key) >= e->order;
}

/* Who has entered it and waits for nobody is stuck in its part. */
static bool holds(const rank_state *s, const watch_event *e)
{
    return !has_entered(s, e) || (!s->waits && s->presence == RANK_HERE);
}

static bool is_busy(const rank_state *s) { return s->presence == RANK_HERE && !s->waits; }

/* Of those that keep state i waiting: one that waits for nobody, else the first. -1: none does. */
static int awaited_by(const rank_state *s, int count, int i)
{
    int found = -1;
    const watch_event *e = &s[i].waiting;
    if (!s[i].waits || !e->group.key) return -1;
    for (int m = 0; m < e->group.size; m++) {
        const rank_state *other = state_of_rank(s, count, watch_member(&e->group, m));
        if (!other || other == &s[i] || !holds(other, e)) continue;
        if (found < 0 || s[found].waits) found = (int)(other - s);
    }
    return found;
}

static bool is_dead(const rank_state *s) { return s->presence == RANK_HERE && s->process == 'X'; }
static bool is_stopped(const rank_state *s) { return s->presence == RANK_HERE && strchr("Tt", s->process); }
static bool is_absent(const rank_state *s) { return s->presence == RANK_ABSENT; }
static bool is_unheard(const rank_state *s) { return s->presence == RANK_HERE && s->process == 'L'; }

static int waiter_for(const rank_state *s, int count, int who)
{
    int any = -1;
    for (int i = 0; i < count; i++) {
        if (i == who || !s[i].waits) continue;
        if (awaited_by(s, count, i) == who) return i;
        any = any < 0 ? i : any;
    }
    return any;
}

static int first_that(const rank_state *s, int count, bool (*is)(const rank_state *s))
{
    for (int i = 0; i < count; i++)
        if (is(&s[i])) return i;
    return -1;
}

/* Every rank that waits blames one. Who is blamed and waits for nobody is it; of those that wait for each other the one
 * most often blamed, and of these the one that completed most: it left something out and went on. */
static int most_blamed(const rank_state *s, int count)
{
    int *votes = calloc((size_t)count, sizeof *votes), best = -1;
    for (int i = 0; votes && i < count; i++) {
        int who = awaited_by(s, count, i);
        if (who >= 0) votes[who]++;
    }
    for (int i = 0; votes && i < count; i++) {
        if (votes[i] == 0) continue;
        bool better = best < 0 || s[i].waits < s[best].waits;
        bool equal = best >= 0 && s[i].waits == s[best].waits;
        better = better ||
                 (equal && (votes[i] > votes[best] || (votes[i] == votes[best] && s[i].heartbeat > s[best].heartbeat)));
        if (better) best = i;
    }
    free(votes);
    return best;
}

/* Have all others of its group gone on to the next operation? */
static bool is_left_behind(const rank_state *s, int count, int i)
{
    const watch_event *e = &s[i].waiting;
    for (int m = 0; m < e->group.size; m++) {
        const rank_state *other = state_of_rank(s, count, watch_member(&e->group, m));
        if (other && other != &s[i] && entered(other, e->group.key) <= e->order) return false;
    }
    return e->group.key != 0;
}

/* Who waits for an operation that all have entered keeps others waiting, but is not behind. */
static verdict_culprit follow(const rank_state *s, int count, int who)
{
    int from = waiter_for(s, count, who), at = who;
    for (int hop = 0; hop < count && s[at].waits; hop++) {
        int next = awaited_by(s, count, at);
        if (next < 0 && is_left_behind(s, count, at)) break;
        if (next < 0) return (verdict_culprit){ CAUSE_UNDELIVERED, at, at };
        at = next;
    }
    return (verdict_culprit){ CAUSE_BEHIND, who, from };
}

static int longest_waiting(const rank_state *s, int count)
{
    int found = -1;
    for (int i = 0; i < count; i++)
        if (s[i].waits && (found < 0 || s[i].waiting.since < s[found].waiting.since)) found = i;
    return found;
}

verdict_culprit verdict_find(const rank_state *s, int count)
{
    static bool (*const is[])(const rank_state *s) = { is_dead, is_stopped, is_absent, is_unheard };
    for (int i = 0; i < 4; i++) {
        int who = first_that(s, count, is[i]);
        if (who >= 0) return (verdict_culprit){ (cause)i, who, waiter_for(s, count, who) };
    }
    int who = most_blamed(s, count);
    if (who >= 0) return follow(s, count, who);
    who = first_that(s, count, is_busy);
    if (who >= 0) return (verdict_culprit){ CAUSE_BEHIND, who, waiter_for(s, count, who) };
    who = longest_waiting(s, count);
    return (verdict_culprit){ CAUSE_UNDELIVERED, who < 0 ? 0 : who, who };
}

/* ---- in words ---- */

typedef struct {
    char *text;
    size_t length, used;
} words;

static void add(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(words *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(w->text + w->used, w->length - w->used, format, arguments);
    va_end(arguments);
    w->used += n > 0 ? (size_t)n : 0;
    if (w->used >= w->length) w->used = w->length - 1;
}

static void add_origin(words *w, const watch_event *e)
{
    if (e->step < 0 && e->microbatch < 0 && e->layer < 0 && !e->phase[0]) return;
    add(w, " (");
    if (e->step >= 0) add(w, "step %" PRId64 ", ", e->step);
    if (e->microbatch >= 0) add(w, "microbatch %d, ", (int)e->microbatch);
    if (e->layer >= 0) add(w, "layer %d, ", (int)e->layer);
    add(w, "%s)", e->phase);
}

static void add_group(words *w, const watch_event *e)
{
    const watch_group *g = &e->group;
    if (!g->key) return;
    add(w, ", number %" PRIu64 " of %s [", (uint64_t)e->number, e->axis);
    for (int i = 0; i < g->size; i++) {
        if (g->size > SHOWN && i == SHOWN / 2) add(w, " ...");
        if (g->size > SHOWN && i >= SHOWN / 2 && i < g->size - 1) continue;
        add(w, "%s%d", i ? " " : "", watch_member(g, i));
    }
    add(w, "]");
}

static void add_event(words *w, const watch_event *e)
{
    add(w, "%s%s%s", e->kind, e->name[0] ? " " : "", e->name);
    add_origin(w, e);
    add_group(w, e);
    if (e->elements > 0) add(w, ", %s x %" PRId64, e->type, e->elements);
}

static void add_doing(words *w, const rank_state *s)
{
    if (s->doing.kind[0] && s->doing.number > 0) add(w, "%s %" PRId64, s->doing.kind, s->doing.number - 1);
    else add(w, "%s", s->doing.kind[0] ? s->doing.kind : "starting");
}

static void add_completed(words *w, const rank_state *s, double now)
{
    if (!s->completed.kind[0]) return;
    add(w, "; completed %s%s%s", s->completed.kind, s->completed.name[0] ? " " : "", s->completed.name);
    add_origin(w, &s->completed);
    if (s->completed.number) add(w, ", number %" PRId64 " of %s,", s->completed.number, s->completed.axis);
    add(w, " %.1f s ago", now - s->completed.since);
}

static const char *state_words(const rank_state *s)
{
    if (is_dead(s)) return "is gone";
    if (is_stopped(s)) return "is stopped";
    if (is_unheard(s)) return "is not heard of";
    if (is_absent(s)) return "has not started";
    if (s->process == 'D') return "waits for a disk or a driver";
    return s->waits ? "waits for " : "waits for no other rank";
}

static void add_state(words *w, const rank_state *s)
{
    add(w, "%s", state_words(s));
    if (!s->waits || is_absent(s)) return;
    if (strcmp(state_words(s), "waits for ") != 0) add(w, ", in ");
    add_event(w, &s->waiting);
}

/* Ages left out, so that ranks that do the same say the same. */
static void describe(const rank_state *s, char line[LINE])
{
    words w = { line, LINE, 0 };
    line[0] = 0;
    add_doing(&w, s);
    add(&w, ": ");
    add_state(&w, s);
}

typedef char text_line[LINE];

static void add_ranks(words *w, const rank_state *s, int count, const text_line *line, int first)
{
    int alike = 0;
    for (int i = first; i < count; i++) {
        if (strcmp(line[first], line[i]) != 0) continue;
        if (alike < SHOWN) add(w, "%s%d", alike ? " " : "", s[i].rank);
        alike++;
    }
    if (alike > SHOWN) add(w, " ... (%d ranks)", alike);
}

static bool said_before(const text_line *line, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(line[i], line[k]) == 0) return true;
    return false;
}

static void add_table(words *w, const rank_state *s, int count, double now)
{
    text_line *line = malloc((size_t)count * sizeof *line);
    int lines = 0;
    for (int i = 0; line && i < count; i++) describe(&s[i], line[i]);
    for (int i = 0; line && i < count && lines <= LINES; i++) {
        if (said_before(line, i)) continue;
        if (lines++ == LINES) {
            add(w, "xgsw:   ... and others that differ\n");
            break;
        }
        add(w, "xgsw:   rank ");
        add_ranks(w, s, count, line, i);
        add(w, ", %s", line[i]);
        if (s[i].waits) add(w, ", for %.1f s", now - s[i].waiting.since);
        add_completed(w, &s[i], now);
        add(w, "\n");
    }
    free(line);
}

static void add_while(words *w, const rank_state *s)
{
    if (is_absent(s)) return;
    add(w, " (pid %d, ", (int)s->pid);
    add_doing(w, s);
    add(w, ")");
}

static void add_culprit(words *w, const rank_state *s, const verdict_culprit *c)
{
    const rank_state *who = &s[c->who];
    const watch_event *e = c->waiting >= 0 ? &s[c->waiting].waiting : NULL;
    add(w, "xgsw: rank %d on %s", who->rank, who->host);
    add_while(w, who);
    if (c->cause == CAUSE_UNDELIVERED) add(w, " and all that it needs have entered what does not end: ");
    else if (c->cause == CAUSE_BEHIND) add(w, e && has_entered(who, e) ? " is stuck in " : " has not entered ");
    else {
        add(w, " ");
        add_state(w, who);
        if (e) add(w, "; rank %d waits for ", s[c->waiting].rank);
    }
    if (e) add_event(w, e);
    if (e && c->cause < CAUSE_BEHIND && e->group.key && !has_entered(who, e)) add(w, ", which it has not entered");
    if (c->cause != CAUSE_BEHIND) return;
    add(w, "; it ");
    add_state(w, who);
}

void verdict_say(const rank_state *s, int count, double quiet, double now, char text[VERDICT_BYTES])
{
    words w = { text, VERDICT_BYTES, 0 };
    verdict_culprit c = verdict_find(s, count);
    text[0] = 0;
    add(&w, "xgsw: no rank has completed anything for %.0f s while others wait:\n", quiet);
    add_table(&w, s, count, now);
    add_culprit(&w, s, &c);
    add(&w, "\nxgsw: all ranks end with status 86\n");
}
