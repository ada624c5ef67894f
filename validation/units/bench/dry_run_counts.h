/* For tests of the dry run: compares the counts of a rank over some steps with the dry run's counts for its stage. */
#pragma once
#include "machine/queue/tally.h"
#include "model/param.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* The dry run reports the first context rank. The others see fewer keys per call and may need less scratch. */
static void check_bytes(const paper_stage *told, const size_t by_kind[ARENA_KINDS], size_t total, bool first)
{
    size_t less = told->bytes[SCRATCH] - by_kind[SCRATCH];
    assert_true(by_kind[SCRATCH] <= told->bytes[SCRATCH] && (less == 0 || !first));
    for (int k = 0; k < ARENA_KINDS; k++) assert_int_equal(told->bytes[k], by_kind[k] + (k == SCRATCH ? less : 0));
    assert_int_equal(told->total, total + less);
}

/* Returns the number of buckets whose squares only the first tensor rank adds, because every tensor rank has their
 * gradient: vectors, positions, routers. 0 on the first tensor rank. */
static inline int64_t buckets_of_the_first(const bench_case *c, mesh *m)
{
    arena a;
    param_table t;
    int64_t count = 0;
    arena_open(&a, NULL, 0);
    param_table_open(&t, c, m, &a);
    for (int i = 0; i < t.bucket_count; i++) count += t.buckets[i].holders != NULL;
    param_table_close(&t);
    return m->at[AXIS_TENSOR] > 0 ? count : 0;
}

/* The products are exact, because flops and bytes are integers below 2^53. */
static inline void check_counts(const tally *told, const tally *found, int64_t steps, int64_t squares_less)
{
    double n = (double)steps;
    for (int k = 0; k < OP_KINDS; k++) {
        assert_int_equal(steps * told->kind[k].count - found->kind[k].count,
                         k == OP_SQUARE_SUM ? steps * squares_less : 0);
        assert_true(n * told->kind[k].flops == found->kind[k].flops);
    }
    assert_int_equal(told->axes, found->axes);
    for (int i = 0; i < told->axes; i++) {
        const tally_axis *t = &told->axis[i], *f = &found->axis[i];
        assert_string_equal(t->axis, f->axis);
        assert_int_equal(steps * t->messages, f->messages);
        assert_true(n * t->bytes == f->bytes && n * t->sent == f->sent);
    }
}
