/* Names of the kinds of operations. */
#include "base/op_kinds.h"
#include <string.h>

#define NAME(constant, name) #name,
static const char *const names[] = { OPS_OF_STEPS(NAME) OPS_OUTSIDE_STEPS(NAME) };

const char *op_kind_name(op_kind kind) { return names[kind]; }

op_kind op_kind_named(const char *name)
{
    op_kind kind = 0;
    while (kind < OP_KINDS && strcmp(names[kind], name) != 0) kind++;
    return kind;
}

bool op_is_transfer(op_kind kind)
{
#define CASE(constant, name) case constant:
    switch (kind) {
        OPS_OF_TRANSFER(CASE) return true;
    default: return false;
    }
}
