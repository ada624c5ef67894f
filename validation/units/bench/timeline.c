/* Compares the timeline with schedules worked out by hand. Only attention takes time: 1 s per layer forward, 2 s
 * backward. All sums are exact, so times are equal to the last bit. Its operations are those of a measured step (and
 * those are a run's: dry_run.c). */
#include "machine/timeline/timeline.h"
#include "machine/queue/submit.h"
#include "units/tests.h"
#include "units/train/trained.h"

enum { FORWARD_SECONDS = 1, BACKWARD_SECONDS = 2, STAGES = 4, LAYERS = 8, MICROBATCHES = 8 };

static double attention_seconds(const op_note *n)
{
    if (n->op.kind == OP_ATTENTION_FORWARD) return FORWARD_SECONDS;
    return n->op.kind == OP_ATTENTION_BACKWARD ? BACKWARD_SECONDS : 0.0;
}

static timeline_rank priced(const measure *r, double (*seconds)(const op_note *n))
{
    const submissions *s = r->prepared.order;
    price *p = calloc((size_t)s->items, sizeof *p);
    for (int i = 0; i < s->items; i++)
        if (s->item[i].note >= 0) p[i].seconds = seconds(&r->prepared.note[s->item[i].note]);
    return (timeline_rank){ &r->prepared, p };
}

/* Keeps the end of the second step over all ranks. The first step is warm-up. */
static void keep_end(void *me, const timeline_event *e)
{
    double *end = (double *)me + e->what->step;
    if (e->end > *end) *end = e->end;
}

/* A case on paper: the priced submissions of its ranks. */
typedef struct {
    int ranks;
    measure r[STAGES];
    mesh m[STAGES];
    timeline_rank rank[STAGES];
} paper_case;

static paper_case case_open(const char *keys, int ranks)
{
    char text[512];
    paper_case c = { .ranks = ranks };
    snprintf(text, sizeof text,
             "a\nb\nbackend = host\nsize = check\nsteps = 1\ncheck = off\nlayers = 8\nglobal_batch = 8\n%s", keys);
    deck d = deck_read(&(deck_source){ .name = "deck", .text = text, .length = strlen(text), .ranks = ranks });
    assert_int_equal(d.messages, 0);
    for (int i = 0; i < ranks; i++) {
        trainer_options given = { .machine = { .kind = MACHINE_HOST, .keeps_order = true } };
        mesh_open(&c.m[i], &d.item[0].layout, i, MESH_PAPER);
        c.r[i] = measure_case(&d.item[0], &c.m[i], &given);
        c.rank[i] = priced(&c.r[i], attention_seconds);
    }
    deck_free(&d);
    return c;
}

static void case_close(paper_case *c)
{
    for (int i = 0; i < c->ranks; i++) {
        free((void *)c->rank[i].price);
        measure_free(&c->r[i]);
        mesh_close(&c->m[i]);
    }
}

/* Returns the seconds of the second step. */
static double step_seconds(paper_case *c)
{
    char why[1024] = "";
    double end[2] = { 0.0, 0.0 };
    timeline_options o = { .ran = keep_end, .context = end };
    for (int i = 0; i < c->ranks; i++) c->rank[i].work = &c->r[i].prepared;
    if (!timeline_run(c->rank, c->ranks, &o, why, sizeof why)) fail_msg("%s", why);
    return end[1] - end[0];
}

/* Returns the seconds of a step of the case on `stages` ranks. */
static double step_of(const char *keys, int stages)
{
    paper_case c = case_open(keys, stages);
    double seconds = step_seconds(&c);
    case_close(&c);
    return seconds;
}

/* The bubble is (p - 1) microbatches of a stage, divided by v chunks if interleaved (Narayanan et al. 2021). */
static void bubbles_are_those_of_the_formulas(void **state)
{
    const double of_stage = (double)LAYERS / STAGES * (FORWARD_SECONDS + BACKWARD_SECONDS),
                 all = MICROBATCHES + STAGES - 1;
    assert_true(step_of("[llama3.1-8b]\ntensor = 1\n", 1) ==
                (double)LAYERS * MICROBATCHES * (FORWARD_SECONDS + BACKWARD_SECONDS));
    assert_true(step_of("schedule = gpipe\n[llama3.1-8b]\npipeline = 4\n", STAGES) == all * of_stage);
    assert_true(step_of("[llama3.1-8b]\npipeline = 4\n", STAGES) == all * of_stage);
    assert_true(step_of("[llama3.1-8b]\npipeline = 4\nchunks_per_stage = 2\n", STAGES) ==
                (MICROBATCHES + (STAGES - 1) / 2.0) * of_stage);
}

