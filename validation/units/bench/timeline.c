/* Time on paper, against schedules that are worked out by hand. Only attention takes time here, forward 1 s a layer and
 * backward 2 s: all sums are exact, so times are equal to the last bit. */
#include "machine/paper/timeline.h"
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
    double *end = me;
    if (e->end > end[e->what->step]) end[e->what->step] = e->end;
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(bubbles_are_those_of_the_formulas) };
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
    world_stop();
    return failed;
}
