/* For tests of src/plan: reads a deck from a string. */
#pragma once
#include "plan/deck/deck.h"
#include "units/tests.h"

#define TITLES "first title\nsecond title\n"

/* Returns the deck as a run with `ranks` ranks on the host reads it. */
static inline deck deck_of(const char *body, int ranks)
{
    deck_source source = { .name = "DECK", .text = body, .length = strlen(body), .ranks = ranks };
    return deck_read(&source);
}

/* Returns the deck as a dry run reads it. */
static inline deck dry_deck_of(const char *body, int ranks)
{
    deck_source source = {
        .name = "DECK", .text = body, .length = strlen(body), .ranks = ranks, .node_ranks = 8, .dry_run = true
    };
    return deck_read(&source);
}

/* Returns the only case of a deck without errors. body has no titles. */
static inline bench_case case_of(const char *body, int ranks, bool dry_run)
{
    char titled[8192];
    snprintf(titled, sizeof titled, TITLES "%s", body);
    deck d = dry_run ? dry_deck_of(titled, ranks) : deck_of(titled, ranks);
    if (d.messages) fail_msg("%s", d.message[0].line);
    assert_int_equal(d.cases, 1);
    bench_case c = d.item[0];
    deck_free(&d);
    return c;
}
