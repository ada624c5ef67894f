/* The text about a stall: a line for the ranks that do the same, and a sentence about the culprit. */
#include "machine/watch/culprit.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 16, LINE = 640, SHOWN = 8 };

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

static void add_origin(words *w, const activity *e)
{
    if (e->step < 0 && e->microbatch < 0 && e->layer < 0 && !e->phase[0]) return;
    add(w, " (");
    if (e->step >= 0) add(w, "step %" PRId64 ", ", e->step);
    if (e->microbatch >= 0) add(w, "microbatch %d, ", (int)e->microbatch);
    if (e->layer >= 0) add(w, "layer %d, ", (int)e->layer);
    add(w, "%s)", e->phase);
}

static void add_group(words *w, const activity *e)
{
    const activity_group *g = &e->group;
    if (!g->key) return;
    add(w, ", number %" PRIu64 " of %s [", (uint64_t)e->number, e->axis);
    for (int i = 0; i < g->size; i++) {
        if (g->size > SHOWN && i == SHOWN / 2) add(w, " ...");
        if (g->size > SHOWN && i >= SHOWN / 2 && i < g->size - 1) continue;
        add(w, "%s%d", i ? " " : "", rank_of_member(g, i));
    }
    add(w, "]");
}

static void add_event(words *w, const activity *e)
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
    if (rank_is_dead(s)) return "is gone";
    if (rank_is_stopped(s)) return "is stopped";
    if (rank_is_unheard(s)) return "does not respond";
    if (rank_is_absent(s)) return "has not started";
    if (s->process == 'D') return "waits for a disk or a driver";
    return s->waits ? "waits for " : "waits for no other rank";
}

static void add_state(words *w, const rank_state *s)
{
    add(w, "%s", state_words(s));
    if (!s->waits || rank_is_absent(s)) return;
    if (strcmp(state_words(s), "waits for ") != 0) add(w, ", in ");
    add_event(w, &s->waiting);
}

/* Leaves out ages, so that ranks that do the same have the same line. */
static void describe(const rank_state *s, char line[LINE])
{
    words w = { line, LINE, 0 };
    line[0] = 0;
    if (!rank_is_unheard(s) || s->pid) add_doing(&w, s), add(&w, ": ");
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
            add(w, "xgsw:   ... and ranks in other states\n");
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
    if (rank_is_absent(s) || s->pid == 0) return;
    add(w, " (pid %d, ", (int)s->pid);
    add_doing(w, s);
    add(w, ")");
}

/* Adds the other members of the group that are not heard of: any of them may be at fault. */
static void add_others(words *w, const rank_state *s, int count, const rank_state *who, const activity *e)
{
    int others = 0;
    for (int m = 0; m < e->group.size; m++) {
        int rank = rank_of_member(&e->group, m);
        if (rank >= count || &s[rank] == who || !rank_is_unheard(&s[rank])) continue;
        if (others++ < SHOWN) add(w, " or rank %d on %s", rank, s[rank].host);
    }
    if (others > SHOWN) add(w, " or another of that group");
}

static void add_culprit(words *w, const rank_state *s, int count, const culprit *c)
{
    const rank_state *who = &s[c->who];
    const activity *e = c->waiting >= 0 ? &s[c->waiting].waiting : NULL;
    bool is_behind = c->cause == CAUSE_BEHIND || c->cause == CAUSE_LEFT;
    add(w, "xgsw: rank %d on %s", who->rank, who->host);
    add_while(w, who);
    if (c->cause == CAUSE_UNHEARD && e) add_others(w, s, count, who, e);
    if (c->cause == CAUSE_UNDELIVERED)
        add(w, " and all ranks that it waits for have entered an operation that does not end: ");
    else if (is_behind) add(w, e && rank_has_entered(who, e) ? " is stuck in " : " has not entered ");
    else {
        add(w, " ");
        add_state(w, who);
        if (e) add(w, "; rank %d waits for ", s[c->waiting].rank);
    }
    if (e) add_event(w, e);
    if (e && c->cause < CAUSE_UNHEARD && e->group.key && !rank_has_entered(who, e))
        add(w, ", which it has not entered");
    if (!is_behind) return;
    add(w, "; it ");
    add_state(w, who);
    if (c->cause == CAUSE_LEFT) add(w, ", which all others have completed");
}

void culprit_table(const rank_state *s, int count, double now, char text[CULPRIT_BYTES])
{
    words w = { text, CULPRIT_BYTES, 0 };
    text[0] = 0;
    add_table(&w, s, count, now);
}

void culprit_say(const rank_state *s, int count, double quiet, double now, char text[CULPRIT_BYTES])
{
    words w = { text, CULPRIT_BYTES, 0 };
    culprit c = culprit_find(s, count);
    text[0] = 0;
    add(&w, "xgsw: no rank has completed anything for %.0f s while others wait:\n", quiet);
    add_table(&w, s, count, now);
    add_culprit(&w, s, count, &c);
    add(&w, "\nxgsw: all ranks end with status 86\n");
}
