/* Tokens and labels as functions of seed, step, sample and position (src/DEFINITIONS.md). */
#include "base/random.h"
#include "machine/host/host.h"

enum { LONGEST_DOCUMENT = 4096 };

typedef struct {
    const tokens_args *args;
    uint32_t key, step, sample;
    int64_t length;
} sample_tokens;

static philox_block draw(const sample_tokens *s, uint32_t number, uint32_t stream)
{
    philox_block counter = { { number, s->sample, s->step, stream } };
    return philox4x32(counter, s->args->seed, s->key);
}

static int32_t uniform_token(const sample_tokens *s, int64_t position)
{
    return (int32_t)mulhi(draw(s, (uint32_t)position, 0).word[0], s->args->vocabulary);
}

static int32_t uniform_label(const sample_tokens *s, int64_t position)
{
    if (s->args->labels_next) return uniform_token(s, position + 1);
    return (int32_t)mulhi(draw(s, (uint32_t)position, 0).word[1], s->args->vocabulary);
}

/* Writes one sample: column b of tokens and labels [s, b]. */
static void uniform(const sample_tokens *s, int32_t *token, int32_t *label, int64_t stride)
{
    for (int64_t p = 0; p < s->length; p++) {
        token[p * stride] = uniform_token(s, position_of(s->args->place, p, s->length));
        label[p * stride] = uniform_label(s, position_of(s->args->place, p, s->length));
    }
}

/* Writes documents whose tokens count up. A token is also the label of the position before. Positions ascend. */
static void ramp(const sample_tokens *s, int32_t *token, int32_t *label, int64_t stride)
{
    uint32_t vocabulary = s->args->vocabulary, document = 0, remaining = 0, offset = 0;
    int64_t tokens = 0, labels = 0;
    for (int64_t position = 0; labels < s->length; position++) {
        if (remaining == 0) remaining = 1 + mulhi(draw(s, document++, 1).word[0], LONGEST_DOCUMENT), offset = 0;
        int32_t value = (int32_t)(--remaining ? 1 + offset++ % (vocabulary - 2) : vocabulary - 1);
        if (position_of(s->args->place, labels, s->length) + 1 == position) label[labels++ * stride] = value;
        if (tokens < s->length && position_of(s->args->place, tokens, s->length) == position)
            token[tokens++ * stride] = value;
    }
}

static void zeros(const sample_tokens *s, int32_t *token, int32_t *label, int64_t stride)
{
    for (int64_t p = 0; p < s->length; p++) token[p * stride] = label[p * stride] = 0;
}

void host_tokens(const op *o, void *scratch)
{
    static void (*const kinds[])(const sample_tokens *, int32_t *, int32_t *, int64_t) = {
        [TOKENS_UNIFORM] = uniform, [TOKENS_RAMP] = ramp, [TOKENS_ZEROS] = zeros
    };
    const double *scalar = o->operand[0].tensor.data;
    const tensor *tokens = &o->operand[1].tensor, *labels = &o->operand[2].tensor;
    const tokens_args *a = &o->args.tokens;
    int64_t samples = tokens->dim[1];
    for (int64_t b = 0; b < samples; b++) {
        sample_tokens s = { a, fnv1a("tokens"), (uint32_t)clamp_number(scalar[SCALAR_STEP], 0.0, UINT32_MAX),
                            (uint32_t)(a->first_sample + b), tokens->dim[0] };
        kinds[a->kind](&s, (int32_t *)tokens->data + b, (int32_t *)labels->data + b, samples);
    }
}
