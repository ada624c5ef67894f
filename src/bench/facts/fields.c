/* The groups of fields, one after the other, and --fields. */
#include "bench/facts/fields.h"
#include "base/say.h"

int field_groups(void) { return case_fields.groups + part_fields.groups; }

const field_group *field_group_at(int i)
{
    return i < case_fields.groups ? &case_fields.group[i] : &part_fields.group[i - case_fields.groups];
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

void fields_print(void)
{
    static const char row[] = "%-14s %-31s %-9s %-8s %s%s\n";
    say(row, "group", "field", "units", "type", "meaning", "");
    for (int i = 0; i < field_groups(); i++) {
        const field_group *g = field_group_at(i);
        for (const field *f = g->field; f < g->field + g->fields; f++)
            say(row, g->name[0] ? g->name : "-", f->name, f->units ? f->units : "-", type_of(f->kind), f->meaning,
                g->line == LINE_ABSENT ? " (record only)" : "");
    }
    say("\nAnd every key of the deck (--keys), as the case used it. The record has a group of datasets for each group, "
        "and\nattributes of the case for -. The file of --json has the fields of -, results and steps side by side, "
        "the others\nin objects of their group's name; rows of zeros are left out there.\n");
}
