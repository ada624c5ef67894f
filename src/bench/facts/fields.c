/* Groups of fields, their values, and --fields. */
#include "bench/facts/fields.h"
#include "base/say.h"
#include <math.h>
#include <string.h>

int field_groups(void) { return case_fields.groups + part_fields.groups; }

const field_group *field_group_at(int i)
{
    return i < case_fields.groups ? &case_fields.group[i] : &part_fields.group[i - case_fields.groups];
}

static int64_t extent_of(field_extent e, const case_result *r)
{
    switch (e) {
    case PER_CASE: return 1;
    case PER_STEP: return r->seen.loss ? r->seen.total : 0;
    case PER_RANK: return r->given->ranks;
    case PER_COPY: return r->given->layout.copies > 1 ? r->given->layout.copies : 0;
    case PER_PHASE: return PHASES;
    case PER_OPERATION: return OP_KINDS;
    case PER_AXIS: return r->seen.tally.axes;
    case PER_GATHERED_AXIS: return GATHERED_AXES;
    case PER_TRANSFER: return r->seen.tally.transfers;
    case PER_MEMORY_KIND: return ARENA_KINDS;
    case PER_SPAN: return r->seen.span_count;
    case PER_FP8_KIND: return r->given->precision == PRECISION_FP8 ? FP8_KINDS : 0;
    case PER_FP8_TENSOR: return r->seen.fp8_tensors;
    case PER_SAMPLE: return r->seen.samples.count;
    case PER_FAIL_REASON: return r->ruling.fails.count;
    case PER_INVALID_REASON: return r->ruling.invalids.count;
    }
    return 0;
}

int64_t field_rows(const field *f, const case_result *r) { return extent_of(f->per, r); }
int64_t field_columns(const field *f, const case_result *r) { return extent_of(f->across, r); }

/* Returns NULL if the list does not exist because no step was timed. */
static const void *address_of(const field_group *g, const field *f, const case_result *r, int64_t i)
{
    const char *at = (g->of_case ? (const char *)r->given : (const char *)r) + g->offset + f->offset;
    int64_t columns = f->column ? field_columns(f, r) : 1;
    if (f->listed) memcpy(&at, (const void *)at, sizeof at);
    return at ? at + f->in_list + (size_t)(i / columns) * f->stride + (size_t)(i % columns) * f->column : NULL;
}

static datum unknown(field_kind kind)
{
    if (kind == FIELD_REAL || kind == FIELD_KNOWN) return datum_real(NAN);
    return kind == FIELD_INTEGER || kind == FIELD_COUNT ? datum_integer(0) : datum_text("");
}

static double real_at(const void *at)
{
    double x;
    memcpy(&x, at, sizeof x);
    return x;
}

datum field_value(const field_group *g, const field *f, const case_result *r, int64_t i)
{
    const void *at = address_of(g, f, r, i);
    if (!at) return unknown(f->kind);
    switch (f->kind) {
    case FIELD_REAL: return datum_real(real_at(at));
    case FIELD_KNOWN: return datum_real(real_at(at) > 0.0 ? real_at(at) : NAN);
    case FIELD_INTEGER: return datum_integer(*(const int *)at);
    case FIELD_COUNT: return datum_integer(*(const int64_t *)at);
    case FIELD_BYTES: return datum_integer((int64_t) * (const size_t *)at);
    case FIELD_FLAG: return datum_flag(*(const bool *)at);
    case FIELD_TEXT: return datum_text(at);
    case FIELD_NAME: return datum_text(*(const char *const *)at);
    case FIELD_WORD: return datum_text(f->word(at));
    case FIELD_ROW: return datum_integer(i);
    case FIELD_LABEL: return datum_text(f->word(&(int){ (int)i }));
    }
    return datum_text("");
}

bool field_row_is_zero(const field_group *g, const case_result *r, int64_t i)
{
    bool zero = true;
    for (const field *f = g->field + 1; f < g->field + g->fields; f++) {
        datum v = field_value(g, f, r, i);
        zero &= v.real == 0.0 && v.integer == 0;
    }
    return zero;
}

datum setting_value(key_id key, const bench_case *c, char text[KEY_TEXT])
{
    const key_row *row = key_at(key);
    if (row->kind == KIND_INTEGER) return datum_integer(key_integer(key, c));
    if (row->kind == KIND_REAL) return datum_real(real_at((const char *)c + row->offset));
    key_write(key, c, text);
    return datum_text(text);
}

static const char *type_of(field_kind kind)
{
    switch (kind) {
    case FIELD_REAL:
    case FIELD_KNOWN: return "real";
    case FIELD_INTEGER:
    case FIELD_COUNT:
    case FIELD_BYTES:
    case FIELD_ROW: return "integer";
    case FIELD_FLAG: return "flag";
    case FIELD_TEXT:
    case FIELD_NAME:
    case FIELD_WORD:
    case FIELD_LABEL: return "text";
    }
    return "";
}

void fields_print(bool json)
{
    static const char row[] = "%-14s %-31s %-9s %-8s %s%s\n";
    static const char object[] =
        "{\"group\":\"%s\",\"field\":\"%s\",\"units\":\"%s\",\"type\":\"%s\",\"meaning\":\"%s%s\"}\n";
    if (!json) say(row, "group", "field", "units", "type", "meaning", "");
    for (int i = 0; i < field_groups(); i++) {
        const field_group *g = field_group_at(i);
        for (const field *f = g->field; f < g->field + g->fields; f++)
            say(json ? object : row, g->name[0] ? g->name : "-", f->name, f->units ? f->units : "-", type_of(f->kind),
                f->meaning, g->line == LINE_ABSENT || f->record_only ? " (record only)" : "");
    }
    if (json) return;
    say("\nAnd every key of the deck (--keys), as the case used it. The record has a group of datasets for each group, "
        "and\nattributes of the case for -. The file of --json has the fields of -, results and steps side by side, "
        "the others\nin objects of their group's name; rows of zeros are left out there. --verbose prints the same but "
        "the steps.\n");
}