/* Removes one wait at a time: no step gets longer, and some get shorter. */
static void a_removed_wait_shortens_the_step(void **state)
{
    paper_case c = case_open("[llama3.1-8b]\npipeline = 4\n", STAGES);
    double whole = step_seconds(&c);
    int64_t shorter = 0;
    for (int i = 0; i < STAGES; i++) {
        submissions *s = c.r[i].prepared.order;
        for (int64_t k = 0; k < s->waits; k++) {
            uint64_t serial = s->wait[k].serial;
            s->wait[k].serial = 0;
            double seconds = step_seconds(&c);
            assert_true(seconds <= whole);
            shorter += seconds < whole;
            s->wait[k].serial = serial;
        }
    }
    assert_true(shorter > 0);
    case_close(&c);
}

/* ---- operations ---- */

/* Counts of each rank's operations in the second step. */
typedef struct {
    const paper_case *of;
    tally ran[STAGES];
} counted;

static void count(void *me, const timeline_event *e)
{
    counted *n = me;
    const preparation *work = &n->of->r[e->rank].prepared;
    const work_item *x = &work->order->item[e->what->item];
    if (e->what->step != 1) return;
    if (x->note < 0) fail_msg("%s has no note", x->name);
    op o = work->note[x->note].op;
    if (x->group >= 0) o.args.fabric.group = &work->order->group[x->group];
    tally_submit(&n->ran[e->rank], &o);
}

static void assert_same_counts(tally *ran, const tally *measured, const char *keys)
{
    for (int k = 0; k < OP_KINDS; k++) {
        const tally_row *p = &ran->kind[k], *m = &measured->kind[k];
        if (p->count != m->count || p->flops != m->flops || p->bytes != m->bytes)
            fail_msg("%s%s: %lld of %lld", keys, op_kind_name(k), (long long)p->count, (long long)m->count);
    }
    assert_true(measured->axes > 0 && ran->axes == measured->axes);
    for (int a = 0; a < measured->axes; a++) {
        const tally_axis *m = &measured->axis[a], *p = &ran->axis[tally_axis_of(ran, m->axis)];
        assert_true(p->messages == m->messages && p->bytes == m->bytes && p->sent == m->sent);
    }
}

/* One case per axis on two ranks. */
static void every_operation_of_a_step_runs_once(void **state)
{
    static const char *const keys[] = {
        "[llama3.1-8b]\ntensor = 2\n",  "[llama3.1-8b]\npipeline = 2\nchunks_per_stage = 2\n",
        "[llama3.1-8b]\ncontext = 2\n", "[llama3.1-8b]\ndata = 2\n",
        "[llama3.1-8b]\nshard = 2\n",   "[grok1-314b]\nexpert = 2\n"
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char why[1024] = "";
        paper_case c = case_open(keys[i], 2);
        counted n = { .of = &c };
        for (int k = 0; k < c.ranks; k++) c.rank[k].work = &c.r[k].prepared;
        if (!timeline_run(c.rank, c.ranks, &(timeline_options){ .ran = count, .context = &n }, why, sizeof why))
            fail_msg("%s", why);
        for (int k = 0; k < c.ranks; k++) assert_same_counts(&n.ran[k], &c.r[k].step, keys[i]);
        case_close(&c);
    }
}

/* ---- a hostile order ---- */

/* Begin and end of each submission of each rank. */
typedef struct {
    const paper_case *of;
    int order[STAGES]; /* ranks in the order given to the timeline */
    double *time[STAGES];
} times;

static void keep_times(void *me, const timeline_event *e)
{
    times *t = me;
    int rank = t->order[e->rank];
    int64_t at = e->what - t->of->r[rank].prepared.order->list;
    t->time[rank][2 * at] = e->begin, t->time[rank][2 * at + 1] = e->end;
}

static uint32_t drawn(uint32_t a, uint32_t b)
{
    philox_block draw = { { a, b, 0, 0 } };
    return philox4x32(draw, 3, 1).word[0];
}

/* Products fill the device, transfers hold a part of it, and all share two resources. All durations differ. */
static void hostile_prices(paper_case *c)
{
    for (int i = 0; i < c->ranks; i++) {
        const submissions *s = c->r[i].prepared.order;
        price *p = (price *)c->rank[i].price;
        for (int k = 0; k < s->items; k++) {
            uint32_t draw = drawn((uint32_t)k, (uint32_t)i);
            bool moves = s->item[k].group >= 0;
            p[k] = (price){ .seconds = 1e-3 * (1.0 + draw % 97 / 7.0), .fixed = 1e-5 / 3.0, .in_waves = !moves };
            p[k].uses[0] = 0.1 * (1 + draw / 97 % 9), p[k].uses[1] = moves ? 0.9 : 0.0;
            p[k].blocks = moves ? 1 + (int)(draw % 4) : 128 + (int)(draw % 4);
        }
    }
}

