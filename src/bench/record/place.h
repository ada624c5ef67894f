/* Place of a run's record: the name in the deck, or a free name next to it if another run uses that. A file that is not
 * a record of xgsw is never replaced, an earlier record is kept under another name, and links are not followed. */
#pragma once
#include "base/sha256.h"
#include "plan/bench_case.h"
#include <stdbool.h>
#include <stddef.h>

/* First bytes of a journal. */
#define JOURNAL_BEGIN "xgsw journal 3\n"

enum { PLACE_LENGTH = PATH_LENGTH + 32, PLACE_NOTES = 2, PLACE_NOTE = 3 * PLACE_LENGTH, PLACE_END = 16 };
typedef struct record_place {
    bool none; /* no record, no journal */
    char record[PLACE_LENGTH], journal[PLACE_LENGTH];
    int file;                           /* the empty journal, open for appending; locked while the run lives */
    char note[PLACE_NOTES][PLACE_NOTE]; /* notes about the names for the user; empty if none */
    bool kept;                          /* an earlier record has been renamed */
    char sha256[SHA256_HEX];            /* SHA-256 of the last written record; empty if none was written */
} record_place;

/* Reserves the name. On failure returns false and writes a reason. */
bool place_take(record_place *p, const char *asked, char *reason, size_t length);
/* Renames an earlier record with its verdict and signature. Call it before each write of this run's record; only the
 * first call does something. Until the write, the record's name still leads to the earlier record, if the file system
 * has links. */
bool place_keep_earlier(record_place *p, char *reason, size_t length);
/* Writes the name of a file that belongs to a record. end ".verdict": gsw.h5 -> gsw.verdict. */
void place_end(char out[PLACE_LENGTH + PLACE_END], const char *record, const char *end);
/* Deletes the journal. */
void place_forget_journal(const record_place *p);
void place_leave(record_place *p);
