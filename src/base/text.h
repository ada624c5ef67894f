/* Pieces of text that are not copied: words, strict numbers, the distance between two words; plurals.
 * A text is a view; the bytes belong to whoever read them. Blanks are space and tab. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *at;
    size_t length;
} text_view;
typedef enum { NUMBER_READ, NUMBER_MALFORMED, NUMBER_TOO_LARGE, NUMBER_TOO_SMALL } number_state;

enum { TEXT_SHOWN = 40, TEXT_SHOWN_LENGTH = TEXT_SHOWN + 4 };

text_view text_of(const char *string);
text_view text_trim(text_view t);
bool text_equal(text_view t, const char *string);
/* Index of the first byte equal to c, or t.length. */
size_t text_find(text_view t, char c);
/* Ending of a noun behind its number: "" of one, else "s". */
const char *plural(int64_t number);
text_view text_from(text_view t, size_t from);
/* Takes the next blank-separated word off the front of *rest; empty when there is none. */
text_view text_word(text_view *rest);
int text_words(text_view t);
/* Decimal integer with an optional sign and nothing else. TOO_LARGE: outside the 64-bit range. */
number_state text_integer(text_view t, int64_t *value);
/* Decimal number [sign] digits [. digits] [e [sign] digits], finite. TOO_SMALL: not zero, but would be read as zero. */
number_state text_real(text_view t, double *value);
/* Levenshtein distance of the first 63 bytes of each: insertions, deletions and replacements of one byte. */
int text_distance(text_view t, const char *string);
/* May t be meant for it? At most a third of the longer differs, or t is its beginning, three bytes or more. */
bool text_near(text_view t, const char *string);
/* Copies to a zero-terminated string and returns true; false, and an empty string, if it does not fit. */
bool text_copy(char *out, size_t size, text_view t);
/* The text in a message: TEXT_SHOWN bytes at most, then "...", never half a UTF-8 character; a tab as a blank. */
void text_show(char out[TEXT_SHOWN_LENGTH], text_view t);