static void shuffle(int *list, int length, uint32_t seed)
{
    for (int i = 0; i < length; i++) list[i] = i;
    for (int i = length - 1; i > 0; i--) {
        int k = (int)(drawn((uint32_t)i, seed) % (uint32_t)(i + 1)), other = list[k];
        list[k] = list[i], list[i] = other;
    }
}

/* Renumbers the queues of a rank. */
static void renumber(submissions *s, const int *to)
{
    const submissions old = *s;
    for (int64_t i = 0; i < s->length; i++) s->list[i].queue = (uint8_t)to[s->list[i].queue];
    for (int64_t i = 0; i < s->waits; i++) s->wait[i].queue = to[s->wait[i].queue];
    for (int i = 0; i < HAZARD_QUEUES; i++) s->in_queue[to[i]] = old.in_queue[i], s->yields[to[i]] = old.yields[i];
}

/* Runs the same case with its ranks in this order. */
static times hostile_times(const paper_case *c, const int *order)
{
    char why[1024] = "";
    times t = { .of = c };
    timeline_rank rank[STAGES];
    timeline_options o = { 132, keep_times, &t };
    for (int i = 0; i < c->ranks; i++) {
        t.order[i] = order[i];
        t.time[i] = calloc((size_t)c->r[i].prepared.order->length, 2 * sizeof(double));
        rank[i] = (timeline_rank){ &c->r[order[i]].prepared, c->rank[order[i]].price };
    }
    if (!timeline_run(rank, c->ranks, &o, why, sizeof why)) fail_msg("%s", why);
    return t;
}

static void assert_same_in_any_order(const char *keys)
{
    enum { ORDERS = 50 };
    static const int as_they_are[STAGES] = { 0, 1, 2, 3 };
    paper_case c = case_open(keys, STAGES);
    hostile_prices(&c);
    times want = hostile_times(&c, as_they_are);
    for (uint32_t seed = 0; seed < ORDERS; seed++) {
        int order[STAGES], numbers[HAZARD_QUEUES];
        shuffle(order, STAGES, seed);
        for (int i = 0; i < STAGES; i++) {
            shuffle(numbers, HAZARD_QUEUES, ORDERS * (uint32_t)(i + 1) + seed);
            renumber(c.r[i].prepared.order, numbers);
        }
        times got = hostile_times(&c, order);
        for (int i = 0; i < STAGES; i++) {
            size_t bytes = 2 * sizeof(double) * (size_t)c.r[i].prepared.order->length;
            assert_memory_equal(got.time[i], want.time[i], bytes);
            free(got.time[i]);
        }
    }
    for (int i = 0; i < STAGES; i++) free(want.time[i]);
    case_close(&c);
}

static void a_hostile_order_changes_nothing(void **state)
{
    assert_same_in_any_order("[llama3.1-8b]\nshard = 2\ntensor = 2\n");
    assert_same_in_any_order("[llama3.1-8b]\ncontext = 2\npipeline = 2\nchunks_per_stage = 2\n");
}

/* ---- queues by hand ---- */

/* A rank with a compute queue and a transfer queue in a group of two ranks. Fills and gathers of n elements take n
 * seconds. */
typedef struct {
    machine *machine;
    queue *compute, *transfer;
    group pair;
    arena paper;
    measure made;
    timeline_rank rank;
} hand;

static hand hand_open(int rank)
{
    hand h = { .pair = group_line("tensor", 0, 1, 2, rank) };
    h.machine = machine_open(&(machine_options){ .kind = MACHINE_HOST, .on_paper = true, .keeps_order = true });
    h.compute = machine_queue(h.machine, "compute");
    h.transfer = machine_queue(h.machine, "transfer");
    arena_open(&h.paper, NULL, 0);
    return h;
}

static mark compute(hand *h, int64_t seconds)
{
    return submit(h->compute, "compute",
                  fill_op(tensor_taken(&h->paper, ACTIVATIONS, tensor_1d(NULL, F32, seconds)), 0));
}

static mark gather(hand *h, int64_t seconds)
{
    tensor t = tensor_taken(&h->paper, ACTIVATIONS, tensor_1d(NULL, F32, 2 * seconds));
    return submit(h->transfer, "gather", all_gather_op(&h->pair, t, tensor_none()));
}

static double by_elements(const op_note *n)
{
    return (double)tensor_elements(&n->op.operand[0].tensor) / (op_is_transfer(n->op.kind) ? 2.0 : 1.0);
}

