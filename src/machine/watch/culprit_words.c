/* The text about a stall: one line for all ranks that do the same, and a sentence about the culprit. */
#include "machine/watch/culprit.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 16, LINE = 640, RANKS_SHOWN = 8 };

typedef struct {
    char *text;
    size_t length, used;
} text_buffer;

static void add(text_buffer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(text_buffer *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(t->text + t->used, t->length - t->used, format, arguments);
    va_end(arguments);
    t->used += n > 0 ? (size_t)n : 0;
    if (t->used >= t->length) t->used = t->length - 1;
}

static void add_origin(text_buffer *t, const activity *e)
{
    if (e->step < 0 && e->microbatch < 0 && e->layer < 0 && !e->phase[0]) return;
    add(t, " (");
    if (e->step >= 0) add(t, "step %" PRId64 ", ", e->step);
    if (e->microbatch >= 0) add(t, "microbatch %d, ", (int)e->microbatch);
    if (e->layer >= 0) add(t, "layer %d, ", (int)e->layer);
    add(t, "%s)", e->phase);
}

static void add_group(text_buffer *t, const activity *e)
{
    const activity_group *g = &e->group;
    if (!g->key) return;
    add(t, ", number %" PRIu64 " of %s [", (uint64_t)e->number, e->axis);
    for (int i = 0; i < g->size; i++) {
        if (g->size > RANKS_SHOWN && i == RANKS_SHOWN / 2) add(t, " ...");
        if (g->size > RANKS_SHOWN && i >= RANKS_SHOWN / 2 && i < g->size - 1) continue;
        add(t, "%s%d", i ? " " : "", rank_of_member(g, i));
    }
    add(t, "]");
}

static void add_event(text_buffer *t, const activity *e)
{
    add(t, "%s%s%s", e->kind, e->name[0] ? " " : "", e->name);
    add_origin(t, e);
    add_group(t, e);
    if (e->elements > 0) add(t, ", %s x %" PRId64, e->type, e->elements);
}

static void add_doing(text_buffer *t, const rank_state *s)
{
    if (s->doing.kind[0] && s->doing.number > 0) add(t, "%s %" PRId64, s->doing.kind, s->doing.number - 1);
    else add(t, "%s", s->doing.kind[0] ? s->doing.kind : "starting");
}

static void add_completed(text_buffer *t, const rank_state *s, double now)
{
    if (!s->completed.kind[0]) return;
    add(t, "; completed %s%s%s", s->completed.kind, s->completed.name[0] ? " " : "", s->completed.name);
    add_origin(t, &s->completed);
    if (s->completed.number) add(t, ", number %" PRId64 " of %s,", s->completed.number, s->completed.axis);
    add(t, " %.1f s ago", now - s->completed.since);
}

static const char *state_words(const rank_state *s)
{
    if (rank_is_dead(s)) return "is gone";
    if (rank_is_stopped(s)) return "is stopped";
    if (rank_is_unreachable(s)) return "does not respond";
    if (rank_is_absent(s)) return "has not started";
    if (s->process == 'D') return "waits for a disk or a driver";
    return s->waits ? "waits for " : "waits for no other rank";
}

static void add_state(text_buffer *t, const rank_state *s)
{
    add(t, "%s", state_words(s));
    if (!s->waits || rank_is_absent(s)) return;
    if (strcmp(state_words(s), "waits for ") != 0) add(t, ", in ");
    add_event(t, &s->waiting);
}

/* Leaves out ages, so that ranks that do the same have the same line. */
static void describe(const rank_state *s, char line[LINE])
{
    text_buffer t = { line, LINE, 0 };
    line[0] = 0;
    if (!rank_is_unreachable(s) || s->pid) add_doing(&t, s), add(&t, ": ");
    add_state(&t, s);
}

typedef char text_line[LINE];

static void add_ranks(text_buffer *t, const rank_state *s, int count, const text_line *line, int first)
{
    int same = 0;
    for (int i = first; i < count; i++) {
        if (strcmp(line[first], line[i]) != 0) continue;
        if (same < RANKS_SHOWN) add(t, "%s%d", same ? " " : "", s[i].rank);
        same++;
    }
    if (same > RANKS_SHOWN) add(t, " ... (%d ranks)", same);
}

static bool is_repeated(const text_line *line, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(line[i], line[k]) == 0) return true;
    return false;
}

