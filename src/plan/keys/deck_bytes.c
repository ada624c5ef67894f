/* Test whether the bytes of a deck are a text. */
#include "plan/keys/deck_text.h"

typedef struct {
    size_t at;
    int line;
} place;

static bool starts_with(const deck_source *s, const char *bytes, size_t length)
{
    return s->length >= length && text_equal((text_view){ s->text, length }, bytes);
}

/* Returns the length of the UTF-8 character at i (RFC 3629: not overlong, no surrogate, at most U+10FFFF), or 0. */
static size_t character_length(const deck_source *s, size_t i)
{
    const unsigned char *b = (const unsigned char *)s->text + i;
    size_t left = s->length - i, length = b[0] < 0x80   ? 1
                                          : b[0] < 0xC2 ? 0
                                          : b[0] < 0xE0 ? 2
                                          : b[0] < 0xF0 ? 3
                                          : b[0] < 0xF5 ? 4
                                                        : 0;
    if (length > left) return 0;
    for (size_t k = 1; k < length; k++)
        if ((b[k] & 0xC0u) != 0x80u) return 0;
    bool overlong = (b[0] == 0xE0 && b[1] < 0xA0) || (b[0] == 0xF0 && b[1] < 0x90);
    bool outside = (b[0] == 0xED && b[1] >= 0xA0) || (b[0] == 0xF4 && b[1] >= 0x90);
    return overlong || outside ? 0 : length;
}

static bool is_control(const deck_source *s, size_t i)
{
    unsigned char c = (unsigned char)s->text[i];
    bool line_end = c == '\r' && i + 1 < s->length && s->text[i + 1] == '\n';
    return (c < 0x20 && c != '\t' && c != '\n' && !line_end) || c == 0x7F;
}

static place first_invalid(const deck_source *s)
{
    place p = { 0, 1 };
    while (p.at < s->length && character_length(s, p.at) && !is_control(s, p.at)) {
        p.line += s->text[p.at] == '\n';
        p.at += character_length(s, p.at);
    }
    return p;
}

bool deck_is_text(const deck_source *s, mistakes *wrong)
{
    if (s->length == 0) {
        mistake(wrong, 1, "deck", "is empty");
        return false;
    }
    if (s->length > DECK_BYTES) {
        mistake(wrong, 1, "deck", "has more than %d bytes", DECK_BYTES);
        return false;
    }
    bool utf16 = starts_with(s, "\xFF\xFE", 2) || starts_with(s, "\xFE\xFF", 2);
    bool has_mark = starts_with(s, "\xEF\xBB\xBF", 3);
    place invalid = first_invalid(s);
    if (utf16) mistake(wrong, 1, "deck", "is UTF-16; save it as UTF-8 or ASCII");
    else if (has_mark) mistake(wrong, 1, "deck", "starts with a byte order mark; save it without");
    else if (invalid.at < s->length)
        mistake(wrong, invalid.line, "deck", "byte 0x%02x at offset %zu is not text",
                (unsigned char)s->text[invalid.at], invalid.at);
    return !utf16 && !has_mark && invalid.at == s->length;
}
