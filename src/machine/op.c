/* What can be said of an operation without running it. */
#include "machine/op.h"
#include <stdio.h>

static const char *const phase_names[PHASES] = {
    [PHASE_SETUP] = "setup",         [PHASE_BATCH] = "batch",         [PHASE_FORWARD] = "forward",
    [PHASE_BACKWARD] = "backward",   [PHASE_RECOMPUTE] = "recompute", [PHASE_GRADIENT] = "gradient",
    [PHASE_OPTIMIZER] = "optimizer",
};

const char *phase_name(phase p) { return phase_names[p]; }

double op_bytes(const op *o)
{
    double bytes = 0;
    for (int i = 0; i < o->operands; i++) bytes += (double)tensor_span(&o->operand[i].tensor);
    return bytes;
}

const char *op_describe(const op *o, char *text, size_t length)
{
    char numbers[160] = "";
    const origin *at = &o->origin;
    size_t used = 0;
    const struct {
        const char *word;
        int64_t value;
    } item[] = {
        { "step", at->step }, { "microbatch", at->microbatch }, { "chunk", at->chunk }, { "layer", at->layer }
    };
    for (int i = 0; i < 4; i++)
        if (item[i].value >= 0)
            used += (size_t)snprintf(numbers + used, sizeof numbers - used, "%s %lld, ", item[i].word,
                                     (long long)item[i].value);
    snprintf(text, length, "%s %s (%s%s)", op_kind_name(o->kind), at->name ? at->name : "", numbers,
             phase_name(at->phase));
    return text;
}
