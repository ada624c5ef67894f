/* A deck as written: sections, and for each key its line and the text of its value. Views into the deck's
 * bytes. */
#pragma once
#include "plan/catalogue/catalogue.h"
#include "plan/keys/keys.h"
#include "plan/keys/mistakes.h"

typedef struct {
    int line;
    text_view value;
} deck_setting; /* line 0: not given */

typedef struct {
    const workload_row *workload; /* NULL before the first section and where there is no such workload */
    int line;
    bool sound; /* every value could be read */
    deck_setting setting[KEYS];
} deck_section;

typedef struct {
    int sections;          /* at least 1 */
    deck_section *section; /* [0]: keys before the first section, which hold for all; owned */
    int last_line;
} written_deck;

enum { DECK_BYTES = 1048576, DECK_LINE_BYTES = 2000, DECK_SECTIONS = 1000, DECK_SWEEP_VALUES = 64 };

/* Reports whether the bytes are a text at all: not empty, not too long, UTF-8 without byte order mark and control bytes
 * (tab, newline, and carriage return before a newline are none). */
bool deck_is_text(const deck_source *source, mistakes *wrong);
/* Reports lines, keys and values that cannot be read. Titles of 255 bytes at most. */
written_deck deck_scan(const deck_source *source, char title[2][256], mistakes *wrong);
void written_free(written_deck *w);
