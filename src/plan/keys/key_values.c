/* Values of keys: from the words of a deck into the fields of a case, and back. */
#include "base/sha256.h"
#include "plan/keys/keys.h"
#include "plan/keys/names.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULT_WORDS = 4, NTH_MOST = 1000000000, RANK_MOST = 2147483647, SHORTEST_WORD = 3 };

static const void *field_of(key_id key, const bench_case *c) { return (const char *)c + key_at(key)->offset; }

/* Handles fields of type int64_t, bool, or 32 bits: int, uint32_t, enumerations. */
int64_t key_integer(key_id key, const bench_case *c)
{
    const void *field = field_of(key, c);
    size_t bytes = key_at(key)->bytes;
    if (bytes == sizeof(int64_t)) return *(const int64_t *)field;
    return bytes == sizeof(uint32_t) ? *(const uint32_t *)field : *(const bool *)field;
}

void key_store(key_id key, bench_case *into, int64_t value)
{
    void *field = (char *)into + key_at(key)->offset;
    size_t bytes = key_at(key)->bytes;
    if (bytes == sizeof(int64_t)) *(int64_t *)field = value;
    else if (bytes == sizeof(uint32_t)) *(uint32_t *)field = (uint32_t)value;
    else *(bool *)field = value != 0;
}

static int word_index(const char *const *words, text_view value)
{
    for (int i = 0; words[i]; i++)
        if (text_equal(value, words[i])) return i;
    return -1;
}

static bool refuse_word(const char *const *words, text_view value, char sentence[KEY_SENTENCE])
{
    char shown[TEXT_SHOWN_LENGTH], list[KEY_SENTENCE / 2 + KEY_SENTENCE / 4];
    text_show(shown, value);
    names_list(words, list, sizeof list);
    snprintf(sentence, KEY_SENTENCE, "'%s' is none of: %s", shown, list);
    return false;
}

static bool read_bounded(text_view value, int64_t low, int64_t high, int64_t *out, char sentence[KEY_SENTENCE])
{
    char shown[TEXT_SHOWN_LENGTH];
    int64_t number = 0;
    number_state state = text_integer(value, &number);
    if (state == NUMBER_READ && number >= low && number <= high) {
        *out = number;
        return true;
    }
    text_show(shown, value);
    if (state == NUMBER_MALFORMED) snprintf(sentence, KEY_SENTENCE, "'%s' is not an integer", shown);
    else snprintf(sentence, KEY_SENTENCE, "%s is out of range, %lld to %lld", shown, (long long)low, (long long)high);
    return false;
}

static bool read_real(key_id key, text_view value, bench_case *into, char sentence[KEY_SENTENCE])
{
    const key_row *row = key_at(key);
    char shown[TEXT_SHOWN_LENGTH];
    double number = 0;
    number_state state = text_real(value, &number);
    if (state == NUMBER_READ && number >= row->least && number <= row->most) {
        *(double *)((char *)into + row->offset) = number;
        return true;
    }
    text_show(shown, value);
    if (state == NUMBER_MALFORMED) snprintf(sentence, KEY_SENTENCE, "'%s' is not a finite decimal number", shown);
    else if (state == NUMBER_TOO_SMALL)
        snprintf(sentence, KEY_SENTENCE, "%s is too small for a double, and is not zero", shown);
    else snprintf(sentence, KEY_SENTENCE, "%s is out of range, %g to %g", shown, row->least, row->most);
    return false;
}

static bool read_real_or_word(key_id key, text_view value, bench_case *into, char sentence[KEY_SENTENCE])
{
    const char *const *words = key_at(key)->words;
    int word = word_index(words, value);
    if (word < 0 && read_real(key, value, into, sentence)) return true;
    if (word < 0) {
        size_t used = strlen(sentence);
        used += (size_t)snprintf(sentence + used, KEY_SENTENCE - used, "; nor is it one of: ");
        names_list(words, sentence + used, KEY_SENTENCE - used);
        return false;
    }
    *(double *)((char *)into + key_at(key)->offset) = 0.0 - word;
    return true;
}

static bool read_range(key_id key, text_view value, bench_case *into, char sentence[KEY_SENTENCE])
{
    const key_row *row = key_at(key);
    char shown[TEXT_SHOWN_LENGTH], more;
    long long first = 0, last = 0;
    text_show(shown, value);
    bool none = row->words && word_index(row->words, value) >= 0;
    bool range = sscanf(shown, "%lld-%lld%c", &first, &last, &more) == 2 && first >= 0 && last <= row->high;
    bool good = none || (range && last - first >= row->low);
    if (good) *(number_range *)((char *)into + row->offset) = (number_range){ first, last };
    else
        snprintf(sentence, KEY_SENTENCE,
                 "'%s' is not FIRST-LAST, such as 20-25; LAST must be %s FIRST and at most %lld", shown,
                 row->low ? "above" : "at least", (long long)row->high);
    return good;
}

