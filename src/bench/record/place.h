/* Place of a run's record: the name in the deck, or a similar free name in the same folder if another run uses the
 * name. A file that is not a record of xgsw is never replaced, an earlier record is renamed, and links are not
 * followed. */
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
bool place_reserve(record_place *p, const char *name, char *reason, size_t length);
/* Renames an earlier record with its verdict and signature in the first call; later calls do nothing. Call it before
 * each write of this run's record. If the file system has links, the record's old name remains valid until the write.
 */
bool place_keep_earlier(record_place *p, char *reason, size_t length);
/* Writes the name of a file that belongs to a record: gsw.verdict for record gsw.h5 and end ".verdict". */
void place_end(char out[PLACE_LENGTH + PLACE_END], const char *record, const char *end);
void place_delete_journal(const record_place *p);
void place_close(record_place *p);
