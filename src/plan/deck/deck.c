/* Cases of a written deck: unrolls the lists of each section, resolves each case, then reports unused keys. */
#include "plan/deck/deck.h"
#include "base/memory.h"
#include "plan/deck/draft.h"
#include "plan/deck/same_run.h"
#include <stdio.h>
#include <string.h>

enum { DECK_CASES = 1000 };

typedef struct {
    const deck_source *source;
    mistakes *wrong, unmet; /* unmet: as in case_draft, of all cases */
    int drafts, unmet_drafts;
    written_deck written;
    deck result;
    bool complete; /* every section could be unrolled */
    bool uses[DECK_SECTIONS + 1]
             [KEYS]; /* a case depends on the section's value; only keys with a key_condition matter */
} reading;

/* Returns the section whose setting of the key holds for section i: i itself, or 0. */
static int section_of(const reading *r, int i, key_id key) { return r->written.section[i].setting[key].line ? i : 0; }

static const deck_setting *setting_of(const reading *r, int i, key_id key)
{
    return &r->written.section[section_of(r, i, key)].setting[key];
}

static int count_values(const deck_setting *s, key_id key)
{
    return s->line && key_takes_list(key) ? text_words(s->value) : 1;
}

static text_view nth_value(const deck_setting *s, key_id key, int index)
{
    text_view rest = s->value, one = rest;
    for (int i = 0; key_takes_list(key) && i <= index; i++) one = text_word(&rest);
    return one;
}

/* Counts the cases of a section, at most DECK_CASES + 1. */
static int count_cases(const reading *r, int i)
{
    int cases = 1;
    for (key_id key = 0; key < KEYS && cases <= DECK_CASES; key++) cases *= count_values(setting_of(r, i, key), key);
    return cases <= DECK_CASES ? cases : DECK_CASES + 1;
}

/* Returns the draft of case `index` of section i. The digits of the index select the values; the last key varies
 * fastest. */
static case_draft draft_of(reading *r, int i, int index)
{
    char sentence[KEY_SENTENCE];
    const deck_section *section = &r->written.section[i];
    case_draft d = { .workload = section->workload, .source = r->source, .wrong = r->wrong, .unmet = &r->unmet };
    d.c.line = section->line;
    key_fallbacks(&d.c);
    for (key_id key = KEYS; key-- > 0;) {
        const deck_setting *s = setting_of(r, i, key);
        int values = count_values(s, key);
        d.line[key] = s->line;
        if (s->line) key_read(key, nth_value(s, key, index % values), &d.c, sentence);
        index /= values;
    }
    return d;
}

/* Doubles the memory whenever the number of cases is a power of two. */
static void add_case(reading *r, const bench_case *c)
{
    deck *d = &r->result;
    int64_t cases = d->cases;
    if ((cases & (cases - 1)) == 0)
        d->item = reallocate(d->item, cases ? 2 * cases : 1, sizeof *d->item, "the cases of the deck");
    d->item[cases] = *c;
    d->item[cases].number = (int)cases + 1;
    d->item[cases].stands_for = 1;
    d->cases++;
}

/* Adds all repeats of a case, but stops at DECK_CASES + 1 cases. */
static void add_repeats(reading *r, bench_case *c)
{
    for (c->repeat = 1; c->repeat <= c->repeats && r->result.cases <= DECK_CASES; c->repeat++) add_case(r, c);
}

/* Returns the case from item `first` on that does the same run; NULL if there is none. */
static bench_case *earlier_same_run(const deck *d, int64_t first, const bench_case *c)
{
    for (int64_t i = first; i < d->cases; i++)
        if (same_run(&d->item[i], c)) return &d->item[i];
    return NULL;
}

/* A skipped case has no layout that could tell which keys it would use. */
static void note_uses(reading *r, int i, const bench_case *c)
{
    for (key_id key = 0; key < KEYS; key++)
        if (c->skipped[0] || key_is_used(key, c)) r->uses[section_of(r, i, key)][key] = true;
}

static void unroll(reading *r, int i)
{
    int cases = count_cases(r, i);
    int64_t first = r->result.cases;
    for (key_id key = 0; key < KEYS; key++)
        if (count_values(setting_of(r, i, key), key) > 1) r->result.swept[key] = true;
    for (int index = 0; index < cases; index++) {
        case_draft d = draft_of(r, i, index);
        draft_resolve(&d);
        r->drafts++;
        r->unmet_drafts += d.is_unmet;
        note_uses(r, i, &d.c);
        bench_case *same = earlier_same_run(&r->result, first, &d.c);
        if (same) same->stands_for++;
        else add_repeats(r, &d.c);
    }
}

static void unroll_all(reading *r)
{
    int cases = 0;
    const deck_section *section = r->written.section;
    for (int i = 1; i < r->written.sections; i++) {
        bool readable = section[0].readable && section[i].readable && section[i].workload;
        r->complete = r->complete && readable;
        if (readable) cases += count_cases(r, i);
        if (readable && cases <= DECK_CASES) unroll(r, i);
        if (cases > DECK_CASES || r->result.cases > DECK_CASES) {
            mistake(r->wrong, section[i].line, "section", "more than %d cases in all", DECK_CASES);
            return;
        }
    }
}