static bool read_fault(text_view value, planted_fault *into, char sentence[KEY_SENTENCE])
{
    planted_fault fault = { 0 };
    int64_t rank = 0;
    text_view rest = value, kind = text_word(&rest), operation = text_word(&rest), nth = text_word(&rest),
              on_rank = text_word(&rest);
    if (text_equal(value, "none")) {
        *into = fault;
        return true;
    }
    if (text_words(value) != FAULT_WORDS) {
        snprintf(sentence, KEY_SENTENCE, "takes 4 words, not %d: KIND OPERATION NTH RANK, such as drop all_reduce 3 1",
                 text_words(value));
        return false;
    }
    int found = word_index(fault_names, kind);
    if (found <= FAULT_NONE) return refuse_word(fault_names + 1, kind, sentence);
    if (word_index(operation_names, operation) < 0) return refuse_word(operation_names, operation, sentence);
    if (!read_bounded(nth, 1, NTH_MOST, &fault.nth, sentence) || !read_bounded(on_rank, 0, RANK_MOST, &rank, sentence))
        return false;
    fault.kind = (fault_kind)found;
    fault.rank = (int)rank;
    text_copy(fault.operation, sizeof fault.operation, operation);
    *into = fault;
    return true;
}

static bool read_path(text_view value, char *into, size_t size, char sentence[KEY_SENTENCE])
{
    if (text_words(value) != 1)
        snprintf(sentence, KEY_SENTENCE, "takes one path without blanks, not %d words", text_words(value));
    else if (value.length >= size)
        snprintf(sentence, KEY_SENTENCE, "the path has %zu bytes; at most %zu", value.length, size - 1);
    else return text_copy(into, size, value);
    return false;
}

static bool is_word(text_view value)
{
    static const char others[] = "0123456789._-";
    size_t i = 0;
    while (i < value.length && (isalpha((unsigned char)value.at[i]) || (i > 0 && strchr(others, value.at[i])))) i++;
    return i == value.length && i >= SHORTEST_WORD && !text_equal(value, "none");
}

static int64_t hash_word(text_view word)
{
    char hex[SHA256_HEX];
    sha256_of(word.at, word.length, hex);
    hex[8] = 0;
    return strtoll(hex, NULL, 16);
}

/* Stores the number that stands for a word. Refuses what may be a mistyped number or list. */
static bool read_word(text_view value, int64_t *out, char sentence[KEY_SENTENCE])
{
    char shown[TEXT_SHOWN_LENGTH];
    if (is_word(value)) return *out = hash_word(value), true;
    text_show(shown, value);
    snprintf(sentence, KEY_SENTENCE,
             "'%s' is neither an integer nor a word: a letter, then %d or more letters, digits, '.', '_', '-'", shown,
             SHORTEST_WORD - 1);
    return false;
}

static bool read_integer(key_id key, text_view value, int64_t *out, char sentence[KEY_SENTENCE])
{
    const key_row *row = key_at(key);
    if (row->takes_word && text_integer(value, out) == NUMBER_MALFORMED) return read_word(value, out, sentence);
    if (row->kind == KIND_INTEGER && row->words && text_equal(value, row->words[0])) return *out = 0, true;
    if (row->kind == KIND_INTEGER) return read_bounded(value, row->low, row->high, out, sentence);
    *out = word_index(row->words, value);
    return *out >= 0 || refuse_word(row->words, value, sentence);
}

bool key_read(key_id key, text_view value, bench_case *into, char sentence[KEY_SENTENCE])
{
    const key_row *row = key_at(key);
    int64_t number = 0;
    if (row->kind == KIND_FAULT) return read_fault(value, &into->fault, sentence);
    if (row->kind == KIND_PATH) return read_path(value, (char *)into + row->offset, row->bytes, sentence);
    if (row->kind == KIND_RANGE) return read_range(key, value, into, sentence);
    if (row->kind == KIND_REAL_OR_WORD) return read_real_or_word(key, value, into, sentence);
    if (row->kind == KIND_REAL) return read_real(key, value, into, sentence);
    if (!read_integer(key, value, &number, sentence)) return false;
    key_store(key, into, number);
    return true;
}

void key_fallbacks(bench_case *into)
{
    char sentence[KEY_SENTENCE];
    for (key_id key = 0; key < KEYS; key++)
        if (key_at(key)->fallback) key_read(key, text_of(key_at(key)->fallback), into, sentence);
}

static void write_fault(const planted_fault *fault, char out[KEY_TEXT])
{
    if (fault->kind == FAULT_NONE) strcpy(out, fault_names[FAULT_NONE]);
    else
        snprintf(out, KEY_TEXT, "%s %s %lld %d", fault_names[fault->kind], fault->operation, (long long)fault->nth,
                 fault->rank);
}

static void write_real_or_word(const key_row *row, double number, char out[KEY_TEXT])
{
    if (number <= 0.0) strcpy(out, row->words[(int)-number]);
    else snprintf(out, KEY_TEXT, "%.15g", number);
}

static void write_range(const key_row *row, number_range range, char out[KEY_TEXT])
{
    if (row->words && range.last == 0) strcpy(out, row->words[0]);
    else snprintf(out, KEY_TEXT, "%lld-%lld", (long long)range.first, (long long)range.last);
}

void key_write(key_id key, const bench_case *c, char out[KEY_TEXT])
{
    const key_row *row = key_at(key);
    switch (row->kind) {
    case KIND_WORD: strcpy(out, row->words[key_integer(key, c)]); break;
    case KIND_INTEGER: snprintf(out, KEY_TEXT, "%lld", (long long)key_integer(key, c)); break;
    case KIND_REAL: snprintf(out, KEY_TEXT, "%.15g", *(const double *)field_of(key, c)); break;
    case KIND_REAL_OR_WORD: write_real_or_word(row, *(const double *)field_of(key, c), out); break;
    case KIND_RANGE: write_range(row, *(const number_range *)field_of(key, c), out); break;
    case KIND_FAULT: write_fault(&c->fault, out); break;
    case KIND_PATH: strcpy(out, field_of(key, c)); break;
    }
}
