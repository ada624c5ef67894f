/* Fuzzes the parser of the deck. The input is one byte for ranks and kind of run, then the deck. */
#include "units/plan/deck_sound.h"
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0) return 0;
    deck_source source = { .name = "DECK",
                           .text = (const char *)bytes + 1,
                           .length = size - 1,
                           .ranks = 1 << (bytes[0] % 13),
                           .dry_run = bytes[0] & 0x80 };
    deck d = deck_read(&source);
    const char *wrong = deck_unsound(&d);
    if (wrong) fprintf(stderr, "%s\n", wrong);
    if (wrong) abort();
    deck_free(&d);
    return 0;
}
