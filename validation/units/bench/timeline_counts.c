/* Compares the timeline with the host: one case per axis is trained on two ranks. The operations, bytes and messages of
 * the second step must equal those of the same step on paper. */
#include "bench/launch/case_machine.h"
#include "machine/timeline/timeline.h"
#include "units/train/trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { RANKS = 2, STEPS = 2 };

/* Counts of each operation in the last step of this rank. */
typedef struct {
    tally ran;
    const preparation *work;
} counted;

static void count(void *me, const timeline_event *e)
{
    counted *n = me;
    const submissions *s = n->work->order;
    const work_item *x = &s->item[e->what->item];
    if (e->rank != world_rank() || e->what->step != STEPS - 1) return;
    if (x->note < 0) FAIL("%s has no note", x->name);
    op o = n->work->note[x->note].op;
    if (x->group >= 0) o.args.fabric.group = &s->group[x->group];
    tally_submit(&n->ran, &o);
}

static tally on_the_timeline(const bench_case *c)
{
    char why[1024] = "";
    mesh m[RANKS];
    measure r[RANKS];
    timeline_rank rank[RANKS];
    for (int i = 0; i < RANKS; i++) {
        trainer_options o = { .machine = case_machine(c) };
        o.machine.keeps_order = true;
        mesh_open(&m[i], &c->layout, i, MESH_PAPER);
        r[i] = measure_case(c, &m[i], &o);
        rank[i] = (timeline_rank){ &r[i].prepared, calloc((size_t)r[i].prepared.order->items, sizeof(price)) };
    }
    counted n = { .work = rank[world_rank()].work };
    if (!timeline_run(rank, RANKS, &(timeline_options){ .ran = count, .context = &n }, why, sizeof why))
        FAIL("%s", why);
    for (int i = 0; i < RANKS; i++) {
        free((void *)rank[i].price);
        measure_free(&r[i]);
        mesh_close(&m[i]);
    }
    return n.ran;
}

static tally on_the_host(const bench_case *c)
{
    trainer t = { 0 };
    mesh m;
    trainer_options o = { .machine = case_machine(c) };
    mesh_open(&m, &c->layout, world_rank(), MESH_ON_HOST);
    measure share = measure_case(c, &m, &o);
    trainer_build(&t, c, &m, &o, &share);
    measure_free(&share);
    trainer_initialize(&t);
    for (int i = 0; i < STEPS; i++) {
        tally_clear(machine_tally(t.machine));
        mark_sync(trainer_step(&t));
    }
    machine_sync(t.machine);
    tally ran = *machine_tally(t.machine);
    trainer_dismantle(&t);
    mesh_close(&m);
    return ran;
}

/* Returns the number of rows that differ, and prints them. */
static int differences(tally *paper, tally *host)
{
    int wrong = 0;
    for (int k = 0; k < OP_KINDS; k++) {
        const tally_row *p = &paper->kind[k], *h = &host->kind[k];
        bool same = p->count == h->count && p->flops == h->flops && p->bytes == h->bytes;
        if (!same) printf("# %s: %lld of %lld\n", op_kind_name(k), (long long)p->count, (long long)h->count);
        wrong += !same;
    }
    for (int a = 0; a < host->axes; a++) {
        const tally_axis *h = &host->axis[a], *p = &paper->axis[tally_axis_of(paper, h->axis)];
        bool same = p->messages == h->messages && p->bytes == h->bytes && p->sent == h->sent;
        if (!same) printf("# %s: %lld of %lld\n", h->axis, (long long)p->messages, (long long)h->messages);
        wrong += !same;
    }
    return wrong + (paper->axes != host->axes);
}

static void every_axis_has_the_operations_of_the_host(void **state)
{
    static const char *const keys[] = {
        "[llama3.1-8b]\ntensor = 2\n",  "[llama3.1-8b]\npipeline = 2\nchunks_per_stage = 2\n",
        "[llama3.1-8b]\ncontext = 2\n", "[llama3.1-8b]\ndata = 2\n",
        "[llama3.1-8b]\nshard = 2\n",   "[grok1-314b]\nexpert = 2\n"
    };
    double wrong = 0.0;
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char text[256];
        snprintf(text, sizeof text, "a\nb\nbackend = host\nsize = check\nlayers = 4\nglobal_batch = 4\n%s", keys[i]);
        bench_case c = case_of(text, RANKS);
        tally host = on_the_host(&c), paper = on_the_timeline(&c);
        assert_true(host.axes > 0 && tally_operations(&host) > 0);
        int differ = differences(&paper, &host);
        if (differ) printf("# rank %d: %s", world_rank(), keys[i]);
        wrong += differ;
    }
    world_sum(&wrong, 1);
    assert_true(wrong == 0.0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_axis_has_the_operations_of_the_host) };
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("timeline_counts", tests, NULL, NULL);
    world_stop();
    return failed;
}
