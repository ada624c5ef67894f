/* A step is submitted without waiting: between the calls of trainer_step and their return nothing synchronizes with the emulated
 * device (it ends the run if something does), nothing is even asked, and no memory is taken. */
#include "base/fail.h"
#include "emulator.h"
#include "machine/world.h"
#include "plan/deck.h"
#include "train/trainer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

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

/* Submits steps one ahead of those that are read, as a run does; returns what the submissions alone asked of the device. */
static long asked_inside(const char *text)
{
    bench_case c = case_of(text);
    trainer t;
    mesh m;
    trainer_options o = { .machine = { .kind = MACHINE_CUDA } };
    long asked = 0;
    mesh_open_alone(&m, 0);
    trainer_build(&t, &c, &m, &o);
    trainer_initialize(&t);
    for (int step = 0; step < STEPS; step++) {
        emulator_counts before = emulator_counted();
        emulator_step_begin();
        trainer_step(&t);
        emulator_step_end();
        emulator_counts after = emulator_counted();
        asked += after.queries - before.queries + after.synchronizations - before.synchronizations;
        assert_true(after.launches > before.launches);
        if (step > 0) mark_sync(t.finished[(step - 1) % REPORT_SLOTS]);
    }
    machine_sync(t.machine);
    trainer_dismantle(&t);
    mesh_close(&m);
    return asked;
}

static void steps_ask_nothing(void **state)
{
    static const char format[] = "a\nb\nbackend = cuda\nsize = check\nsteps = 3\nalgorithms = none\nprecision = %s\n[llama3.1-8b]\n";
    char text[256];
    for (int bf16 = 0; bf16 < 2; bf16++) {
        snprintf(text, sizeof text, format, bf16 ? "bf16" : "fp32");
        assert_int_equal(asked_inside(text), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(steps_ask_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
