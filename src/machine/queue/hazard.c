/* The hazard checker: vector clocks and an ordered list of byte ranges. */
#include "machine/queue/hazard.h"
#include "base/memory.h"
#include <stdio.h>
#include <string.h>

enum { CLOCK_HISTORY = 1 << 14 };
typedef struct {
    uint64_t serial;
    op_kind kind;
    origin origin;
} visit; /* serial 0: no visit */
typedef struct {
    visit writer;
    int writer_queue;
    visit reader[HAZARD_QUEUES]; /* last reader in each queue */
} visits;
/* A byte range and its visits. The list of ranges is a gap buffer: the next change is often near the last one. */
typedef struct {
    uintptr_t begin, end;
    visits *visits;
} range;
enum { VISITS_BLOCK = 256 };
typedef struct visits_block {
    struct visits_block *next;
    visits item[VISITS_BLOCK];
} visits_block;

struct hazard {
    vector_clock now[HAZARD_QUEUES];      /* operations that each queue's next operation follows */
    vector_clock *history[HAZARD_QUEUES]; /* [CLOCK_HISTORY] clocks of each queue, at serial % CLOCK_HISTORY */
    range *ranges;                        /* sorted by address, disjoint; the free places lie before range `gap` */
    int64_t count, capacity, gap;
    visits **spare; /* [capacity]; the first `spares` are unused */
    int64_t spares;
    visits_block *blocks;
    hazard_report report;
};

hazard *hazard_open(void)
{
    hazard *h = allocate(1, sizeof *h, "the hazard checker");
    for (int i = 0; i < HAZARD_QUEUES; i++)
        h->history[i] = allocate(CLOCK_HISTORY, sizeof(vector_clock), "the hazard checker's clocks");
    return h;
}

