/* Measures the cost of the journal: its fraction of the time of 50 ms steps that use more memory than the caches hold.
 * journal STEPS: one run, in the current folder. */
#include "base/clock.h"
#include "bench/facts/sink.h"
#include "bench/record/place.h"
#include "bench/record/provenance.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY = 64 << 20 };
#define STEP_SECONDS 0.05

static bench_case given = { .number = 1, .layout = { .ranks = 1 } };

/* Returns when the time of one step has passed. */
static void compute(unsigned char *memory)
{
    double begin = clock_seconds();
    for (int round = 1; clock_seconds() - begin < STEP_SECONDS; round++) memset(memory, round, MEMORY / 8);
}

/* Returns the seconds that the journal took in all steps. */
static double journal_seconds(void *journal, const case_result *r, unsigned char *memory)
{
    double spent = 0.0;
    for (int64_t step = 0; step < given.steps; step++) {
        compute(memory + step % 8 * (MEMORY / 8));
        double begin = clock_seconds();
        journal_sink.step(journal, r, &(step_now){ .step = step });
        spent += clock_seconds() - begin;
    }
    return spent;
}

int main(int words, char **word)
{
    given.steps = words == 2 ? strtol(word[1], NULL, 10) : 0;
    deck planned = { .item = &given, .cases = 1 };
    record_place place;
    run_source run = { .deck = &planned, .deck_text = "", .place = &place };
    char reason[4096];
    void *journal;
    unsigned char *memory = malloc(MEMORY);
    if (!memory || !place_reserve(&place, "journal-bench.h5", reason, sizeof reason)) return puts("no journal"), 1;
    run.provenance = provenance_open(&run);
    if (!journal_sink.open(&journal, &run, reason, sizeof reason)) return puts(reason), 1;
    case_result r;
    result_open(&r, &given);
    double begin = clock_seconds(), spent = journal_seconds(journal, &r, memory), all = clock_seconds() - begin;
    printf("journal    %.1f us a step, %.4f %% of %lld steps of %.0f ms\n", 1e6 * spent / (double)given.steps,
           100.0 * spent / all, (long long)given.steps, 1e3 * STEP_SECONDS);
    place_delete_journal(&place);
    return 0;
}
