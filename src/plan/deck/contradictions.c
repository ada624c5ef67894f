/* Refusals of keys that contradict one another at any number of ranks. */
#include "base/numeric.h"
#include "plan/deck/draft.h"
#include "plan/model/shapes.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* Pairs of keys: the first must be a multiple of the second. */
static const key_id multiples[][3] = {
    { KEY_HIDDEN, KEY_HEADS, KEYS },    { KEY_HEADS, KEY_KV_HEADS, KEYS }, { KEY_HEADS, KEY_TENSOR, KEYS },
    { KEY_KV_HEADS, KEY_TENSOR, KEYS }, { KEY_FFN, KEY_TENSOR, KEYS },     { KEY_SEQUENCE, KEY_TENSOR, KEYS },
};

bool draft_given(const case_draft *d, key_id key) { return d->line[key] > 0; }

void draft_refuse(const case_draft *d, const key_id *keys, const char *format, ...)
{
    char sentence[KEY_SENTENCE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    while (*keys != KEYS && !draft_given(d, *keys)) keys++;
    if (*keys == KEYS) mistake(d->wrong, d->c.line, "section", "%s", sentence);
    else mistake(d->wrong, d->line[*keys], key_at(*keys)->name, "%s", sentence);
}

static long long value(const case_draft *d, key_id key) { return (long long)key_integer(key, &d->c); }

static void validate_multiples(const case_draft *d)
{
    for (size_t i = 0; i < sizeof multiples / sizeof multiples[0]; i++) {
        const key_id *pair = multiples[i];
        if (value(d, pair[0]) % value(d, pair[1]) != 0)
            draft_refuse(d, pair, "%s %lld is not a multiple of %s %lld", key_at(pair[0])->name, value(d, pair[0]),
                         key_at(pair[1])->name, value(d, pair[1]));
    }
}

/* FP8 products need operands whose dimensions on a tensor rank are multiples of 16. */
static void validate_fp8(const case_draft *d)
{
    static const key_id hidden[] = { KEY_HIDDEN, KEY_TENSOR, KEY_PRECISION, KEYS },
                        ffn[] = { KEY_FFN, KEY_TENSOR, KEY_PRECISION, KEYS },
                        heads[] = { KEY_KV_HEADS, KEY_HEADS, KEY_HIDDEN, KEY_TENSOR, KEY_PRECISION, KEYS };
    const model_shape *m = &d->c.model;
    long long tensor = value(d, KEY_TENSOR), pair = 2 * (long long)(m->kv_heads * m->head_dim);
    if (d->c.precision != PRECISION_FP8) return;
    if (m->hidden % (16 * tensor) != 0)
        draft_refuse(d, hidden, "FP8 products need hidden %lld divisible by 16 x tensor %lld", (long long)m->hidden,
                     tensor);
    if (m->ffn % (16 * tensor) != 0)
        draft_refuse(d, ffn, "FP8 products need ffn %lld divisible by 16 x tensor %lld", (long long)m->ffn, tensor);
    if (pair % (16 * tensor) != 0)
        draft_refuse(d, heads,
                     "FP8 products need keys and values, 2 x kv_heads %lld x head dim %lld, divisible by "
                     "16 x tensor %lld",
                     (long long)m->kv_heads, (long long)m->head_dim, tensor);
}

/* Rotary positions rotate pairs of channels, so the rotated part of the head dim must be even. */
static void validate_heads(const case_draft *d)
{
    static const key_id keys[] = { KEY_HIDDEN, KEY_HEADS, KEYS };
    const model_shape *m = &d->c.model;
    double rotated = (double)m->head_dim * m->rope_fraction;
    if (m->hidden % m->heads == 0 && fmod(rotated, 2.0) != 0.0)
        draft_refuse(d, keys,
                     "hidden %lld / heads %lld gives the head dim %lld; rotary positions need an even width, not %g",
                     value(d, KEY_HIDDEN), value(d, KEY_HEADS), (long long)m->head_dim, rotated);
    else if (m->hidden % m->heads == 0 && m->head_dim % 2 != 0)
        draft_refuse(d, keys, "hidden %lld / heads %lld gives the head dim %lld; attention needs an even one",
                     value(d, KEY_HIDDEN), value(d, KEY_HEADS), (long long)m->head_dim);
    if (m->hidden % m->heads == 0 && m->head_dim > LARGEST_HEAD_DIM)
        draft_refuse(d, keys, "hidden %lld / heads %lld gives the head dim %lld; at most %d", value(d, KEY_HIDDEN),
                     value(d, KEY_HEADS), (long long)m->head_dim, LARGEST_HEAD_DIM);
}

/* Context rank r holds pieces r and 2C - 1 - r of 2C pieces of a sequence, each split over the tensor ranks. */
static void validate_context(const case_draft *d)
{
    static const key_id keys[] = { KEY_SEQUENCE, KEY_CONTEXT, KEY_TENSOR, KEYS };
    long long context = value(d, KEY_CONTEXT), tensor = value(d, KEY_TENSOR);
    if (context > 1 && value(d, KEY_SEQUENCE) % (2 * context * tensor) != 0)
        draft_refuse(d, keys, "sequence %lld is not a multiple of 2 x context %lld x tensor %lld",
                     value(d, KEY_SEQUENCE), context, tensor);
}

/* Four links of a pipeline and three other transfers may run at once, and each needs an SM. */
static void validate_transfers(const case_draft *d)
{
    static const key_id keys[] = { KEY_TRANSFER_SMS, KEYS }, links[] = { KEY_PIPELINE, KEYS };
    const char *without = d->source->cuda_without_links;
    if (d->c.transfer_sms > 0 && d->c.transfer_sms < 8)
        draft_refuse(d, keys, "transfers need 8 multiprocessors or more, or 0: then they share all with the products");
    if (without && d->c.backend == BACKEND_CUDA && value(d, KEY_PIPELINE) > 1) draft_refuse(d, links, "%s", without);
}

static void validate_expert(const case_draft *d)
{
    static const key_id keys[] = { KEY_EXPERT, KEYS }, span[] = { KEY_EXPERT, KEY_DATA, KEY_CONTEXT, KEYS },
                        shards[] = { KEY_SHARD, KEY_EXPERT, KEYS };
    long long expert = value(d, KEY_EXPERT), data = value(d, KEY_DATA), context = value(d, KEY_CONTEXT);
    long long experts = (long long)d->c.model.experts;
    static const key_id capacity[] = { KEY_CAPACITY, KEYS };
    if (experts == 0 && draft_given(d, KEY_CAPACITY) && d->c.capacity != 1.0)
        draft_refuse(d, capacity, "%s has no experts", d->workload->name);
    if (expert > 1 && experts == 0) {
        draft_refuse(d, keys, "%s has no experts; 1 is the only value", d->workload->name);
        return;
    }
    if (expert > 1 && experts % expert != 0)
        draft_refuse(d, keys, "%lld does not divide the %lld experts", expert, experts);
    if (expert > 1 && value(d, KEY_SHARD) > 1)
        draft_refuse(d, shards, "expert %lld needs shard 1, not %lld: expert ranks are ranks of data x context", expert,
                     value(d, KEY_SHARD));
    if (draft_given(d, KEY_DATA) && data * context % expert != 0)
        draft_refuse(d, span, "expert %lld does not divide data %lld x context %lld", expert, data, context);
}

static void validate_positions(const case_draft *d)
{
    static const key_id keys[] = { KEY_SEQUENCE, KEYS };
    const model_shape *m = &d->c.model;
    if (m->position_rows && m->sequence > m->position_rows)
        draft_refuse(d, keys, "%lld is longer than the %lld learned positions of %s", value(d, KEY_SEQUENCE),
                     (long long)m->position_rows, d->workload->name);
}

static void validate_pipeline(const case_draft *d)
{
    static const key_id keys[] = { KEY_LAYERS, KEY_PIPELINE, KEY_CHUNKS_PER_STAGE, KEYS };
    if (shape_slots(d->c.model.layers, &d->c.layout) < 0)
        draft_refuse(d, keys,
                     "neither layers %lld nor, with embedding and loss, %lld is a multiple of pipeline %lld x "
                     "chunks_per_stage %lld",
                     value(d, KEY_LAYERS), value(d, KEY_LAYERS) + 2, value(d, KEY_PIPELINE),
                     value(d, KEY_CHUNKS_PER_STAGE));
}

/* Refuses a batch that does not fit the data ranks. The sentence ends with the keys that help. */
__attribute__((format(printf, 3, 4))) static void refuse_batch(const case_draft *d, const key_id *keys,
                                                               const char *format, ...)
{
    bool data = draft_given(d, KEY_DATA), batch = draft_given(d, KEY_GLOBAL_BATCH);
    const char *remedy = data && batch ? ""
                         : data        ? "; give global_batch"
                         : batch       ? "; give data or another global_batch"
                                       : "; give data or global_batch";
    char sentence[REASON_LENGTH - 48];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    draft_refuse(d, keys, "%s%s", sentence, remedy);
}

static void validate_schedule(const case_draft *d)
{
    static const key_id keys[] = { KEY_SCHEDULE, KEY_CHUNKS_PER_STAGE, KEY_PIPELINE, KEYS },
                        batch[] = { KEY_GLOBAL_BATCH, KEY_MICROBATCH, KEY_SCHEDULE, KEY_PIPELINE, KEYS },
                        chunks[] = { KEY_CHUNKS_PER_STAGE, KEYS };
    bool interleaved = d->c.schedule == SCHEDULE_INTERLEAVED;
    if (interleaved && value(d, KEY_PIPELINE) == 1) draft_refuse(d, keys, "interleaved needs pipeline > 1");
    if (!interleaved && value(d, KEY_CHUNKS_PER_STAGE) > 1)
        draft_refuse(d, chunks, "%lld needs schedule = interleaved", value(d, KEY_CHUNKS_PER_STAGE));
    if (interleaved && d->c.microbatches % value(d, KEY_PIPELINE) != 0)
        refuse_batch(d, batch, "interleaved needs microbatches (here %lld) divisible by pipeline %lld",
                     (long long)d->c.microbatches, value(d, KEY_PIPELINE));
}

/* Limits the length of a step. Before it runs, the paper backend submits every microbatch through every layer, at about
 * 16,000 passes through a layer in a second. */
static void validate_length(const case_draft *d)
{
    enum { MOST_MICROBATCHES = 65536, MOST_LAYERS = 4096, MOST_PASSES = 1 << 18 };
    static const key_id keys[] = { KEY_GLOBAL_BATCH, KEYS }, both[] = { KEY_GLOBAL_BATCH, KEY_LAYERS, KEYS },
                        deep[] = { KEY_LAYERS, KEYS };
    long long microbatches = (long long)d->c.microbatches, layers = value(d, KEY_LAYERS);
    if (layers > MOST_LAYERS) draft_refuse(d, deep, "%lld is too many; at most %d", layers, MOST_LAYERS);
    if (d->c.skipped[0]) return;
    if (microbatches > MOST_MICROBATCHES)
        draft_refuse(d, keys, "%lld makes %lld microbatches a step; at most %d", value(d, KEY_GLOBAL_BATCH),
                     microbatches, MOST_MICROBATCHES);
    else if (microbatches * layers > MOST_PASSES)
        draft_refuse(d, both, "%lld microbatches through %lld layers are %lld passes a step; at most %d", microbatches,
                     layers, microbatches * layers, MOST_PASSES);
}

static void validate_soak(const case_draft *d)
{
    static const key_id keys[] = { KEY_MINUTES, KEY_WARMUP, KEYS };
    if (d->c.minutes > 0.0 && d->c.warmup < 2)
        draft_refuse(d, keys,
                     "a soak needs warmup of 2 or more, not %lld: its time determines the memory for step times",
                     value(d, KEY_WARMUP));
}

static void validate_profile(const case_draft *d)
{
    static const key_id steps[] = { KEY_PROFILE, KEY_STEPS, KEYS }, ranks[] = { KEY_PROFILE_RANKS, KEYS };
    const bench_case *c = &d->c;
    if (c->profile.last > c->warmup + c->steps)
        draft_refuse(d, steps, "ends after step %lld, the last one", (long long)(c->warmup + c->steps - 1));
    if (c->profile.last > 0 && !c->skipped[0] && c->profile_ranks.first >= d->source->ranks)
        draft_refuse(d, ranks, "begins after the last rank, %d", d->source->ranks - 1);
}

/* In a skipped case, data is unknown unless the deck gives it. */
static void validate_batch(const case_draft *d)
{
    static const key_id keys[] = { KEY_GLOBAL_BATCH, KEY_MICROBATCH, KEY_DATA, KEY_SHARD, KEYS };
    long long data = value(d, KEY_DATA), shard = value(d, KEY_SHARD), micro = value(d, KEY_MICROBATCH);
    bool known = !d->c.skipped[0] || draft_given(d, KEY_DATA);
    if (known && value(d, KEY_GLOBAL_BATCH) < 1)
        refuse_batch(d, keys, "the recipe's batch for %d ranks is less than one sequence", d->c.layout.ranks);
    else if (known && value(d, KEY_GLOBAL_BATCH) % (data * shard * micro) != 0)
        refuse_batch(d, keys, "global_batch %lld is not a multiple of data %lld x shard %lld x microbatch %lld",
                     value(d, KEY_GLOBAL_BATCH), data, shard, micro);
}

void draft_validate(const case_draft *d)
{
    static const key_id sizes[] = { KEY_LAYERS,   KEY_HIDDEN,     KEY_FFN,          KEY_VOCABULARY,
                                    KEY_SEQUENCE, KEY_MICROBATCH, KEY_GLOBAL_BATCH, KEY_DATA,
                                    KEY_SHARD,    KEY_STEPS,      KEY_WARMUP,       KEYS };
    const char *what;
    if (!shape_fits(&d->c, &what)) draft_refuse(d, sizes, "the sizes do not fit in 63 bits: %s", what);
    else validate_length(d);
    validate_multiples(d);
    validate_heads(d);
    validate_fp8(d);
    validate_context(d);
    validate_expert(d);
    validate_transfers(d);
    validate_positions(d);
    validate_soak(d);
    validate_profile(d);
    validate_pipeline(d);
    validate_batch(d);
    validate_schedule(d);
}
