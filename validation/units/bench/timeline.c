/* Time on paper, against schedules that are worked out by hand. Only attention takes time here, forward 1 s a layer and
 * backward 2 s: all sums are exact, so times are equal to the last bit. */
#include "machine/timeline/timeline.h"
#include "bench/launch/case_machine.h"
#include "machine/queue/submit.h"
#include "units/train/trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

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

/* When the second step ended, on any rank; the first warms up. */
static void keep_end(void *me, const timeline_event *e)
{
    double *end = (double *)me + e->what->step;
    if (e->end > *end) *end = e->end;
}

/* Seconds of a step of the case on `stages` ranks. */
static double step_of(const char *keys, int stages)
{
    char text[512], why[1024] = "";
    measure r[STAGES];
    mesh m[STAGES];
    timeline_rank rank[STAGES];
    double end[2] = { 0.0, 0.0 };
    timeline_options o = { .ran = keep_end, .me = end };
    snprintf(text, sizeof text,
             "a\nb\nbackend = host\nsize = check\nsteps = 1\ncheck = off\nlayers = 8\nglobal_batch = 8\n%s", keys);
    deck d = deck_read(&(deck_source){ .name = "deck", .text = text, .length = strlen(text), .ranks = stages });
    assert_int_equal(d.messages, 0);
    for (int i = 0; i < stages; i++) {
        trainer_options given = { .machine = { .kind = MACHINE_HOST, .keeps_order = true } };
        mesh_open(&m[i], &d.item[0].layout, i, MESH_PAPER);
        r[i] = measure_case(&d.item[0], &m[i], &given);
        rank[i] = priced(&r[i], attention_seconds);
    }
    bool over = timeline_run(rank, stages, &o, why, sizeof why);
    if (!over) fail_msg("%s", why);
    for (int i = 0; i < stages; i++) {
        free((void *)rank[i].price);
        measure_free(&r[i]);
        mesh_close(&m[i]);
    }
    deck_free(&d);
    return end[1] - end[0];
}

/* Bubble: (p - 1) microbatches on a stage, of interleaved chunks a v-th of that (Narayanan et al. 2021). */
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

/* ---- queues by hand ---- */

/* A rank with one queue that computes and one that transfers in a group of two. Fills and gathers of n elements take n
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

/* When the last operation of both ended; -1 and a sentence: never. */
static double end_of(hand *a, hand *b, int multiprocessors, char *why, size_t length)
{
    double end[2] = { 0.0, 0.0 };
    timeline_rank rank[2] = { a->rank, b->rank };
    timeline_options o = { multiprocessors, keep_end, &end[1] }; /* of no step: -1 */
    bool over = timeline_run(rank, 2, &o, why, length);
    hand_close(a);
    hand_close(b);
    return over ? end[0] : -1.0;
}

/* Rank 0 computes 3 s, and 1 s after a gather of 5 s, which rank 1 comes to after 2 s. */
static void the_last_one_begins_a_transfer(void **state)
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
    assert_true(end_of(&a, &b, 0, why, sizeof why) == 2 + 5 + 1);
}

/* A product of 4 s fills `blocks` of 4 multiprocessors, while a gather waits for its peer, for 10 s, with one of them.
 * What follows the product takes 10 s. */
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

/* A gather that holds the last multiprocessor ends with the product before: the next product finds all of them. */
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(bubbles_are_those_of_the_formulas),
                                        cmocka_unit_test(the_last_one_begins_a_transfer),
                                        cmocka_unit_test(a_resident_block_doubles_a_product_that_fills_the_device),
                                        cmocka_unit_test(what_ends_at_one_time_is_free_at_that_time),
                                        cmocka_unit_test(who_waits_for_whom_is_said) };
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
    world_stop();
    return failed;
}