static bool is_overridden(const reading *r, key_id key)
{
    for (int i = 1; i < r->written.sections; i++)
        if (section_of(r, i, key) == 0) return false;
    return r->written.sections > 1;
}

static void note_no_effect(deck *d, int line, const char *key, const char *condition)
{
    size_t used = strlen(d->no_effect);
    snprintf(d->no_effect + used, sizeof d->no_effect - used, "%s%s in line %d: there is no case where %s",
             used ? "; " : "", key, line, condition);
}

static void report_unused_conditional(reading *r, key_id key)
{
    bool harmless = false;
    const char *condition = key_condition(key, &harmless);
    for (int i = 0; condition && r->complete && i < r->written.sections; i++) {
        int line = r->written.section[i].setting[key].line;
        if (!line || r->uses[i][key] || (i == 0 && is_overridden(r, key))) continue;
        if (harmless) note_no_effect(&r->result, line, key_at(key)->name, condition);
        else mistake(r->wrong, line, key_at(key)->name, "unused: there is no case where %s", condition);
    }
}

static void report_unused(reading *r)
{
    for (key_id key = 0; key < KEYS; key++)
        if (!key_is_of_run(key) && r->written.section[0].setting[key].line && is_overridden(r, key))
            mistake(r->wrong, r->written.section[0].setting[key].line, key_at(key)->name,
                    "unused: every section sets this key");
    for (key_id key = 0; key < KEYS; key++) report_unused_conditional(r, key);
}

static int line_of(const reading *r, key_id key)
{
    for (int i = 0; i < r->written.sections; i++)
        if (r->written.section[i].setting[key].line) return r->written.section[i].setting[key].line;
    return 0;
}

/* If there are several cases, each gets a separate folder, and none can continue from a checkpoint. */
static void set_checkpoint_folders(reading *r)
{
    deck *d = &r->result;
    for (int64_t i = 0; i < d->cases; i++) {
        bench_case *c = &d->item[i];
        size_t used = strlen(c->checkpoint), left = sizeof c->checkpoint - used;
        bool saves = strcmp(c->checkpoint, "none") != 0, loads = strcmp(c->load, "none") != 0;
        if (saves && d->cases > 1 && snprintf(c->checkpoint + used, left, "/case-%d", c->number) >= (int)left)
            mistake(r->wrong, line_of(r, KEY_CHECKPOINT), "checkpoint", "the path of case %d is too long", c->number);
        if (deck_counted_steps(c) == 0)
            mistake(r->wrong, line_of(r, KEY_CHECKPOINT_EVERY), "checkpoint_every",
                    "%lld leaves no step to time: every timed step follows a save", (long long)c->checkpoint_every);
        if (loads && d->cases != c->repeats)
            mistake(r->wrong, line_of(r, KEY_LOAD), "load", "load needs a deck with one case; this one has %lld",
                    (long long)d->cases);
    }
}

/* A deck of FP8 cases alone trains nothing on GPUs without FP8. */
static void refuse_fp8_alone(reading *r)
{
    char why[REASON_LENGTH];
    const deck *d = &r->result;
    for (int64_t i = 0; i < d->cases; i++)
        if (d->item[i].precision != PRECISION_FP8 || d->item[i].backend != BACKEND_CUDA) return;
    if (d->cases && source_lacks_fp8(r->source, why))
        mistake(r->wrong, line_of(r, KEY_PRECISION), "precision", "%s; give bf16", why);
}

static void read_text(reading *r)
{
    r->written = deck_scan(r->source, r->result.title, r->wrong);
    bool readable = !mistakes_full(r->wrong, r->written.last_line + 1);
    if (readable && r->written.sections == 1)
        mistake(r->wrong, r->written.last_line, "section", "missing; name a workload, such as [%s]",
                workload_at(0)->name);
    else if (readable) {
        unroll_all(r);
        if (r->wrong->count || r->unmet_drafts == r->drafts) mistakes_add(r->wrong, &r->unmet);
        set_checkpoint_folders(r);
        refuse_fp8_alone(r);
        report_unused(r);
    }
    written_free(&r->written);
}

deck deck_read(const deck_source *source)
{
    mistakes wrong = { .deck = source->name };
    reading r = { .source = source, .wrong = &wrong, .unmet = { .deck = source->name }, .complete = true };
    if (deck_is_text(source, &wrong)) read_text(&r);
    if (wrong.count) deck_free(&r.result);
    r.result.messages = wrong.count;
    memcpy(r.result.message, wrong.message, sizeof wrong.message);
    return r.result;
}

void deck_free(deck *d)
{
    free(d->item);
    d->item = NULL;
    d->cases = 0;
}

int64_t deck_counted_steps(const bench_case *c)
{
    int64_t first = c->warmup > 0 ? c->warmup : 1, last = c->warmup + c->steps - 1, every = c->checkpoint_every;
    return c->steps - (every ? last / every - (first - 1) / every : 0);
}

bool deck_on_cuda(const deck *d)
{
    for (int64_t i = 0; i < d->cases; i++)
        if (d->item[i].backend == BACKEND_CUDA) return true;
    return false;
}
