/* Where a run's record goes, and who may write there: the name that the deck gives, or a free one beside it where
 * another run has that. What stands at a name and is no record of xgsw is never replaced, an earlier record is kept
 * under a name of its own, and no link is followed. */
#pragma once
#include "base/sha256.h"
#include "plan/bench_case.h"
#include <stdbool.h>
#include <stddef.h>

/* The first bytes of a journal. */
#define JOURNAL_BEGIN "xgsw journal 3\n"

enum { PLACE_LENGTH = PATH_LENGTH + 32, PLACE_NOTES = 2, PLACE_NOTE = 3 * PLACE_LENGTH, PLACE_END = 16 };
typedef struct record_place {
    bool none; /* no record, no journal */
    char record[PLACE_LENGTH], journal[PLACE_LENGTH];
    int file;                           /* the journal, empty, open for appending; locked while the run lives */
    char note[PLACE_NOTES][PLACE_NOTE]; /* what the user should know of the names; empty: nothing */
    bool kept;                          /* an earlier record has been moved out of the way */
    char sha256[SHA256_HEX];            /* of the record as it was last written; empty: it was not */
} record_place;

/* Takes the name, or refuses: false and a sentence. */
bool place_take(record_place *p, const char *asked, char *reason, size_t length);
/* Renames an earlier run's record, its verdict and its signature: once, before this run's is first written. The
 * record's name leads to the old one until then. */
bool place_keep_earlier(record_place *p, char *reason, size_t length);
/* Writes the name of a file that belongs to a record; end ".verdict": gsw.h5 -> gsw.verdict. */
void place_end(char out[PLACE_LENGTH + PLACE_END], const char *record, const char *end);
/* The journal is no longer needed. */
void place_forget_journal(const record_place *p);
void place_leave(record_place *p);
