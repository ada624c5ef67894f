/* Reader of machine sheets. */
#include "plan/sheet/sheet.h"
#include "base/memory.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *unit;
    double si; /* one unit in SI */
    bool rate;
} terms[TERMS] = {
    [TERM_MULTIPROCESSORS] = { "multiprocessors", "SMs", 1.0, true },
    [TERM_PRODUCT_FP32] = { "product_fp32", "TFLOP/s", 1e12, true },
    [TERM_PRODUCT_BF16] = { "product_bf16", "TFLOP/s", 1e12, true },
    [TERM_PRODUCT_FP8] = { "product_fp8", "TFLOP/s", 1e12, true },
    [TERM_PRODUCT_SHAPE] = { "product_shape", "times", 1.0, false },
    [TERM_FP8_SPLIT] = { "fp8_split", "times", 1.0, false },
    [TERM_ATTENTION_FORWARD] = { "attention_forward", "TFLOP/s", 1e12, true },
    [TERM_ATTENTION_BACKWARD] = { "attention_backward", "TFLOP/s", 1e12, true },
    [TERM_ATTENTION_SHORT] = { "attention_short", "times", 1.0, true },
    [TERM_MEMORY] = { "memory", "GB/s", 1e9, true },
    [TERM_GAP] = { "gap", "us", 1e-6, false },
    [TERM_NVLINK] = { "nvlink", "GB/s", 1e9, true },
    [TERM_NETWORK] = { "network", "GB/s", 1e9, true },
    [TERM_THREAD_BLOCK] = { "thread_block", "GB/s", 1e9, true },
    [TERM_COPY_LATENCY] = { "copy_latency", "us", 1e-6, false },
    [TERM_KERNEL_LATENCY] = { "kernel_latency", "us", 1e-6, false },
    [TERM_OPERATIONS] = { "operations", "times", 1.0, false },
    [TERM_NEAREST] = { "nearest", "times", 1.0, false },
    [TERM_TRANSFERS] = { "transfers", "times", 1.0, false },
};
static const char *const origins[ORIGINS] = { "measured", "published", "assumed" };

const char *term_name(sheet_term t) { return terms[t].name; }
const char *term_unit(sheet_term t) { return terms[t].unit; }
double term_si(sheet_term t) { return terms[t].si; }
bool term_is_rate(sheet_term t) { return terms[t].rate; }
bool term_is_factor(sheet_term t) { return t == TERM_FP8_SPLIT || t == TERM_ATTENTION_SHORT; }
const char *origin_name(sheet_origin o) { return origins[o]; }

sheet_term term_named(text_view name)
{
    sheet_term t = 0;
    while (t < TERMS && !text_equal(name, terms[t].name)) t++;
    return t;
}

bool listed_same(const listed_time *a, const listed_time *b)
{
    return a->work == b->work && strcmp(a->key, b->key) == 0;
}

void listed_add(listed_times *to, listed_time x)
{
    if (to->count == to->capacity) {
        to->capacity = to->capacity ? 2 * to->capacity : 64;
        to->list = reallocate(to->list, to->capacity, sizeof x, "times of a sheet");
    }
    to->list[to->count++] = x;
}

typedef struct {
    machine_sheet *sheet;
    void (*complain)(void *me, int line, const char *sentence);
    void *me;
    int line, mistakes;
} reader;

static void complain(reader *r, const char *format, text_view shown, const char *more)
{
    char word[TEXT_SHOWN_LENGTH], sentence[256];
    text_show(word, shown);
    snprintf(sentence, sizeof sentence, format, word, more);
    r->complain(r->me, r->line, sentence);
    r->mistakes++;
}

static bool read_number(reader *r, text_view *rest, double *value)
{
    text_view word = text_word(rest);
    if (text_real(word, value) == NUMBER_READ && *value > 0.0 && *value <= 1e18) return true;
    complain(r, "%s: give a number above 0, at most 1e18%s", word.length ? word : text_of("nothing"), "");
    return false;
}

static void read_device(reader *r, text_view rest)
{
    char name[32], why[256];
    if (r->sheet->device) complain(r, "device is given twice, the second time as %s%s", rest, "");
    text_copy(name, sizeof name, rest);
    r->sheet->host = text_equal(rest, "host");
    if (r->sheet->host) return;
    r->sheet->device = device_named(name, why, sizeof why);
    if (!r->sheet->device) complain(r, "device %s is not in ./xgsw --list%s", rest, "");
}

