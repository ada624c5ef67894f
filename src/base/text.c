/* Views of text. */
#include "base/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DISTANCE_LENGTH = 63, REAL_LENGTH = 128 };

static bool is_blank(char c) { return c == ' ' || c == '\t'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

text_view text_of(const char *string) { return (text_view){ string, strlen(string) }; }

text_view text_trim(text_view t)
{
    while (t.length && is_blank(t.at[0])) t = text_from(t, 1);
    while (t.length && is_blank(t.at[t.length - 1])) t.length--;
    return t;
}

bool text_equal(text_view t, const char *string)
{
    return strlen(string) == t.length && memcmp(t.at, string, t.length) == 0;
}

size_t text_find(text_view t, char c)
{
    const char *found = t.length ? memchr(t.at, c, t.length) : NULL;
    return found ? (size_t)(found - t.at) : t.length;
}

text_view text_from(text_view t, size_t from) { return (text_view){ t.at + from, t.length - from }; }

text_view text_word(text_view *rest)
{
    text_view t = text_trim(*rest);
    size_t length = 0;
    while (length < t.length && !is_blank(t.at[length])) length++;
    *rest = text_from(t, length);
    return (text_view){ t.at, length };
}

int text_words(text_view t)
{
    int words = 0;
    while (text_word(&t).length) words++;
    return words;
}

const char *plural(int64_t number) { return number == 1 ? "" : "s"; }

/* Counts the digits from position i on. */
static size_t digits(text_view t, size_t i)
{
    size_t count = 0;
    while (i + count < t.length && is_digit(t.at[i + count])) count++;
    return count;
}

static size_t sign(text_view t, size_t i) { return i < t.length && (t.at[i] == '-' || t.at[i] == '+'); }

number_state text_integer(text_view t, int64_t *value)
{
    size_t i = sign(t, 0);
    int direction = i && t.at[0] == '-' ? -1 : 1;
    if (!digits(t, i) || i + digits(t, i) != t.length) return NUMBER_MALFORMED;
    int64_t read = 0;
    for (; i < t.length; i++)
        if (__builtin_mul_overflow(read, 10, &read) || __builtin_add_overflow(read, direction * (t.at[i] - '0'), &read))
            return NUMBER_TOO_LARGE;
    *value = read;
    return NUMBER_READ;
}

static bool is_real(text_view t)
{
    size_t i = sign(t, 0), whole = digits(t, i), fraction = 0;
    i += whole;
    if (i < t.length && t.at[i] == '.') {
        fraction = digits(t, i + 1);
        i += 1 + fraction;
    }
    if (whole + fraction == 0) return false;
    if (i < t.length && (t.at[i] == 'e' || t.at[i] == 'E')) {
        size_t start = i + 1 + sign(t, i + 1);
        if (!digits(t, start)) return false;
        i = start + digits(t, start);
    }
    return i == t.length;
}

/* Returns whether a digit other than 0 stands before the exponent. */
static bool is_nonzero(text_view t)
{
    for (size_t i = 0; i < t.length && t.at[i] != 'e' && t.at[i] != 'E'; i++)
        if (t.at[i] >= '1' && t.at[i] <= '9') return true;
    return false;
}

number_state text_real(text_view t, double *value)
{
    char copy[REAL_LENGTH];
    if (!is_real(t) || !text_copy(copy, sizeof copy, t)) return NUMBER_MALFORMED;
    double read = strtod(copy, NULL);
    if (!isfinite(read)) return NUMBER_TOO_LARGE;
    if (read == 0.0 && is_nonzero(t)) return NUMBER_TOO_SMALL;
    *value = read;
    return NUMBER_READ;
}

static size_t at_most(size_t a, size_t b) { return a < b ? a : b; }

int text_distance(text_view t, const char *string)
{
    int row[DISTANCE_LENGTH + 1]; /* distances of t's first i bytes to each prefix of string */
    size_t rows = at_most(t.length, DISTANCE_LENGTH), columns = at_most(strlen(string), DISTANCE_LENGTH);
    for (size_t j = 0; j <= columns; j++) row[j] = (int)j;
    for (size_t i = 1; i <= rows; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= columns; j++) {
            int replaced = diagonal + (t.at[i - 1] != string[j - 1]);
            int shifted = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = replaced < shifted ? replaced : shifted;
        }
    }
    return row[columns];
}

bool text_near(text_view t, const char *string)
{
    size_t length = strlen(string), longer = t.length > length ? t.length : length;
    bool begins = t.length >= 3 && t.length < length && memcmp(t.at, string, t.length) == 0;
    return begins || 3 * (size_t)text_distance(t, string) <= longer;
}

bool text_copy(char *out, size_t size, text_view t)
{
    bool fits = t.length < size;
    size_t length = fits ? t.length : 0;
    memcpy(out, t.at, length);
    out[length] = '\0';
    return fits;
}

void text_show(char out[TEXT_SHOWN_LENGTH], text_view t)
{
    size_t length = at_most(t.length, TEXT_SHOWN);
    while (length < t.length && length && ((unsigned char)t.at[length] & 0xC0u) == 0x80u) length--;
    for (size_t i = 0; i < length; i++) out[i] = t.at[i] == '\t' ? ' ' : t.at[i];
    strcpy(out + length, length < t.length ? "..." : "");
}