static void hand_price(hand *h)
{
    h->made.prepared = machine_prepared(h->machine);
    h->rank = priced(&h->made, by_elements);
}

static void hand_close(hand *h)
{
    free((void *)h->rank.price);
    preparation_free(&h->made.prepared);
    machine_close(h->machine);
}

/* Returns when the last operation of both ranks ends; -1 and a message if it never does. */
static double end_of(hand *a, hand *b, int multiprocessors, char *why, size_t length)
{
    double end[2] = { 0.0, 0.0 };
    timeline_rank rank[2] = { a->rank, b->rank };
    timeline_options o = { multiprocessors, keep_end, &end[1] }; /* without steps: -1 */
    bool over = timeline_run(rank, 2, &o, why, length);
    hand_close(a);
    hand_close(b);
    return over ? end[0] : -1.0;
}

/* Rank 0 computes 3 s, then 1 s after a gather of 5 s. Rank 1 joins the gather after 2 s. */
static double end_of_a_late_gather(bool on_thread)
{
    char why[256];
    hand a = hand_open(0), b = hand_open(1);
    compute(&a, 3);
    queue_wait(a.compute, gather(&a, 5));
    compute(&a, 1);
    queue_wait(b.transfer, compute(&b, 2));
    gather(&b, 5);
    hand_price(&a);
    hand_price(&b);
    ((price *)a.rank.price)[1].on_thread = ((price *)b.rank.price)[1].on_thread = on_thread;
    return end_of(&a, &b, 0, why, sizeof why);
}

static void the_last_one_begins_a_transfer(void **state) { assert_true(end_of_a_late_gather(false) == 2 + 5 + 1); }

/* On a host, threads make transfers: rank 0's thread computes for 3 s before it starts its part. */
static void a_hosts_transfer_takes_its_thread(void **state) { assert_true(end_of_a_late_gather(true) == 3 + 5 + 1); }

/* A product of 4 s fills `blocks` of 4 multiprocessors. A gather holds one of them and waits 10 s for its peer. The
 * operation after the product takes 10 s. */
static double next_to_a_gather(int blocks)
{
    char why[256];
    hand a = hand_open(0), b = hand_open(1);
    gather(&a, 1);
    compute(&a, 4);
    compute(&a, 10);
    queue_wait(b.transfer, compute(&b, 10));
    gather(&b, 1);
    hand_price(&a);
    hand_price(&b);
    price *p = (price *)a.rank.price;
    p[0].blocks = 1;
    p[1].in_waves = true, p[1].blocks = blocks;
    p[2].in_waves = true, p[2].blocks = 1;
    return end_of(&a, &b, 4, why, sizeof why);
}

static void a_resident_block_doubles_a_product_that_fills_the_device(void **state)
{
    assert_true(next_to_a_gather(4) == 2 * 4 + 10);
    assert_true(next_to_a_gather(3) == 4 + 10);
}

/* The gather holds one multiprocessor and ends together with the product, so the next product gets all of them. */
static void what_ends_at_one_time_is_free_at_that_time(void **state)
{
    char why[256];
    hand a = hand_open(0), b = hand_open(1);
    gather(&a, 4);
    compute(&a, 4);
    compute(&a, 10);
    gather(&b, 4);
    compute(&b, 4);
    hand_price(&a);
    hand_price(&b);
    price *p = (price *)a.rank.price;
    p[0].blocks = 1;
    p[1].in_waves = true, p[1].blocks = 1;
    p[2].in_waves = true, p[2].blocks = 4;
    assert_true(end_of(&a, &b, 4, why, sizeof why) == 4 + 10);
}

/* Rank 1 gathers once, rank 0 twice. */
static void who_waits_for_whom_is_said(void **state)
{
    char why[256];
    hand a = hand_open(0), b = hand_open(1);
    gather(&a, 1);
    gather(&a, 1);
    gather(&b, 1);
    hand_price(&a);
    hand_price(&b);
    assert_true(end_of(&a, &b, 0, why, sizeof why) < 0.0);
    assert_non_null(strstr(why, "rank 0: gather"));
    assert_non_null(strstr(why, "waits for its peers"));
}

WORLD_PROGRAM("timeline", NULL, NULL, bubbles_are_those_of_the_formulas, a_removed_wait_shortens_the_step,
              every_operation_of_a_step_runs_once, a_hostile_order_changes_nothing, the_last_one_begins_a_transfer,
              a_hosts_transfer_takes_its_thread, a_resident_block_doubles_a_product_that_fills_the_device,
              what_ends_at_one_time_is_free_at_that_time, who_waits_for_whom_is_said)
