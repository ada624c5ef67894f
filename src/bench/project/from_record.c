/* Spans of a record, matched with the submissions of its cases. */
#include "bench/project/from_record.h"
#include "base/memory.h"
#include "bench/launch/case_machine.h"
#include "bench/paper/paper.h"
#include "bench/project/listed.h"
#include "bench/project/price.h"
#include "bench/record/reader.h"
#include "plan/deck/deck.h"
#include "train/measure.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Spans of one case in order of completion. */
typedef struct {
    double *begin, *end; /* [count] */
    int64_t *queue, count;
} case_spans;

typedef struct {
    double sum, least;
    int64_t count;
} item_seconds;

static case_spans read_spans(reader *r, int number)
{
    char path[64];
    case_spans s;
    int64_t ends, numbers;
    snprintf(path, sizeof path, "/case_%04d/spans/begin", number);
    s.begin = reader_reals(r, path, &s.count);
    snprintf(path, sizeof path, "/case_%04d/spans/end", number);
    s.end = reader_reals(r, path, &ends);
    snprintf(path, sizeof path, "/case_%04d/spans/queue", number);
    s.queue = reader_integers(r, path, &numbers);
    if (!s.begin || !s.end || !s.queue || ends != s.count || numbers != s.count) s.count = 0;
    return s;
}

static void free_spans(case_spans *s)
{
    free(s->begin);
    free(s->end);
    free(s->queue);
}

/* Returns the index of the queue's next submission in the counted step, or s->length if there is none. */
static int64_t next_of_queue(const submissions *s, int64_t from, int64_t number)
{
    while (from < s->length && (s->list[from].step != COUNTED_STEP || s->list[from].queue != number)) from++;
    return from;
}

/* Matches spans with submissions, because a queue completes operations in the order of submission. Returns false if a
 * queue has more or fewer spans than submissions. */
static bool add_spans(const case_spans *spans, const submissions *s, item_seconds *times)
{
    int64_t next[HAZARD_QUEUES] = { 0 }, expected = 0;
    for (int64_t i = 0; i < s->length; i++) expected += s->list[i].step == COUNTED_STEP;
    if (expected != spans->count) return false;
    for (int64_t i = 0; i < spans->count; i++) {
        int64_t number = spans->queue[i];
        int64_t k = number >= 0 && number < HAZARD_QUEUES ? next_of_queue(s, next[number], number) : s->length;
        double seconds = spans->end[i] - spans->begin[i];
        if (k == s->length) return false;
        item_seconds *x = &times[s->list[k].item];
        x->least = x->count == 0 || seconds < x->least ? seconds : x->least;
        x->sum += seconds, x->count++;
        next[number] = k + 1;
    }
    return true;
}

/* Fills key and work of an item. Returns false if the item has no line in a sheet. */
static bool item_line(const machine_sheet *s, const preparation *work, int i, listed_time *line)
{
    const work_item *x = &work->order->item[i];
    const group *g = x->group >= 0 ? &work->order->group[x->group] : NULL;
    if (x->note < 0 || (g && g->size == 1)) return false;
    const op *o = &work->note[x->note].op;
    line->work = g ? transfer_bytes(o) : operation_work(o);
    if (g) transfer_key(o->kind, g->size, group_within(g, sheet_domain(s)), line->key);
    else operation_key(o, line->key);
    return line->work > 0.0;
}

/* Items with equal key and work become one line. */
static void list_items(machine_sheet *s, const preparation *work, item_seconds *times)
{
    listed_time line, other;
    for (int i = 0; i < work->order->items; i++) {
        bool is_transfer = work->order->item[i].group >= 0;
        if (times[i].count == 0 || !item_line(s, work, i, &line)) continue;
        for (int k = i + 1; k < work->order->items; k++) {
            if (times[k].count == 0 || !item_line(s, work, k, &other)) continue;
            if (!listed_same(&other, &line)) continue;
            times[i].sum += times[k].sum, times[i].count += times[k].count;
            if (times[k].least < times[i].least) times[i].least = times[k].least;
            times[k].count = 0;
        }
        line.seconds = is_transfer ? times[i].least : times[i].sum / (double)times[i].count;
        listed_add(is_transfer ? &s->transfers : &s->operations, line);
    }
}

