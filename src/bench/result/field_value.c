/* Values of fields. */
#include "bench/result/fields.h"
#include <math.h>
#include <string.h>

static int64_t extent_of(field_extent e, const case_result *r)
{
    switch (e) {
    case PER_CASE: return 1;
    case PER_STEP: return r->loss ? r->given->warmup + r->given->steps : 0;
    case PER_RANK: return r->given->layout.ranks;
    case PER_PHASE: return PHASES;
    case PER_OPERATION: return OP_KINDS;
    case PER_AXIS: return r->tally.axes;
    case PER_MEMORY_KIND: return ARENA_KINDS;
    case PER_SPAN: return r->span_count;
    case PER_FAIL_REASON: return r->fail_reasons;
    case PER_INVALID_REASON: return r->invalid_reasons;
    }
    return 0;
}

int64_t field_rows(const field *f, const case_result *r) { return extent_of(f->per, r); }
int64_t field_columns(const field *f, const case_result *r) { return extent_of(f->across, r); }

bool field_is_integer(const field *f)
{
    return f->kind == FIELD_INTEGER || f->kind == FIELD_COUNT || f->kind == FIELD_BYTES || f->kind == FIELD_ROW;
}

static const void *place_of(const field_group *g, const field *f, const case_result *r, int64_t i)
{
    const char *at = (g->of_case ? (const char *)r->given : (const char *)r) + g->offset + f->offset;
    if (f->listed) memcpy(&at, at, sizeof at);
    return at + f->in_list + (size_t)i * f->stride;
}

static datum real_at(const void *at)
{
    double x;
    memcpy(&x, at, sizeof x);
    return (datum){ VALUE_REAL, .real = x };
}

static datum integer_of(int64_t n) { return (datum){ VALUE_INTEGER, .integer = n }; }
static datum text_of_word(const char *word) { return (datum){ VALUE_TEXT, .text = word }; }

datum field_value(const field_group *g, const field *f, const case_result *r, int64_t i)
{
    const void *at = place_of(g, f, r, i);
    datum v;
    switch (f->kind) {
    case FIELD_REAL: return real_at(at);
    case FIELD_KNOWN: return v = real_at(at), v.real = v.real > 0.0 ? v.real : NAN, v;
    case FIELD_INTEGER: return integer_of(*(const int *)at);
    case FIELD_COUNT: return integer_of(*(const int64_t *)at);
    case FIELD_BYTES: return integer_of((int64_t) * (const size_t *)at);
    case FIELD_FLAG: return (datum){ VALUE_FLAG, .integer = *(const bool *)at };
    case FIELD_TEXT: return text_of_word(at);
    case FIELD_NAME: return text_of_word(*(const char *const *)at);
    case FIELD_WORD: return text_of_word(f->word(at));
    case FIELD_ROW: return integer_of(i);
    case FIELD_LABEL: return text_of_word(f->word(&(int){ (int)i }));
    }
    return (datum){ VALUE_TEXT, .text = "" };
}

datum setting_value(key_id key, const bench_case *c, char room[KEY_TEXT])
{
    const key_row *row = key_at(key);
    if (row->kind == KIND_INTEGER) return integer_of(key_integer(key, c));
    if (row->kind == KIND_REAL) return real_at((const char *)c + row->offset);
    key_write(key, c, room);
    return text_of_word(room);
}