/* Reads a key of so many words, then work, "us" and time. */
static void read_time(reader *r, text_view rest, int words, listed_times *to)
{
    listed_time x;
    text_view key = { rest.at, 0 };
    for (int i = 0; i < words; i++) {
        text_view word = text_word(&rest);
        if (word.length) key.length = (size_t)(word.at - key.at) + word.length;
        else complain(r, "%s: give a kind, then operands, or the ranks and how many of them share a domain%s", key, "");
    }
    if (!text_copy(x.key, sizeof x.key, text_trim(key))) complain(r, "%s: a name of at most 399 bytes%s", key, "");
    if (!read_number(r, &rest, &x.work)) return;
    text_view unit = text_word(&rest);
    if (!text_equal(unit, "us")) complain(r, "%s: a time is in us%s", unit, "");
    else if (read_number(r, &rest, &x.seconds)) {
        x.seconds *= 1e-6;
        listed_add(to, x);
    }
}

static bool read_origin(reader *r, text_view rest, term_entry *e)
{
    text_view word = text_word(&rest);
    for (e->origin = 0; e->origin < ORIGINS && !text_equal(word, origins[e->origin]); e->origin++) {}
    if (e->origin == ORIGINS) complain(r, "%s: give the origin: measured, published or assumed%s", word, "");
    else if (text_trim(rest).length == 0) complain(r, "%s: give its source or the reason%s", word, "");
    else return true;
    return false;
}

static void read_term(reader *r, sheet_term t, text_view rest)
{
    term_entry e = { .line = r->line };
    text_view unit = text_word(&rest);
    if (r->sheet->term[t].line) {
        complain(r, "%s is given twice%s", text_of(terms[t].name), "");
        return;
    }
    r->sheet->term[t] = e;
    if (!text_equal(unit, terms[t].unit)) {
        complain(r, "%s: the unit is %s", unit, terms[t].unit);
        return;
    }
    for (int i = 0; i < VALUES; i++)
        if (!read_number(r, &rest, &e.value[i])) return;
    if (!read_origin(r, rest, &e)) return;
    if (e.value[LEAST] > e.value[EXPECTED] || e.value[EXPECTED] > e.value[MOST])
        complain(r, "%s: give the expected, the least and the greatest value, in this order%s", text_of(terms[t].name),
                 "");
    for (int i = 0; i < VALUES; i++) e.value[i] *= terms[t].si;
    r->sheet->term[t] = e;
}

static void complain_of_unknown(reader *r, text_view word)
{
    int best = 0;
    for (int t = 1; t < TERMS; t++)
        if (text_distance(word, terms[t].name) < text_distance(word, terms[best].name)) best = t;
    complain(r, "%s is not a term of a sheet; the nearest is %s", word, terms[best].name);
}

static void read_line(reader *r, text_view line)
{
    line.length = text_find(line, '#');
    if (line.length && line.at[line.length - 1] == '\r') line.length--;
    text_view rest = text_trim(line);
    if (rest.length == 0) return;
    text_view word = text_word(&rest);
    sheet_term t = term_named(word);
    if (t < TERMS) read_term(r, t, rest);
    else if (text_equal(word, "device")) read_device(r, text_trim(rest));
    else if (text_equal(word, "op")) read_time(r, rest, 2, &r->sheet->operations);
    else if (text_equal(word, "transfer")) read_time(r, rest, 3, &r->sheet->transfers);
    else complain_of_unknown(r, word);
}

static void complain_of_missing(reader *r)
{
    const machine_sheet *s = r->sheet;
    r->line = 0;
    if (!s->device && !s->host) complain(r, "%s is missing: a row of ./xgsw --list, or host%s", text_of("device"), "");
    for (int t = 0; t < TERMS; t++) {
        bool listed = t == TERM_TRANSFERS ? s->transfers.count > 0 : s->operations.count > 0;
        bool needed = t == TERM_GAP || (t < TERM_OPERATIONS ? !s->host : s->host || listed);
        if (needed && !s->term[t].line) complain(r, "%s is missing, in %s", text_of(terms[t].name), terms[t].unit);
    }
}

int sheet_read(machine_sheet *s, const char *name, const char *text,
               void (*complain_to)(void *me, int line, const char *sentence), void *me)
{
    reader r = { .sheet = s, .complain = complain_to, .me = me };
    *s = (machine_sheet){ .device = NULL };
    snprintf(s->name, sizeof s->name, "%.63s", name);
    for (text_view rest = text_of(text); rest.length;) {
        size_t end = text_find(rest, '\n');
        r.line++;
        read_line(&r, (text_view){ rest.at, end });
        rest = text_from(rest, end < rest.length ? end + 1 : end);
    }
    complain_of_missing(&r);
    return r.mistakes;
}

void sheet_free(machine_sheet *s)
{
    free(s->operations.list);
    free(s->transfers.list);
}
