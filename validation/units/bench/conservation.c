/* If a sum of gradients over ranks is skipped, dropped or repeated in one step, that step is reported. A skipped
 * gathering of weights in the last step is found, too. A run without a fault passes. */
#include "bench/check/conservation.h"
#include "bench/run/gather_case.h"
#include "units/tests.h"
#include "units/train/trained.h"

enum { STEPS = 4, STRUCK = 2, DECK = 512 };

static bench_case case_for(const char *precision, const char *layout)
{
    char text[DECK];
    snprintf(text, sizeof text,
             "conservation\n\n[llama3.1-8b]\nsize = check\nwarmup = 0\nsteps = %d\ncheck = off\nbackend = host\n"
             "layers = 2\nsequence = 64\nmicrobatch = 1\nglobal_batch = 4\nprecision = %s\n%s\n",
             STEPS, precision, layout);
    return case_of(text, world_ranks());
}

/* The fault hits the first operation of its kind in one step on every rank: the transfer involves all ranks. */
static conservation trained_with(const bench_case *c, fault_kind kind, op_kind operation, int64_t struck)
{
    trainer t;
    mesh m;
    trainer_options o = { .machine = { .kind = kind_of(c), .world_rank = world_rank() } };
    mesh_open(&m, &c->layout, world_rank(), mesh_on(o.machine.kind));
    measure share = measure_case(c, &m, &o);
    trainer_build(&t, c, &m, &o, &share);
    trainer_initialize(&t);
    conserved_steps *sums = conserved_open(&t, STEPS);
    fault planted = { .kind = kind, .operation = operation, .nth = 1, .world_rank = world_rank() };
    for (int64_t step = 0; step < STEPS; step++) {
        prove_plant(t.machine, step == struck ? &planted : &(fault){ .kind = FAULT_NONE });
        mark_sync(trainer_step(&t));
        conserved_read(sums, &t);
    }
    machine_sync(t.machine);
    facts found = facts_none();
    found.conserved = conserved_judge(sums, &t, 1.0);
    gather_findings(&found);
    assert_int_equal(machine_hazards(t.machine)->count, 0);
    trainer_dismantle(&t);
    measure_free(&share);
    mesh_close(&m);
    return found.conserved;
}

typedef struct {
    const char *layout;
    op_kind sum;
} summed;

static void skipped_sums(void **state)
{
    static const summed all[] = { { "data = 4\nsharding = none", OP_ALL_REDUCE },
                                  { "data = 4\nsharding = optimizer", OP_REDUCE_SCATTER },
                                  { "shard = 4", OP_ALL_TO_ALL },
                                  { "shard = 2\ndata = 2\nsharding = none", OP_ALL_REDUCE },
                                  { "tensor = 2\ndata = 2\nsharding = optimizer", OP_REDUCE_SCATTER } };
    static const fault_kind kinds[] = { FAULT_NONE, FAULT_STALE, FAULT_DROP, FAULT_REPEAT };
    for (size_t i = 0; i < 2 * sizeof all / sizeof *all; i++)
        for (int k = 0; k < (all[i / 2].sum == OP_ALL_TO_ALL ? 3 : 4); k++) {
            if (tests_cuda() && (i % 2 || i > (test_is_long() ? 4 : 0) || k > 1))
                continue; /* the emulated GPU is slow */
            bench_case c = case_for(i % 2 ? "fp32" : "bf16", all[i / 2].layout);
            conservation found = trained_with(&c, kinds[k], all[i / 2].sum, STRUCK);
            assert_true(found.comparisons > 100 && found.replicas > 0);
            assert_int_equal(found.failed > 0, kinds[k] != FAULT_NONE);
            if (kinds[k] == FAULT_NONE) assert_true(found.unequal == 0 && found.worst < 1.0);
            else {
                assert_memory_equal(found.sentence, "step 2,", strlen("step 2,"));
                assert_int_equal(found.rank, 0);
            }
        }
}

static void skipped_gathering(void **state)
{
    bench_case c = case_for("bf16", "data = 4\nsharding = optimizer");
    conservation found = trained_with(&c, FAULT_STALE, OP_ALL_GATHER, STEPS - 1);
    assert_true(found.failed == 0 && found.unequal > 0 && found.unequal_sentence[0]);
    assert_int_equal(found.unequal_rank, 1); /* the first rank that is compared with rank 0 */
}

WORLD_PROGRAM("conservation", NULL, NULL, skipped_sums, skipped_gathering)
