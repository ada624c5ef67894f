/* The reference's sum of losses adds every sequence once, whichever ranks bring it, and sends it to the rank that
 * compares it. Values are integers, so sums are exact. */
#include "bench/check/reference.h"
#include "units/machine/fabric_ranks.h"

enum { LENGTHS = 6 };
static const int64_t microbatches_of[LENGTHS] = {
    1, 3, 255, 256, 257, 700
}; /* 4 sequences each: up to one block, and more */

static double value_of(int64_t sequence) { return (double)(sequence * 37 % 1013 + 1); }

/* Two data ranks with microbatches of 2 rows. Ranks after them do not take part. */
static reference reference_of(int64_t microbatches)
{
    bool takes_part = world_rank() < 2;
    return (reference){ .sequences = microbatches * 4,
                        .own_sequences = takes_part ? microbatches * 2 : 0,
                        .data_ranks = 2,
                        .data_rank = takes_part ? world_rank() : 0,
                        .microbatch = 2 };
}

/* In each microbatch the data ranks have consecutive groups of rows. Counts them one by one. */
static void sequences_are_those_of_the_data_rank(void **state)
{
    for (int data_ranks = 1; data_ranks < 4; data_ranks++)
        for (int microbatch = 1; microbatch < 4; microbatch++) {
            int64_t sequence = 0, own[3] = { 0 };
            for (int m = 0; m < 5; m++)
                for (int d = 0; d < data_ranks; d++)
                    for (int row = 0; row < microbatch; row++) {
                        reference r = { .data_ranks = data_ranks, .data_rank = d, .microbatch = microbatch };
                        assert_int_equal(reference_sequence(&r, own[d]++), sequence++);
                    }
        }
}

/* Rank k brings every sequence s with s % ranks == k, in descending order, multiplied by `times`. */
static int64_t bring(int64_t sequences, double times, int64_t *sequence, double *value)
{
    int64_t count = 0;
    for (int64_t s = sequences - 1; s >= 0; s--)
        if (s % world_ranks() == world_rank()) {
            sequence[count] = s;
            value[count++] = times * value_of(s);
        }
    return count;
}

static bool sums_right(const reference *r, double total, const double *own, double times)
{
    double want = 0.0;
    for (int64_t s = 0; s < r->sequences; s++) want += times * value_of(s);
    bool right = total == want;
    for (int64_t i = 0; i < r->own_sequences; i++)
        right = right && own[i] == times * value_of(reference_sequence(r, i));
    return right;
}

static void every_sequence_once(void **state)
{
    for (int i = 0; i < LENGTHS; i++) {
        reference r = reference_of(microbatches_of[i]);
        int64_t *sequence = bytes_of((size_t)r.sequences * sizeof *sequence);
        double *value = bytes_of((size_t)r.sequences * sizeof *value),
               *own = bytes_of((size_t)r.sequences * sizeof *own);
        int64_t count = bring(r.sequences, 1.0, sequence, value);
        double total = reference_sum_losses(&r, sequence, value, count, own);
        assert_on_all(sums_right(&r, total, own, 1.0), "%lld sequences", (long long)r.sequences);
        free(sequence);
        free(value);
        free(own);
    }
}

/* Even ranks bring parts of the same sequences, like context ranks; odd ranks bring nothing. */
static void parts_are_added(void **state)
{
    reference r = reference_of(300);
    int64_t *sequence = bytes_of((size_t)r.sequences * sizeof *sequence), count = world_rank() % 2 ? 0 : r.sequences;
    double *value = bytes_of((size_t)r.sequences * sizeof *value), *own = bytes_of((size_t)r.sequences * sizeof *own);
    int parts = (world_ranks() + 1) / 2, part = world_rank() / 2;
    for (int64_t s = 0; s < count; s++) {
        sequence[s] = s;
        value[s] = (part + 1) * value_of(s);
    }
    double total = reference_sum_losses(&r, sequence, count ? value : NULL, count, own);
    assert_on_all(sums_right(&r, total, own, parts * (parts + 1) / 2), "parts of %d ranks", parts);
    free(sequence);
    free(value);
    free(own);
}

WORLD_PROGRAM("reference_losses", NULL, NULL, sequences_are_those_of_the_data_rank, every_sequence_once,
              parts_are_added)
