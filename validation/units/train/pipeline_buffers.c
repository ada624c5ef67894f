/* Measures on paper how far a stage runs ahead of its neighbours. Leaves out every wait of a step once; the hazard
 * shows which transfer the buffer was kept for. An output is sent while the next is made; one gradient is received and
 * one sent while the one between is in use. With one buffer less, results would stay correct, but slower. */
#include "left_out.h"
#include "units/tests.h"

enum { STEPS = 2, MICROBATCHES = 7, OUTPUT_BUFFERS = 2, GRADIENT_BUFFERS = 3 };

/* Returns the microbatches between the transfer and the operation that must wait for it; 0 for other hazards. */
static int microbatches_between(const char *sentence, const char *sent, const char *next)
{
    char format[160];
    int from, to, step, last = STEPS - 1;
    snprintf(format, sizeof format, "exchange %s (step %d, microbatch %%d, %%*[^)]) and %s (step %%d, microbatch %%d,",
             sent, last, next);
    return sscanf(sentence, format, &from, &step, &to) == 3 && step == last ? to - from : 0;
}

typedef struct {
    int found, least, most;
} distance;

static void note(distance *d, int microbatches)
{
    if (microbatches <= 0) return;
    d->least = d->found && d->least < microbatches ? d->least : microbatches;
    d->most = d->most > microbatches ? d->most : microbatches;
    d->found++;
}

/* Measures stage `rank` of four. */
static void distances(int rank, distance *outputs, distance *gradients)
{
    char text[512];
    snprintf(text, sizeof text,
             "a\nb\nbackend = host\nsteps = %d\nwarmup = 0\ncheck = off\n[llama3.1-8b]\nsize = small\nlayers = "
             "4\npipeline = 4\n"
             "schedule = gpipe\nprecision = fp32\nglobal_batch = %d\n",
             STEPS, MICROBATCHES);
    bench_case c = case_of(text, 4);
    paper whole = on_paper(&c, STEPS, (place){ rank, STEPS - 1, -1 });
    assert_int_equal(whole.hazards.count, 0);
    for (int64_t i = 0; i < whole.waits; i++) {
        paper p = on_paper(&c, STEPS, (place){ rank, STEPS - 1, i });
        for (int k = 0; k < p.hazards.sentences; k++) {
            note(outputs, microbatches_between(p.hazards.sentence[k], "activation", "add output"));
            note(gradients, microbatches_between(p.hazards.sentence[k], "gradient", "exchange gradient"));
        }
    }
}

static void exactly(distance d, int found, int microbatches)
{
    assert_int_equal(d.found, found);
    if (!found) return;
    assert_int_equal(d.least, microbatches);
    assert_int_equal(d.most, microbatches);
}

static void first_stage(void **state)
{
    distance outputs = { 0 }, gradients = { 0 };
    distances(0, &outputs, &gradients);
    exactly(outputs, MICROBATCHES - OUTPUT_BUFFERS, OUTPUT_BUFFERS);
    exactly(gradients, 0, 0);
}

static void middle_stage(void **state)
{
    distance outputs = { 0 }, gradients = { 0 };
    distances(1, &outputs, &gradients);
    exactly(outputs, MICROBATCHES - OUTPUT_BUFFERS, OUTPUT_BUFFERS);
    exactly(gradients, MICROBATCHES - GRADIENT_BUFFERS, GRADIENT_BUFFERS);
}

TEST_PROGRAM("pipeline_buffers", NULL, NULL, first_stage, middle_stage)
