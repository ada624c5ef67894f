/* Parts of operations, cut along the sampled axes of the rule of their kind. */
#include "base/random.h"
#include "machine/prove/shadow.h"
#include <string.h>

enum { ALL_ELEMENTS = 'e', POSITIONS = 32, WHOLE_BYTES = 1 << 28 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Draws the start of a part of length `part` in n. */
static int64_t start_of(uint32_t *draws, int64_t n, int64_t part)
{
    philox_block counter = { { (*draws)++, 0, 0, 5 } };
    philox_block drawn = philox4x32(counter, 0, 0);
    return (int64_t)((drawn.word[0] | (uint64_t)drawn.word[1] << 32) % (uint64_t)(n - part + 1));
}

/* Returns the dimension of an operand that has the axis, or -1. */
static int dim_of(const op *o, int which, char axis)
{
    const char *axes = op_rules[o->kind].operand[which].axes, *at = strchr(axes, axis);
    const tensor *t = &o->operand[which].tensor;
    if (!at || !tensor_present(t)) return -1;
    return axes[0] == '*' ? t->dims - (int)strlen(at) : (int)(at - axes);
}

/* Makes operands with the axis ALL_ELEMENTS one-dimensional. Returns false and changes nothing if one has gaps. */
static bool flatten(op *o)
{
    for (int i = 0; i < o->operands; i++)
        if (dim_of(o, i, ALL_ELEMENTS) >= 0 && !tensor_contiguous(&o->operand[i].tensor)) return false;
    for (int i = 0; i < o->operands; i++)
        if (dim_of(o, i, ALL_ELEMENTS) >= 0) o->operand[i].tensor = tensor_flat(o->operand[i].tensor);
    return true;
}

/* Cuts the same part from all operands with the axis. Cuts nothing unless all lengths are multiples of the shortest. */
static void cut(op *o, axis_sample sample, uint32_t *draws)
{
    int64_t n = INT64_MAX;
    bool with_gaps = sample.axis == ALL_ELEMENTS && !flatten(o);
    for (int i = 0; i < o->operands; i++) {
        int d = dim_of(o, i, sample.axis);
        if (d >= 0) n = smaller(n, o->operand[i].tensor.dim[d]);
    }
    for (int i = 0; i < o->operands; i++) {
        int d = dim_of(o, i, sample.axis);
        if (n == 0 || (d >= 0 && o->operand[i].tensor.dim[d] % n)) return;
    }
    int64_t part = smaller(with_gaps ? POSITIONS : sample.length, n), first = start_of(draws, n, part);
    for (int i = 0; i < o->operands; i++) {
        int d = dim_of(o, i, sample.axis);
        tensor *t = &o->operand[i].tensor;
        if (d >= 0) *t = tensor_slice(*t, d, t->dim[d] / n * first, t->dim[d] / n * part);
    }
}

shadow_part shadow_part_whole(const op *o)
{
    shadow_part p = { .op = *o };
    for (int i = 0; i < o->operands; i++)
        p.compared[i] = tensor_present(&o->operand[i].tensor) && o->operand[i].access != READ;
    return p;
}

static double elements_bytes(const op *o)
{
    double bytes = 0.0;
    for (int i = 0; i < o->operands; i++)
        bytes += (double)tensor_elements(&o->operand[i].tensor) * (double)dtype_bytes(o->operand[i].tensor.type);
    return bytes;
}

static bool has_sampled_axis(const op *o, int which)
{
    bool has = false;
    for (const axis_sample *a = op_rules[o->kind].sample; a < op_rules[o->kind].sample + RULE_AXES; a++)
        has = has || (a->axis && dim_of(o, which, a->axis) >= 0);
    return has;
}

shadow_part shadow_part_of(const op *o, uint32_t *draws)
{
    shadow_part p = shadow_part_whole(o);
    const axis_sample *sample = op_rules[o->kind].sample;
    for (int a = 0; a < RULE_AXES && sample[a].axis; a++) cut(&p.op, sample[a], draws);
    bool whole = elements_bytes(&p.op) == elements_bytes(o);
    for (int i = 0; i < o->operands; i++) p.compared[i] = p.compared[i] && (whole || has_sampled_axis(o, i));
    if (!sample[0].axis && elements_bytes(o) > WHOLE_BYTES) p.op.operands = 0;
    return p;
}
