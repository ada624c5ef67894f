/* What the journal costs: seconds of an entry of a step, beside a step of 50 ms, in this folder. */
#include "base/clock.h"
#include "bench/record/place.h"
#include "bench/record/provenance.h"
#include "bench/result/sinks.h"
#include <stdio.h>
#include <string.h>

enum { ENTRIES = 20000 };

int main(void)
{
    static bench_case c = { .number = 1, .steps = 1, .layout = { .ranks = 1 } };
    deck planned = { .item = &c, .cases = 1 };
    record_place place;
    run_source run = { .deck = &planned, .deck_text = "", .place = &place };
    char reason[4096];
    void *state;
    if (!place_take(&place, "journal-bench.h5", reason, sizeof reason)) return fprintf(stderr, "%s\n", reason), 1;
    run.provenance = provenance_open(&run);
    if (!journal_sink.open(&state, &run, reason, sizeof reason)) return fprintf(stderr, "%s\n", reason), 1;
    case_result r;
    result_open(&r, &c);
    double begin = clock_seconds();
    for (int i = 0; i < ENTRIES; i++) journal_sink.step_ends(state, &r, 0);
    double seconds = (clock_seconds() - begin) / ENTRIES;
    printf("journal: %.2f us an entry, %.4f %% of a step of 50 ms\n", 1e6 * seconds, 100.0 * seconds / 0.05);
    place_forget_journal(&place);
    return seconds / 0.05 < 0.005 ? 0 : 1;
}
