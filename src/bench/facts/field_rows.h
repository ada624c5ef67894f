/* How the lists of fields are written: what stands in a row beside name, units, meaning and kind. */
#pragma once
#include "bench/facts/fields.h"

/* Where a value lies that is in every entry of an array. */
#define EACH(array, member)                                                                                            \
    .offset = offsetof(case_result, array[0] member), .stride = sizeof(((case_result *)0)->array[0])
/* A list as the last members of its group. */
#define FIELDS(list) .field = list, .fields = sizeof(list) / sizeof *(list)
