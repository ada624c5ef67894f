/* Keys of operations, and their listed times. */
#include "bench/project/listed.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

double operation_bytes(const op *o)
{
    double bytes = 0.0, rows = 0.0;
    bool looks_up = o->kind == OP_EMBEDDING_FORWARD || o->kind == OP_EMBEDDING_BACKWARD;
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &o->operand[i];
        double moved = (double)tensor_elements(&x->tensor) * (double)dtype_bytes(x->tensor.type);
        bytes += x->access == UPDATE ? 2.0 * moved : moved;
        if (looks_up && i == (o->kind == OP_EMBEDDING_FORWARD ? 2 : 1)) rows = moved;
    }
    return looks_up ? 3.0 * rows : bytes;
}

double operation_work(const op *o) { return op_flops(o) > 0.0 ? op_flops(o) : operation_bytes(o); }

/* "f32[64x128]"; one whose last dimension is not the fastest ends with t, one that is added to with +. */
static int print_operand(const operand *o, char *text, size_t length)
{
    const tensor *t = &o->tensor;
    int used = snprintf(text, length, "%s", dtype_name(t->type));
    for (int k = 0; k < (int)t->dims && used < (int)length; k++)
        used += snprintf(text + used, length - (size_t)used, "%c%lld", k ? 'x' : '[', (long long)t->dim[k]);
    bool turned = t->dims > 1 && t->stride[t->dims - 1] != 1;
    if (used < (int)length)
        used +=
            snprintf(text + used, length - (size_t)used, "]%s%s", turned ? "t" : "", o->access == UPDATE ? "+" : "");
    return used;
}

const char *operation_key(const op *o, char text[OPERATION_KEY])
{
    const char *between = " ";
    int used = snprintf(text, OPERATION_KEY, "%s", op_kind_name(o->kind));
    for (int i = 0; i < o->operands && used < OPERATION_KEY - 1; i++) {
        if (!tensor_present(&o->operand[i].tensor)) continue;
        used += snprintf(text + used, OPERATION_KEY - (size_t)used, "%s", between);
        if (used < OPERATION_KEY) used += print_operand(&o->operand[i], text + used, OPERATION_KEY - (size_t)used);
        between = ",";
    }
    return text;
}

const char *transfer_key(op_kind kind, int ranks, int within, char text[OPERATION_KEY])
{
    bool pair = kind == OP_EXCHANGE;
    snprintf(text, OPERATION_KEY, "%s %d %d", op_kind_name(kind), pair ? 2 : ranks, pair && within > 2 ? 2 : within);
    return text;
}

/* Compares keys of operations without their shapes: kind, and formats of the first two operands. */
static bool keys_alike(const char *a, const char *b)
{
    size_t kind = strcspn(a, "["), other = strcspn(b, "[");
    const char *second = strchr(a, ','), *others = strchr(b, ',');
    if (kind != other || strncmp(a, b, kind) != 0 || !second != !others) return false;
    return !second || strncmp(second, others, strcspn(second, "[")) == 0;
}

static bool keys_equal(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* Seconds of that work, on the line through the nearest smaller and larger listed work of alike keys; in proportion
 * beyond them. */
static double interpolated(const listed_times *t, const char *key, double work, bool alike(const char *, const char *))
{
    const listed_time *below = NULL, *above = NULL;
    for (const listed_time *x = t->list; x < t->list + t->count; x++) {
        if (!alike(x->key, key)) continue;
        if (x->work <= work && (!below || x->work > below->work)) below = x;
        if (x->work >= work && (!above || x->work < above->work)) above = x;
    }
    if (!below && !above) return (double)NAN;
    if (!below || !above || above->work == below->work) {
        const listed_time *x = below ? below : above;
        return x->seconds * work / x->work;
    }
    return below->seconds + (above->seconds - below->seconds) * (work - below->work) / (above->work - below->work);
}

double listed_operation(const machine_sheet *s, const op *o, bool *same)
{
    char key[OPERATION_KEY];
    operation_key(o, key);
    double seconds = interpolated(&s->operations, key, operation_work(o), keys_equal);
    *same = !isnan(seconds);
    return *same ? seconds : interpolated(&s->operations, key, operation_work(o), keys_alike);
}

double listed_transfer(const machine_sheet *s, op_kind kind, int ranks, int within, double bytes)
{
    char key[OPERATION_KEY];
    return interpolated(&s->transfers, transfer_key(kind, ranks, within, key), bytes, keys_equal);
}
