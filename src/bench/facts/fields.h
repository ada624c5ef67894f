/* Settings and results of a case as rows. A field's name, units and meaning are written here once; the record, --json,
 * --verbose and --fields use these rows. A new result is a member of facts or figures, a row in case_fields.c (one
 * value) or part_fields.c (one per step, rank, operation, ...), and the line that fills it. */
#pragma once
#include "bench/facts/datum.h"
#include "bench/facts/result.h"
#include "plan/keys/keys.h"

/* Type of a value in memory. */
typedef enum {
    FIELD_REAL,    /* double */
    FIELD_KNOWN,   /* double; 0 means unknown and becomes NaN */
    FIELD_INTEGER, /* int */
    FIELD_COUNT,   /* int64_t */
    FIELD_BYTES,   /* size_t */
    FIELD_FLAG,    /* bool */
    FIELD_TEXT,    /* char [] */
    FIELD_NAME,    /* const char * */
    FIELD_WORD,    /* any type that .word turns into words */
    FIELD_ROW,     /* no memory: the number of the row */
    FIELD_LABEL    /* no memory: the number of the row, in words by .word */
} field_kind;

/* Extent of a field: one value per case, per step, per rank, ... */
typedef enum {
    PER_CASE,
    PER_STEP,
    PER_RANK,
    PER_COPY,
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
    const char *name, *units, *meaning; /* units: UDUNITS spelling if it exists; NULL if not a number */
    field_kind kind;
    field_extent per, across; /* rows, and columns of a table; across = PER_CASE if it is not a table */
    size_t offset, stride;    /* offset of the first value; bytes from one row to the next */
    size_t column;            /* bytes from one column to the next, if an entry of a list contains a row; else 0 */
    bool record_only;         /* not in --json */
    bool listed;              /* offset is that of a pointer to a list; in_list is the offset within an entry */
    size_t in_list;
    const char *(*word)(const void *value);
} field;

/* Form of a group in --json. FLAT: members of the case's object. OBJECT: a separate object. ROWS: an object with one
 * member per row, named by the group's first field. ABSENT: none. */
typedef enum { LINE_FLAT, LINE_OBJECT, LINE_ROWS, LINE_ABSENT } line_form;
typedef struct {
    const char *name; /* name of the group in the record; empty: attributes of the case */
    line_form line;
    const char *signal, *axes[2]; /* what a viewer of the record plots, or NULL */
    bool of_case;                 /* offsets are those of bench_case, not case_result */
    size_t offset;                /* added to the offsets of the fields */
    const field *field;
    int fields;
} field_group;

/* Place of a member of the entries of an array. */
#define EACH(array, member)                                                                                            \
    .offset = offsetof(case_result, array[0] member), .stride = sizeof(((case_result *)0)->array[0])
/* The members of a group for its fields. */
#define FIELDS(list) .field = list, .fields = sizeof(list) / sizeof *(list)

/* Groups of fields with one value per case, and of fields with several, in the order of --fields. */
typedef struct {
    const field_group *group;
    int groups;
} field_list;
extern const field_list case_fields, part_fields;

/* Number of groups in both lists; group i; numbers of rows and columns of a field in a result. */
int field_groups(void);
const field_group *field_group_at(int i);
int64_t field_rows(const field *f, const case_result *r);
int64_t field_columns(const field *f, const case_result *r);

/* Returns value i, counted row by row. Its text belongs to the result. */
datum field_value(const field_group *g, const field *f, const case_result *r, int64_t i);
/* Returns whether all values of row i are zero, except its name. Call it for groups of LINE_ROWS. */
bool field_row_is_zero(const field_group *g, const case_result *r, int64_t i);
/* Returns the value of a deck key that the case uses. A text may be stored in `text`. */
datum setting_value(key_id key, const bench_case *c, char text[KEY_TEXT]);

/* Prints all fields: --fields. json: as one JSON object a line; no text of a field needs an escape. */
void fields_print(bool json);
