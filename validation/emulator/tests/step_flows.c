/* Steps are submitted without waiting. During trainer_step nothing synchronizes with the emulated device (this would
 * end the run), and no memory is allocated. As long as queues have space, nothing is even queried. */
#include "base/fail.h"
#include "emulator.h"
#include "plan/deck/deck.h"
#include "train/measure.h"
#include "units/test_length.h"
#include "units/tests.h"

enum { STEPS = 3 };

static bench_case case_of(const char *text)
{
    deck_source source = { .name = "test", .text = text, .length = strlen(text), .ranks = 1, .cuda_usable = true };
    deck d = deck_read(&source);
    if (d.messages) FAIL("%s", d.message[0].line);
    bench_case c = d.item[0];
    deck_free(&d);
    return c;
}

/* Returns the queries and waits of submissions alone. As in a run, a step is submitted before the previous one is
 * read. */
static emulator_counts inside(const char *text)
{
    bench_case c = case_of(text);
    trainer t;
    mesh m;
    trainer_options o = { .machine = { .kind = MACHINE_CUDA } };
    emulator_counts asked = { 0 };
    mesh_open_alone(&m, 0);
    measure share = measure_case(&c, &m, &o);
    trainer_build(&t, &c, &m, &o, &share);
    measure_free(&share);
    trainer_initialize(&t);
    machine_sync(t.machine);
    for (int step = 0; step < STEPS; step++) {
        emulator_counts before = emulator_counted();
        emulator_step_begin();
        trainer_step(&t);
        emulator_step_end();
        emulator_counts after = emulator_counted();
        asked.queries += after.queries - before.queries;
        asked.synchronizations += after.synchronizations - before.synchronizations;
        assert_true(after.launches > before.launches);
        if (step > 0) mark_sync(t.finished[(step - 1) % REPORT_SLOTS]);
    }
    machine_sync(t.machine);
    trainer_dismantle(&t);
    mesh_close(&m);
    return asked;
}

static emulator_counts of_size(const char *precision, int layers, int sequences)
{
    static const char format[] = "a\nb\nbackend = cuda\nsize = check\nsteps = 3\nprecision = "
                                 "%s\nlayers = %d\nglobal_batch = %d\n[llama3.1-8b]\n";
    char text[256];
    snprintf(text, sizeof text, format, precision, layers, sequences);
    return inside(text);
}

/* Two steps of one layer fit into their queues. */
static void steps_ask_nothing(void **state)
{
    static const char *const precisions[] = { "bf16", "fp32" };
    for (int i = 0; i < (test_is_full() ? 2 : 1); i++) {
        emulator_counts asked = of_size(precisions[i], 1, 1);
        assert_int_equal(asked.queries, 0);
        assert_int_equal(asked.synchronizations, 0);
    }
}

/* In longer steps the host waits for space by queries; a synchronization would empty the queue. */
static void long_steps_ask_for_room(void **state)
{
    emulator_counts asked = test_is_full() ? of_size("bf16", 6, 4) : of_size("bf16", 3, 2);
    assert_true(asked.queries > 0);
    assert_int_equal(asked.synchronizations, 0);
}

/* Launches query nothing if multiprocessors are left to transfers: on a GPU such a query took 2.5 ms. */
static void launches_ask_nothing(void **state)
{
    float *memory = machine_memory_take(MACHINE_CUDA, sizeof *memory);
    machine *m = machine_open(&(machine_options){ .kind = MACHINE_CUDA, .tuning.transfer_multiprocessors = 8 });
    queue *q = machine_queue(m, "launches");
    for (int i = 0; i < 2; i++) { /* the first opens the queue */
        if (i == 1) emulator_step_begin();
        submit(q, "fill", fill_op(tensor_1d(memory, F32, 1), 1.0));
    }
    emulator_step_end();
    machine_sync(m);
    machine_close(m);
    machine_memory_give_back(MACHINE_CUDA, memory);
}

TEST_PROGRAM("step_flows", NULL, NULL, launches_ask_nothing, steps_ask_nothing, long_steps_ask_for_room)
