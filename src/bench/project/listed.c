/* Keys of operations, and their listed times. */
#include "bench/project/listed.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double operation_bytes(const op *o)
{
    double bytes = 0.0, rows = 0.0;
    bool is_embedding = o->kind == OP_EMBEDDING_FORWARD || o->kind == OP_EMBEDDING_BACKWARD;
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &o->operand[i];
        double moved = (double)tensor_elements(&x->tensor) * (double)dtype_bytes(x->tensor.type);
        bytes += x->access == UPDATE ? 2.0 * moved : moved;
        if (is_embedding && i == (o->kind == OP_EMBEDDING_FORWARD ? 2 : 1)) rows = moved;
    }
    return is_embedding ? 3.0 * rows : bytes;
}

double operation_work(const op *o) { return op_flops(o) > 0.0 ? op_flops(o) : operation_bytes(o); }

/* Prints "f32[64x128]", then t if the last dimension is not contiguous, and + if the operand is added to. */
static int print_operand(const operand *o, char *text, size_t length)
{
    const tensor *t = &o->tensor;
    int used = snprintf(text, length, "%s", dtype_name(t->type));
    for (int k = 0; k < (int)t->dims && used < (int)length; k++)
        used += snprintf(text + used, length - (size_t)used, "%c%lld", k ? 'x' : '[', (long long)t->dim[k]);
    bool transposed = t->dims > 1 && t->stride[t->dims - 1] != 1;
    if (used < (int)length)
        used += snprintf(text + used, length - (size_t)used, "]%s%s", transposed ? "t" : "",
                         o->access == UPDATE ? "+" : "");
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

listed_time listed_of(const op *o, double seconds)
{
    listed_time x = { .work = operation_work(o), .seconds = seconds };
    operation_key(o, x.key);
    return x;
}

void listed_write(FILE *to, const char *word, const listed_time *x)
{
    fprintf(to, "%s %s %.17g us %.5g", word, x->key, x->work, 1e6 * x->seconds);
}

const char *transfer_key(op_kind kind, int ranks, int within, char text[OPERATION_KEY])
{
    bool pair = kind == OP_EXCHANGE;
    snprintf(text, OPERATION_KEY, "%s %d %d", op_kind_name(kind), pair ? 2 : ranks, pair && within > 2 ? 2 : within);
    return text;
}

/* Reads a dimension, a number after [ or x, from both keys. Returns false if one of them has none. */
static bool take_dimension(const char *begin, const char **a, const char **b, double *log_ratio)
{
    char *end_a, *end_b;
    if (*a == begin || ((*a)[-1] != '[' && (*a)[-1] != 'x')) return false;
    double x = (double)strtoll(*a, &end_a, 10), y = (double)strtoll(*b, &end_b, 10);
    if (x < 1.0 || y < 1.0) return false;
    *log_ratio = log(x / y);
    *a = end_a, *b = end_b;
    return true;
}

/* Returns the sum of squares of log(ratio) over the dimensions of two keys, or INFINITY if anything else differs. */
static double distance_of(const char *key, const char *other)
{
    double sum = 0.0, log_ratio;
    const char *a = key, *b = other;
    while (*a && *b) {
        if (take_dimension(key, &a, &b, &log_ratio)) sum += log_ratio * log_ratio;
        else if (*a++ != *b++) return (double)INFINITY;
    }
    return *a || *b ? (double)INFINITY : sum;
}

/* Returns seconds at the rates of the two nearest keys: the mean of the logarithms, weighted by inverse distances. */
static double nearest_seconds(const listed_times *t, const char *key, double work)
{
    const listed_time *best[2] = { NULL, NULL };
    double distances[2] = { (double)INFINITY, (double)INFINITY };
    for (const listed_time *x = t->list; x < t->list + t->count; x++) {
        double distance = distance_of(x->key, key);
        int slot = distance < distances[0] ? 0 : 1;
        if (distance >= distances[1]) continue;
        if (slot == 0) best[1] = best[0], distances[1] = distances[0];
        best[slot] = x, distances[slot] = distance;
    }
    if (!best[0]) return (double)NAN;
    double first = log(best[0]->seconds / best[0]->work), weight = 0.0;
    if (best[1] && distances[0] > 0.0) weight = distances[0] / (distances[0] + distances[1]);
    double second = weight > 0.0 ? log(best[1]->seconds / best[1]->work) : 0.0;
    return work * exp((1.0 - weight) * first + weight * second);
}

static bool keys_alike(const char *a, const char *b)
{
    size_t kind = strcspn(a, "["), other = strcspn(b, "[");
    const char *second = strchr(a, ','), *others = strchr(b, ',');
    if (kind != other || strncmp(a, b, kind) != 0 || !second != !others) return false;
    return !second || strncmp(second, others, strcspn(second, "[")) == 0;
}

static bool keys_equal(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* Returns seconds by linear interpolation between the nearest smaller and larger work of alike keys. Outside the listed
 * range, seconds are proportional to the work. */
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
    double work = operation_work(o), seconds = interpolated(&s->operations, operation_key(o, key), work, keys_equal);
    *same = !isnan(seconds);
    if (!*same) seconds = nearest_seconds(&s->operations, key, work);
    return isnan(seconds) ? interpolated(&s->operations, key, work, keys_alike) : seconds;
}

double listed_transfer(const machine_sheet *s, op_kind kind, int ranks, int within, double bytes)
{
    char key[OPERATION_KEY];
    return interpolated(&s->transfers, transfer_key(kind, ranks, within, key), bytes, keys_equal);
}
