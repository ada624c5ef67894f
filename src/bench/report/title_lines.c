/* Lines of program, deck, ranks, libraries, devices, record. */
#include "bench/report/title_lines.h"
#include "base/build_info.h"
#include "base/clock.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/facts/rules.h"
#include "bench/launch/libraries.h"
#include "bench/paper/forecast.h"
#include "bench/record/place.h"
#include "bench/report/separators.h"
#include <string.h>

static bool is_backend_printed(const deck *d, int64_t i)
{
    for (int64_t k = 0; k < i; k++)
        if (d->item[k].backend == d->item[i].backend && !strcmp(d->item[k].backend_reason, d->item[i].backend_reason))
            return true;
    return false;
}

/* Prints each backend once; most decks have only one. */
static void say_backends(const deck *d)
{
    for (int64_t i = 0; i < d->cases; i++)
        if (!is_backend_printed(d, i))
            say("Backend    %s: %s\n", backend_name(d->item[i].backend), d->item[i].backend_reason);
}

enum { DEVICES_SHOWN = 64 };

/* Prints the devices of the first DEVICES_SHOWN ranks; without --verbose only that of rank 0. */
static void say_devices(const run_source *run)
{
    int shown = run->verbose ? DEVICES_SHOWN : 1;
    say("CUDA       %s\n", run->cuda);
    for (int i = 0; run->devices && i < run->ranks && i < shown; i++) {
        const machine_device *d = &run->devices[i];
        say("Rank %-5d %s on %.*s, %s, driver %s, %d multiprocessors, %.1f GB%s\n", i, d->name, HOST_NAME_BYTES,
            run->hosts + (size_t)i * HOST_NAME_BYTES, d->identity, d->driver, d->multiprocessors, d->memory_bytes / 1e9,
            d->ecc ? ", ECC" : "");
    }
    if (run->ranks > shown) say("           and %d more: the record lists them\n", run->ranks - shown);
}

static void say_merged_cases(const deck *d)
{
    for (int64_t i = 0; i < d->cases; i++)
        if (d->item[i].stands_for > 1)
            say("Case %-5d stands for %d combinations of its section, which differ only in unused keys; runs once\n",
                d->item[i].number, d->item[i].stands_for);
}

/* On a host nothing is known before the first steps. */
static void say_duration(const run_source *run)
{
    const deck *d = run->deck;
    deck_time t = { .device = run->devices ? run->devices[0].name : "" };
    for (int64_t i = 0; i < d->cases; i += d->item[i].repeats)
        if (!d->item[i].skipped[0]) forecast_add(&t, &d->item[i], NULL);
    forecast_deck(&t, "Duration   ");
    if (t.seconds == 0.0)
        say("Duration   unknown before the first steps: no published step time applies; see the line Estimate\n");
}

/* Memory may skip further cases. */
static void say_skipped(const deck *d)
{
    for (int64_t i = 0; i < d->cases; i++)
        if (d->item[i].skipped[0])
            say("SKIPPED    case %d, %s: %s\n", d->item[i].number, d->item[i].workload, d->item[i].skipped);
}

static void say_place_notes(const record_place *p)
{
    for (int i = 0; i < PLACE_NOTES; i++)
        if (p->note[i][0]) say("Record     %s\n", p->note[i]);
}

/* Preloaded libraries may change the effect of any call. */
static void say_preloaded(const library_list *l)
{
    for (int i = 0; l && i < l->count; i++)
        if (l->item[i].preloaded) say("Preloaded  %s (%s)\n", l->item[i].path, l->item[i].identity);
}

void say_title(const run_source *run)
{
    const deck *d = run->deck;
    char start[CLOCK_TEXT];
    say("%s", THICK_LINE);
    say("xgsw  --  real large-language-model training steps, timed and verified\n");
    say("commit %.12s%s, built %s\n", build_commit, build_dirty ? " (modified)" : "", build_date);
    say("%s", THICK_LINE);
    say("%s\n%s\n\n", d->title[0], d->title[1]);
    say("Deck       %s, %lld case%s on %d rank%s of %d thread%s\n", run->deck_name, (long long)d->cases,
        plural(d->cases), run->ranks, plural(run->ranks), run->threads, plural(run->threads));
    say("Start      %s\n", clock_text(start));
    say_duration(run);
    if (d->no_effect[0]) say("No effect  %s\n", d->no_effect);
    say_skipped(d);
    say_merged_cases(d);
    say_backends(d);
    say_place_notes(run->place);
    say("Libraries  %s; %s\n", run->products, run->mpi);
    say_preloaded(run->libraries);
    say("PASSED     the results of a case agree with references: its residual, replayed products and transfers\n"
        "VALID      its time is undisturbed and complete (validation/RULES.md, " RULES_VERSION ")\n"
        "GPU in figures means rank. Step lines have times of rank 0; summaries have times of the slowest rank.\n");
    if (run->cuda && run->cuda[0]) say_devices(run);
}