static void add_table(text_buffer *t, const rank_state *s, int count, double now)
{
    text_line *line = malloc((size_t)count * sizeof *line);
    int lines = 0;
    for (int i = 0; line && i < count; i++) describe(&s[i], line[i]);
    for (int i = 0; line && i < count && lines <= LINES; i++) {
        if (is_repeated(line, i)) continue;
        if (lines++ == LINES) {
            add(t, "xgsw:   ... and ranks in other states\n");
            break;
        }
        add(t, "xgsw:   rank ");
        add_ranks(t, s, count, line, i);
        add(t, ", %s", line[i]);
        if (s[i].waits) add(t, ", for %.1f s", now - s[i].waiting.since);
        add_completed(t, &s[i], now);
        add(t, "\n");
    }
    free(line);
}

static void add_process(text_buffer *t, const rank_state *s)
{
    if (rank_is_absent(s) || s->pid == 0) return;
    add(t, " (pid %d, ", (int)s->pid);
    add_doing(t, s);
    add(t, ")");
}

/* Adds the other unreachable members of the group, because any of them may be the culprit. */
static void add_others(text_buffer *t, const rank_state *s, int count, const rank_state *blamed, const activity *e)
{
    int others = 0;
    for (int m = 0; m < e->group.size; m++) {
        int rank = rank_of_member(&e->group, m);
        if (rank >= count || &s[rank] == blamed || !rank_is_unreachable(&s[rank])) continue;
        if (others++ < RANKS_SHOWN) add(t, " or rank %d on %s", rank, s[rank].host);
    }
    if (others > RANKS_SHOWN) add(t, " or another of that group");
}

static void add_culprit(text_buffer *t, const rank_state *s, int count, const culprit *c)
{
    const rank_state *blamed = &s[c->blamed];
    const activity *e = c->waiter >= 0 ? &s[c->waiter].waiting : NULL;
    bool not_entered = c->cause == CAUSE_NOT_ENTERED || c->cause == CAUSE_OTHERS_COMPLETED;
    add(t, "xgsw: rank %d on %s", blamed->rank, blamed->host);
    add_process(t, blamed);
    if (c->cause == CAUSE_UNREACHABLE && e) add_others(t, s, count, blamed, e);
    if (c->cause == CAUSE_UNDELIVERED)
        add(t, " and all ranks that it waits for have entered an operation that does not end: ");
    else if (not_entered) add(t, e && rank_has_entered(blamed, e) ? " is stuck in " : " has not entered ");
    else {
        add(t, " ");
        add_state(t, blamed);
        if (e) add(t, "; rank %d waits for ", s[c->waiter].rank);
    }
    if (e) add_event(t, e);
    if (e && c->cause < CAUSE_UNREACHABLE && e->group.key && !rank_has_entered(blamed, e))
        add(t, ", which it has not entered");
    if (!not_entered) return;
    add(t, "; it ");
    add_state(t, blamed);
    if (c->cause == CAUSE_OTHERS_COMPLETED) add(t, ", which all others have completed");
}

void culprit_table(const rank_state *s, int count, double now, char text[CULPRIT_BYTES])
{
    text_buffer t = { text, CULPRIT_BYTES, 0 };
    text[0] = 0;
    add_table(&t, s, count, now);
}

void culprit_report(const rank_state *s, int count, double idle, double now, char text[CULPRIT_BYTES])
{
    text_buffer t = { text, CULPRIT_BYTES, 0 };
    culprit c = culprit_find(s, count);
    text[0] = 0;
    add(&t, "xgsw: no rank has completed anything for %.0f s while others wait:\n", idle);
    add_table(&t, s, count, now);
    add_culprit(&t, s, count, &c);
    add(&t, "\nxgsw: all ranks end with status 86\n");
}
