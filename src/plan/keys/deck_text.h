/* A deck as written: its sections, and the line and text of each value. Texts are views into the deck's bytes. */
#pragma once
#include "plan/catalogue/catalogue.h"
#include "plan/keys/keys.h"
#include "plan/keys/mistakes.h"

typedef struct {
    int line;
    text_view value;
} deck_setting; /* line 0: the key is not given */

typedef struct {
    const workload_row *workload; /* NULL before the first section, and if the workload is unknown */
    int line;
    bool readable; /* every value could be read */
    deck_setting setting[KEYS];
} deck_section;

typedef struct {
    int sections;          /* at least 1 */
    deck_section *section; /* [0]: keys before the first section, which apply to all; owned */
    int last_line;
} written_deck;

enum { DECK_BYTES = 1048576, DECK_LINE_BYTES = 2000, DECK_SECTIONS = 1000, DECK_SWEEP_VALUES = 64 };

/* Returns whether the deck is UTF-8, not empty and not too long, without a byte order mark and control characters other
 * than tab and line ends; if not, adds a mistake. */
bool deck_is_text(const deck_source *source, mistakes *wrong);
/* Returns the sections and copies the two titles (at most 255 bytes each). Adds a mistake for each line, key and value
 * that cannot be read. Free the result with written_free. */
written_deck deck_scan(const deck_source *source, char title[2][256], mistakes *wrong);
void written_free(written_deck *w);
