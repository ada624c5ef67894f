/* What a case is and what it leaves, as rows. A field's name, units and meaning stand here once; the record, the line
 * --json, --verbose and --fields fold these rows. A new result is a member of facts or figures, a row in case_fields.c
 * (one value) or part_fields.c (one a step, a rank, an operation, ...), and the line that fills it. */
#pragma once
#include "bench/facts/datum.h"
#include "bench/facts/result.h"
#include "plan/keys/keys.h"

/* How a value lies in memory. */
typedef enum {
    FIELD_REAL,    /* double */
    FIELD_KNOWN,   /* double; 0: not known, which becomes not a number */
    FIELD_INTEGER, /* int */
    FIELD_COUNT,   /* int64_t */
    FIELD_BYTES,   /* size_t */
    FIELD_FLAG,    /* bool */
    FIELD_TEXT,    /* char [] */
    FIELD_NAME,    /* const char * */
    FIELD_WORD,    /* something that .word puts into words */
    FIELD_ROW,     /* nothing: the number of the row */
    FIELD_LABEL    /* nothing: the number of the row, which .word puts into words */
} field_kind;

/* What there is one value for. */
typedef enum {
    PER_CASE,
    PER_STEP,
    PER_RANK,
    PER_PHASE,
    PER_OPERATION,
    PER_AXIS,
    PER_GATHERED_AXIS,
    PER_TRANSFER,
    PER_MEMORY_KIND,
    PER_SPAN,
    PER_FP8_KIND,
    PER_FP8_TENSOR,
    PER_SAMPLE,
    PER_FAIL_REASON,
    PER_INVALID_REASON
} field_extent;

typedef struct {
    const char *name, *units, *meaning; /* units as UDUNITS spells them where it can; NULL: of no number */
    field_kind kind;
    field_extent per, across; /* across: columns of a table; PER_CASE: of none */
    size_t offset, stride;    /* where the first value lies, and how far the next one is from it */
    size_t column;            /* of a table in entries: how far the next column is; stride is from row to row */
    bool record_only;         /* --json leaves it out */
    bool listed;              /* at offset lies a pointer to a list; the value is at in_list in each of its entries */
    size_t in_list;
    const char *(*word)(const void *value);
} field;

/* How a group stands in the object of --json: its fields beside those of other groups; as an object of its own; as an
 * object of one entry a row, named by the group's first field; not at all. */
typedef enum { LINE_FLAT, LINE_OBJECT, LINE_ROWS, LINE_ABSENT } line_form;
typedef struct {
    const char *name; /* of the record's group; empty: attributes of the case */
    line_form line;
    const char *signal, *axes[2]; /* what a viewer of the record draws; NULL: nothing */
    bool of_case;                 /* offsets are of bench_case instead of case_result */
    size_t offset;                /* added to those of the fields */
    const field *field;
    int fields;
} field_group;

/* Where a value lies that is in every entry of an array. */
#define EACH(array, member)                                                                                            \
    .offset = offsetof(case_result, array[0] member), .stride = sizeof(((case_result *)0)->array[0])
/* A list as the last members of its group. */
#define FIELDS(list) .field = list, .fields = sizeof(list) / sizeof *(list)

/* The groups of what a case has one value of; of what it has several of: for each step, rank, operation, check ... In
 * the order of --fields. */
typedef struct {
    const field_group *group;
    int groups;
} field_list;
extern const field_list case_fields, part_fields;

/* Of both lists, one after the other. */
int field_groups(void);
const field_group *field_group_at(int i);
int64_t field_rows(const field *f, const case_result *r);
int64_t field_columns(const field *f, const case_result *r);

/* The i-th, row by row; its text belongs to the result. */
datum field_value(const field_group *g, const field *f, const case_result *r, int64_t i);
/* Of a group that stands in rows: is all of row i but its name zero? */
bool field_row_is_zero(const field_group *g, const case_result *r, int64_t i);
/* The effective value of a deck's key; its text lies in `room`. */
datum setting_value(key_id key, const bench_case *c, char room[KEY_TEXT]);

/* For --fields. */
void fields_print(void);
