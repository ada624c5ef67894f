/* Scanner, line by line: two titles, then `key = value ...` and `[workload]`, each with an optional remark. */
#include "plan/keys/deck_text.h"
#include "base/memory.h"
#include <string.h>

typedef struct {
    const deck_source *source;
    mistakes *wrong;
    written_deck deck;
    int line;
    bool full; /* too many sections: the rest is not read */
} scanner;

/* Doubles the memory whenever the number of sections is a power of two. */
static void open_section(scanner *s, const workload_row *workload)
{
    written_deck *d = &s->deck;
    int64_t sections = d->sections;
    if ((sections & (sections - 1)) == 0)
        d->section = reallocate(d->section, sections ? 2 * sections : 1, sizeof *d->section, "the deck's sections");
    d->section[sections] = (deck_section){ .workload = workload, .line = s->line, .readable = true };
    d->sections++;
}

static void scan_name(scanner *s, text_view name)
{
    char shown[TEXT_SHOWN_LENGTH], remedy[2 * NAME_LENGTH];
    text_show(shown, name);
    const workload_row *workload = workload_find(name);
    if (name.length == 0) mistake(s->wrong, s->line, "section", "names no workload");
    else if (!workload)
        mistake(s->wrong, s->line, "section", "'%s' is not a workload; %s", shown, workload_remedy(name, remedy));
    open_section(s, workload);
}

static void scan_section(scanner *s, text_view line)
{
    char shown[TEXT_SHOWN_LENGTH];
    size_t close = text_find(line, ']');
    text_view after = close < line.length ? text_trim(text_from(line, close + 1)) : (text_view){ line.at, 0 };
    text_show(shown, after);
    s->full = s->deck.sections > DECK_SECTIONS;
    if (s->full) {
        mistake(s->wrong, s->line, "section", "too many; at most %d", DECK_SECTIONS);
        return;
    }
    if (close == line.length) mistake(s->wrong, s->line, "section", "has no closing ]");
    if (after.length) mistake(s->wrong, s->line, "section", "'%s' follows the closing ]", shown);
    scan_name(s, text_trim((text_view){ line.at + 1, close - 1 }));
}

static bool values_are_readable(scanner *s, key_id key, text_view value)
{
    char sentence[KEY_SENTENCE];
    bench_case unused = { 0 };
    bool readable = true;
    text_view rest = value;
    int count = key_takes_list(key) ? text_words(value) : 1;
    for (int i = 0; i < count && !mistakes_full(s->wrong, s->line); i++) {
        text_view one = key_takes_list(key) ? text_word(&rest) : value;
        if (key_read(key, one, &unused, sentence)) continue;
        mistake(s->wrong, s->line, key_at(key)->name, "%s", sentence);
        readable = false;
    }
    if (count <= DECK_SWEEP_VALUES) return readable;
    mistake(s->wrong, s->line, key_at(key)->name, "has %d values; at most %d", count, DECK_SWEEP_VALUES);
    return false;
}

/* Stores the one value of the whole run in section 0. Returns false if another line gives another value. */
static bool store_run_value(scanner *s, key_id key, text_view value)
{
    deck_setting *run = &s->deck.section[0].setting[key];
    if (!run->line) *run = (deck_setting){ s->line, value };
    bool same = run->value.length == value.length && memcmp(run->value.at, value.at, value.length) == 0;
    if (!same) mistake(s->wrong, s->line, key_at(key)->name, "a run has only one; line %d already gives it", run->line);
    return same;
}

static void scan_value(scanner *s, key_id key, text_view value)
{
    deck_section *section = &s->deck.section[s->deck.sections - 1];
    const char *name = key_at(key)->name;
    if (section->setting[key].line) {
        mistake(s->wrong, s->line, name, "repeated; first given at line %d", section->setting[key].line);
        return;
    }
    section->setting[key] = (deck_setting){ s->line, value };
    if (value.length == 0) mistake(s->wrong, s->line, name, "has no value");
    else if (values_are_readable(s, key, value) && (!key_is_of_run(key) || store_run_value(s, key, value))) return;
    section->readable = false;
}

static void scan_setting(scanner *s, text_view line)
{
    char shown[TEXT_SHOWN_LENGTH], remedy[KEY_REMEDY];
    size_t equals = text_find(line, '=');
    text_view rest = line, name = equals < line.length ? text_trim((text_view){ line.at, equals }) : text_word(&rest);
    key_id key = key_find(name);
    text_show(shown, name);
    if (name.length == 0) mistake(s->wrong, s->line, "line", "has no key before the =");
    else if (equals == line.length) mistake(s->wrong, s->line, shown, "has no =; write key = value");
    else if (key == KEYS) mistake(s->wrong, s->line, shown, "unknown key; %s", key_remedy(name, remedy));
    else scan_value(s, key, text_trim(text_from(line, equals + 1)));
}

static void scan_line(scanner *s, text_view line)
{
    line = text_trim((text_view){ line.at, text_find(line, '#') });
    if (line.length == 0) return;
    if (line.at[0] == '[') scan_section(s, line);
    else scan_setting(s, line);
}

/* Detects a deck whose titles were forgotten: a title that reads as a setting or a section. */
static void scan_title(scanner *s, text_view line, char title[256])
{
    text_view words = text_trim(line),
              bracketed = words.length > 2 ? (text_view){ words.at + 1, words.length - 2 } : words;
    size_t equals = text_find(words, '=');
    bool setting = equals < words.length && key_find(text_trim((text_view){ words.at, equals })) != KEYS;
    bool section = words.length > 2 && words.at[0] == '[' && workload_find(text_trim(bracketed));
    if (setting || section)
        mistake(s->wrong, s->line, "title", "this is a setting, but the first two lines of a deck are its title");
    if (!text_copy(title, 256, line)) mistake(s->wrong, s->line, "title", "has %zu bytes; at most 255", line.length);
}

static text_view next_line(text_view *rest)
{
    size_t end = text_find(*rest, '\n');
    text_view line = { rest->at, end };
    *rest = text_from(*rest, end < rest->length ? end + 1 : end);
    if (line.length && line.at[line.length - 1] == '\r') line.length--;
    return line;
}

written_deck deck_scan(const deck_source *source, char title[2][256], mistakes *wrong)
{
    scanner s = { .source = source, .wrong = wrong };
    text_view rest = { source->text, source->length };
    open_section(&s, NULL);
    while (rest.length && !s.full && !mistakes_full(wrong, s.line + 1)) {
        text_view line = next_line(&rest);
        s.line++;
        if (s.line <= 2) scan_title(&s, line, title[s.line - 1]);
        else if (line.length > DECK_LINE_BYTES)
            mistake(wrong, s.line, "line", "has %zu bytes; at most %d", line.length, DECK_LINE_BYTES);
        else scan_line(&s, line);
    }
    s.deck.last_line = s.line;
    return s.deck;
}

void written_free(written_deck *w)
{
    free(w->section);
    *w = (written_deck){ 0 };
}
