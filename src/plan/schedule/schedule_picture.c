/* The picture of a schedule: one row for each stage, one cell for each tick. */
#include "plan/schedule/schedule_simulate.h"
#include <stdlib.h>
#include <string.h>

static const char gap[] = " ... ";
enum { GAP = sizeof gap - 1 };

/* The picture shows the ticks [0, head) and [tail, makespan). */
typedef struct {
    const bench_case *given;
    FILE *out;
    int width;  /* columns of a tick: letter, perhaps the microbatch, perhaps a blank */
    int digits; /* digits of the microbatch; 0: not shown */
    int64_t head, tail, makespan;
} canvas;

static int digits_of(int64_t n) { return n < 10 ? 1 : 1 + digits_of(n / 10); }

/* Chooses the widest ticks that fit; if none do, one column for each of the first and the last ticks. */
static canvas canvas_for(const bench_case *c, int64_t makespan, FILE *out)
{
    canvas v = { .given = c,
                 .out = out,
                 .digits = digits_of(c->microbatches - 1),
                 .head = makespan,
                 .tail = makespan,
                 .makespan = makespan };
    v.width = v.digits + 2;
    if (v.width * makespan > PICTURE_COLUMNS) v.width = v.digits + 1;
    if (v.width * makespan <= PICTURE_COLUMNS) return v;
    v.width = 1;
    v.digits = 0;
    if (makespan <= PICTURE_COLUMNS) return v;
    v.head = (PICTURE_COLUMNS - GAP) / 2 + 1;
    v.tail = makespan - (PICTURE_COLUMNS - GAP - v.head);
    return v;
}

/* With several chunks, a letter stands for the chunk, in lower case for a forward. */
static char letter_of(const canvas *v, const schedule_action *a)
{
    if (a->verb == BACKWARD_WEIGHT) return '#';
    if (v->given->layout.chunks_per_stage == 1) return a->verb == FORWARD ? 'F' : 'B';
    return (char)((a->verb == FORWARD ? 'a' : 'A') + a->chunk % 26);
}

/* Returns one character of an action such as "F12--"; if microbatches are not shown, always the letter. */
static char action_character(const canvas *v, const schedule_action *a, int64_t column, int64_t columns)
{
    char number[24];
    if (column == 0 || !v->digits) return letter_of(v, a);
    snprintf(number, sizeof number, "%-*lld", v->digits, (long long)a->microbatch);
    if (column <= v->digits) return number[column - 1];
    return column == columns - 1 && v->width > v->digits + 1 ? ' ' : '-';
}

static void draw_ticks(const canvas *v, const schedule *s, const schedule_span *span, int64_t from, int64_t to)
{
    int64_t i = 0;
    for (int64_t column = from * v->width; column < to * v->width; column++) {
        int64_t tick = column / v->width;
        while (i < s->length && span[i].end <= tick) i++;
        bool works = i < s->length && span[i].start <= tick;
        int64_t begin = works ? span[i].start * v->width : 0, end = works ? span[i].end * v->width : 0;
        fputc(works               ? action_character(v, &s->action[i], column - begin, end - begin)
              : column % v->width ? ' '
                                  : '.',
              v->out);
    }
}

static void draw_stage(const canvas *v, int stage, const schedule *s, const schedule_timing *t)
{
    fprintf(v->out, "  stage %-5d ", stage);
    draw_ticks(v, s, t->span[stage], 0, v->head);
    if (v->head < v->tail) fputs(gap, v->out);
    draw_ticks(v, s, t->span[stage], v->tail, v->makespan);
    fprintf(v->out, " %5.1f %% %5lld\n", 100.0 * (double)(t->makespan - t->busy[stage]) / (double)t->makespan,
            (long long)schedule_live(s));
}

/* Writes the number of every tenth tick above its cell, if it fits into the row. */
static void write_ruler(char *ruler, const canvas *v, int64_t from, int64_t to, int64_t first_column)
{
    for (int64_t tick = (from + 9) / 10 * 10; tick < to; tick += 10) {
        char number[24];
        int length = snprintf(number, sizeof number, "%lld", (long long)tick);
        int64_t column = first_column + (tick - from) * v->width;
        if (column + length <= PICTURE_COLUMNS) memcpy(ruler + column, number, (size_t)length);
    }
}

static void draw_ruler(const canvas *v)
{
    char ruler[PICTURE_COLUMNS + 1] = "";
    int64_t tail_column = v->head * v->width + (v->head < v->tail ? GAP : 0);
    int64_t columns = tail_column + (v->makespan - v->tail) * v->width;
    memset(ruler, ' ', sizeof ruler - 1);
    write_ruler(ruler, v, 0, v->head, 0);
    write_ruler(ruler, v, v->tail, v->makespan, tail_column);
    fprintf(v->out, "  tick        %.*s  bubble  live\n", (int)columns, ruler);
}

static void draw_legend(const canvas *v)
{
    int chunks = v->given->layout.chunks_per_stage;
    fprintf(v->out, "  picture     ");
    if (chunks == 1) fprintf(v->out, "F forward, B backward");
    else fprintf(v->out, "a b .. forward of chunk 0 1 .., A B .. its backward");
    fprintf(v->out, "%s; . waits\n", v->digits ? ", then the microbatch" : "");
    if (v->head < v->tail)
        fprintf(v->out, "              ticks %lld to %lld are left out\n", (long long)v->head, (long long)v->tail - 1);
}

void schedule_picture(const bench_case *c, const schedule *list, const schedule_timing *t, FILE *out)
{
    canvas v = canvas_for(c, t->makespan, out);
    draw_legend(&v);
    draw_ruler(&v);
    for (int stage = 0; stage < t->stages; stage++) draw_stage(&v, stage, &list[stage], t);
}