void hazard_close(hazard *h)
{
    for (int i = 0; i < HAZARD_QUEUES; i++) free(h->history[i]);
    for (visits_block *b = h->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(h->spare);
    free(h->ranges);
    free(h);
}

hazard_report *hazard_read(hazard *h) { return &h->report; }

void hazard_report_add(hazard_report *to, const hazard_report *from)
{
    to->count += from->count;
    for (int i = 0; i < from->sentences && to->sentences < HAZARD_SENTENCES; i++)
        memcpy(to->sentence[to->sentences++], from->sentence[i], sizeof to->sentence[0]);
}

static void clock_merge(vector_clock *into, const vector_clock *other)
{
    for (int i = 0; i < HAZARD_QUEUES; i++)
        if (other->serial[i] > into->serial[i]) into->serial[i] = other->serial[i];
}

bool hazard_ordered(const hazard *h, int queue, int target, uint64_t serial)
{
    return serial <= h->now[queue].serial[target];
}

vector_clock hazard_past(const hazard *h, int target, uint64_t serial)
{
    vector_clock past = { .serial = { 0 } };
    if (h->now[target].serial[target] < serial + CLOCK_HISTORY) past = h->history[target][serial % CLOCK_HISTORY];
    if (serial > past.serial[target]) past.serial[target] = serial;
    return past;
}

void hazard_follow(hazard *h, int queue, const vector_clock *past) { clock_merge(&h->now[queue], past); }

static range *range_at(const hazard *h, int64_t i) { return &h->ranges[i < h->gap ? i : i + h->capacity - h->count]; }

static void gap_move(hazard *h, int64_t to)
{
    int64_t places = h->capacity - h->count, from = h->gap;
    range *r = h->ranges;
    if (to == from) return;
    if (to < from) memmove(r + to + places, r + to, (size_t)(from - to) * sizeof *r);
    else memmove(r + from, r + from + places, (size_t)(to - from) * sizeof *r);
    h->gap = to;
}

/* Adds a block of visits, and as many free places to the list. */
static void ranges_grow(hazard *h)
{
    visits_block *b = allocate(1, sizeof *b, "visits of byte ranges");
    gap_move(h, h->count);
    h->capacity += VISITS_BLOCK;
    h->ranges = reallocate(h->ranges, h->capacity, sizeof *h->ranges, "byte ranges");
    h->spare = reallocate(h->spare, h->capacity, sizeof *h->spare, "spare visits");
    b->next = h->blocks;
    h->blocks = b;
    for (int i = 0; i < VISITS_BLOCK; i++) h->spare[h->spares++] = &b->item[i];
}

/* Inserts a range without visits before position i. */
static range *ranges_insert(hazard *h, int64_t i, uintptr_t begin, uintptr_t end)
{
    if (h->spares == 0) ranges_grow(h);
    gap_move(h, i);
    h->count++;
    h->gap++;
    h->ranges[i] = (range){ begin, end, h->spare[--h->spares] };
    *h->ranges[i].visits = (visits){ 0 };
    return &h->ranges[i];
}

static void ranges_remove(hazard *h, int64_t first, int64_t count)
{
    for (int64_t i = first; i < first + count; i++) h->spare[h->spares++] = range_at(h, i)->visits;
    gap_move(h, first);
    h->count -= count;
}

/* Returns the index of the first range that ends after the address. */
static int64_t ranges_find(const hazard *h, uintptr_t address)
{
    int64_t low = 0, high = h->count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (range_at(h, middle)->end > address) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* Splits the range that contains the address, so that a range begins there. */
static void ranges_split(hazard *h, uintptr_t address)
{
    int64_t i = ranges_find(h, address);
    if (i == h->count || range_at(h, i)->begin >= address) return;
    range *left = ranges_insert(h, i, range_at(h, i)->begin, address), *right = range_at(h, i + 1);
    *left->visits = *right->visits;
    right->begin = address;
}

/* Reports two operations that meet in several ranges with one sentence. */
static void report(hazard *h, const op *o, const visit *earlier)
{
    hazard_report *r = &h->report;
    op before = { .kind = earlier->kind, .origin = earlier->origin };
    char first[OP_TEXT], second[OP_TEXT], sentence[sizeof r->sentence[0]];
    r->count++;
    if (r->sentences == HAZARD_SENTENCES) return;
    op_describe(&before, first, sizeof first);
    op_describe(o, second, sizeof second);
    snprintf(sentence, sizeof sentence, "%s and %s touch the same bytes unordered", first, second);
    for (int i = 0; i < r->sentences; i++)
        if (strcmp(r->sentence[i], sentence) == 0) return;
    memcpy(r->sentence[r->sentences++], sentence, sizeof sentence);
}

static bool ordered(const vector_clock *known, int queue, const visit *v) { return v->serial <= known->serial[queue]; }

static void range_check(hazard *h, const range *r, const vector_clock *known, const op *o, bool writes)
{
    if (!ordered(known, r->visits->writer_queue, &r->visits->writer)) report(h, o, &r->visits->writer);
    for (int i = 0; writes && i < HAZARD_QUEUES; i++)
        if (!ordered(known, i, &r->visits->reader[i])) report(h, o, &r->visits->reader[i]);
}

/* Marks every range of [begin, end) as read. Adds ranges where there are none. */
static void ranges_read(hazard *h, uintptr_t begin, uintptr_t end, int queue, const visit *v)
{
    for (int64_t i = ranges_find(h, begin); begin < end; i++) {
        if (i == h->count || range_at(h, i)->begin > begin) {
            uintptr_t stop = i == h->count || range_at(h, i)->begin > end ? end : range_at(h, i)->begin;
            ranges_insert(h, i, begin, stop);
        }
        range_at(h, i)->visits->reader[queue] = *v;
        begin = range_at(h, i)->end;
    }
}

/* Replaces all ranges of [begin, end) by one whose only visit is this write. */
static void ranges_write(hazard *h, uintptr_t begin, uintptr_t end, int queue, const visit *v)
{
    int64_t first = ranges_find(h, begin), last = first;
    while (last < h->count && range_at(h, last)->begin < end) last++;
    if (last == first) ranges_insert(h, first, begin, end), last++;
    if (last > first + 1) ranges_remove(h, first + 1, last - first - 1);
    range *written = range_at(h, first);
    written->begin = begin;
    written->end = end;
    *written->visits = (visits){ .writer = *v, .writer_queue = queue };
}

static void operand_visit(hazard *h, const operand *x, int queue, const visit *v, const op *o)
{
    uintptr_t begin = (uintptr_t)x->tensor.data, end = begin + tensor_span(&x->tensor);
    if (begin == end) return;
    ranges_split(h, begin);
    ranges_split(h, end);
    for (int64_t i = ranges_find(h, begin); i < h->count && range_at(h, i)->begin < end; i++)
        range_check(h, range_at(h, i), &h->now[queue], o, x->access != READ);
    if (x->access == READ) ranges_read(h, begin, end, queue, v);
    else ranges_write(h, begin, end, queue, v);
}

void hazard_submit(hazard *h, int queue, uint64_t serial, const op *o)
{
    h->now[queue].serial[queue] = serial;
    h->history[queue][serial % CLOCK_HISTORY] = h->now[queue];
    visit v = { serial, o->kind, o->origin };
    for (int i = 0; i < o->operands; i++)
        if (tensor_present(&o->operand[i].tensor)) operand_visit(h, &o->operand[i], queue, &v, o);
}

void hazard_join(hazard *h)
{
    vector_clock all = { { 0 } };
    for (int i = 0; i < HAZARD_QUEUES; i++) clock_merge(&all, &h->now[i]);
    for (int i = 0; i < HAZARD_QUEUES; i++) h->now[i] = all;
}
