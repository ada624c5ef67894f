/* Views of text, whose bytes belong to the caller: words, numbers, edit distance; plurals. Blanks are space and tab. */
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
/* Returns the index of the first byte equal to c, or t.length. */
size_t text_find(text_view t, char c);
/* Returns the ending of a noun after its number: "" for one, else "s". */
const char *plural(int64_t number);
text_view text_from(text_view t, size_t from);
/* Takes the next blank-separated word from the front of *rest; it is empty if there is none. */
text_view text_word(text_view *rest);
int text_words(text_view t);
/* Reads a decimal integer with an optional sign and nothing else. TOO_LARGE: outside the 64-bit range. */
number_state text_integer(text_view t, int64_t *value);
/* Reads a finite decimal: [sign] digits [. digits] [e [sign] digits]. TOO_SMALL: nonzero, but 0 as a double. */
number_state text_real(text_view t, double *value);
/* Returns the Levenshtein distance (insertions, deletions, replacements) of the first 63 bytes of each. */
int text_distance(text_view t, const char *string);
/* Returns whether t is like string: its first 3 or more bytes, or a distance of at most a third of the longer one. */
bool text_near(text_view t, const char *string);
/* Copies to a zero-terminated string. If it does not fit, returns false and writes an empty string. */
bool text_copy(char *out, size_t size, text_view t);
/* Copies text for a message: at most TEXT_SHOWN bytes, then "..."; UTF-8 characters stay whole; tabs become spaces. */
void text_show(char out[TEXT_SHOWN_LENGTH], text_view t);