static bool add_case(machine_sheet *s, const bench_case *c, reader *r)
{
    mesh m;
    case_spans spans = read_spans(r, c->number);
    trainer_options o = { .machine = case_machine(c) };
    o.machine.keeps_order = true;
    if (spans.count == 0) return free_spans(&spans), true; /* the case did not run */
    mesh_open(&m, &c->layout, 0, MESH_PAPER);
    measure on_paper = measure_case(c, &m, &o);
    item_seconds *times = allocate(on_paper.prepared.order->items, sizeof *times, "seconds of items");
    bool matched = add_spans(&spans, on_paper.prepared.order, times);
    if (matched) list_items(s, &on_paper.prepared, times);
    free(times);
    measure_free(&on_paper);
    mesh_close(&m);
    free_spans(&spans);
    return matched;
}

/* Appends the sheet's times, because the first of equal lines is used. Sets the bands that the sheet lacks. */
static void append_sheet_times(machine_sheet *s, listed_times operations, listed_times transfers)
{
    const term_entry measured = { { 1.0, 0.95, 1.05 }, MEASURED, 1 }, assumed = { { 1.0, 0.85, 1.2 }, ASSUMED, 1 };
    for (int i = 0; i < operations.count; i++) listed_add(&s->operations, operations.list[i]);
    for (int i = 0; i < transfers.count; i++) listed_add(&s->transfers, transfers.list[i]);
    free(operations.list);
    free(transfers.list);
    for (sheet_term t = TERM_OPERATIONS; t < TERMS; t++)
        if (!s->term[t].line) s->term[t] = t == TERM_NEAREST ? assumed : measured;
}

static bool add_deck(machine_sheet *s, reader *r, const char *path, char *why, size_t length)
{
    int64_t ranks, devices = 0;
    char *text = reader_first_text(r, "/provenance/deck"), *device = reader_first_text(r, "/provenance/device_name");
    int64_t *node = reader_integers(r, "/provenance/nodes", &ranks);
    double *memory = reader_reals(r, "/provenance/device_memory", &devices);
    deck_source source = { .name = path, .text = text, .length = text ? strlen(text) : 0, .ranks = (int)ranks };
    for (int64_t i = 0; node && i < ranks; i++) source.node_ranks += node[i] == node[0];
    source.dry_run = true, source.device = device ? device : PAPER_DEVICE;
    source.device_bytes = device_bytes(source.device), source.rank_bytes = paper_rank_bytes;
    for (int64_t i = 0; memory && i < devices; i++) source.device_bytes = fmin(source.device_bytes, memory[i]);
    if (!device) source.cuda_missing = "the record is of a host";
    deck d = text && node ? deck_read(&source) : (deck){ .messages = 1 };
    bool fits = !d.messages && s->host == !device && (s->host || device_find(device) == s->device), known = fits;
    for (int64_t i = 0; i < d.cases && known; i++) known = add_case(s, &d.item[i], r);
    if (!fits) snprintf(why, length, "%s: not the record of a run on the machine of the sheet %s", path, s->name);
    else if (!known)
        snprintf(why, length, "%s: its cases have other operations in this build; measure again with it", path);
    if (text && node) deck_free(&d);
    free(text);
    free(device);
    free(node);
    free(memory);
    return known;
}

bool sheet_from_record(machine_sheet *s, const char *path, char *why, size_t length)
{
    size_t size;
    void *bytes = read_whole(path, &size);
    reader *r = bytes ? reader_open(bytes, size) : NULL;
    listed_times operations = s->operations, transfers = s->transfers;
    if (!r) snprintf(why, length, "%s: not a record, or it cannot be read", path);
    s->operations = s->transfers = (listed_times){ .count = 0 };
    bool added = r && add_deck(s, r, path, why, length);
    append_sheet_times(s, operations, transfers);
    if (r) reader_close(r);
    free(bytes);
    return added;
}
