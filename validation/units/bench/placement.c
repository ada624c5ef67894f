/* Which groups span nodes, for nodes that are made up, and who is judged by it. */
#include "bench/launch/placement.h"
#include "bench/judge.h"
#include "units/train/trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MOST = 64 };
typedef struct {
    int t, c, d, p, expert, nodes;
    bool cyclic;
    const char *text, *complaint; /* NULL: none */
} row;

static const row rows[] = {
    { 1, 1, 1, 1, 1, 1, false, "1 node of 1 rank", NULL },
    { 2, 1, 2, 1, 1, 1, false, "1 node of 4 ranks; tensor, data within a node", NULL },
    { 2, 2, 2, 2, 1, 2, false, "2 nodes of 8 ranks; tensor, context, data within a node, pipeline across", NULL },
    { 4, 2, 1, 2, 1, 4, false, "4 nodes of 4 ranks; tensor within a node, context, pipeline across", NULL },
    { 2, 1, 2, 1, 1, 2, true, "2 nodes of 2 ranks; data within a node, tensor across",
      "tensor groups span nodes: ranks 0 and 1 of one lie on two; neighbouring ranks are dealt to the nodes in turn "
      "(cyclic): srun --distribution=block, mpirun --map-by ppr:2:node" },
    { 8, 1, 2, 1, 1, 4, false, "4 nodes of 4 ranks; tensor, data across",
      "tensor groups span nodes: ranks 0 and 4 of one lie on two; tensor = 8 needs nodes of a multiple of 8 ranks, one "
      "after another: these have 4" },
    { 2, 1, 3, 1, 1, 2, false, "2 nodes of 3 ranks; tensor, data across",
      "tensor groups span nodes: ranks 2 and 3 of one lie on two; tensor = 2 needs nodes of a multiple of 2 ranks, one "
      "after another: these have 3" },
    { 1, 2, 4, 1, 4, 2, false, "2 nodes of 4 ranks; context, expert within a node, data across", NULL },
    { 1, 1, 8, 1, 8, 2, false, "2 nodes of 4 ranks; data, expert across", NULL },
    { 1, 1, 5, 1, 1, 2, true, "2 nodes of 2 to 3 ranks; data across", NULL },
};

static mesh_layout layout_of(const row *r)
{
    return (mesh_layout){ .degree = { [AXIS_TENSOR] = r->t,
                                      [AXIS_CONTEXT] = r->c,
                                      [AXIS_SHARD] = 1,
                                      [AXIS_DATA] = r->d,
                                      [AXIS_PIPELINE] = r->p },
                          .expert = r->expert,
                          .chunks_per_stage = 1,
                          .ranks = r->t * r->c * r->d * r->p };
}

static placement placed(const row *r, const mesh_layout *l)
{
    int node[MOST];
    for (int i = 0; i < l->ranks; i++) node[i] = r->cyclic ? i % r->nodes : i * r->nodes / l->ranks;
    return placement_of(l, node);
}

static void groups_that_span_nodes_are_found(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char sentence[REASON_LENGTH] = "";
        mesh_layout l = layout_of(&rows[i]);
        placement p = placed(&rows[i], &l);
        assert_string_equal(p.text, rows[i].text);
        assert_int_equal(placement_complaint(&p, &l, sentence), rows[i].complaint != NULL);
        if (rows[i].complaint) assert_string_equal(sentence, rows[i].complaint);
    }
}

static bool is_told(const case_result *r, const char *reason)
{
    for (int i = 0; i < r->invalid_reasons; i++)
        if (strcmp(r->invalid_reason[i], reason) == 0) return true;
    return false;
}

/* A split tensor group is a recipe's fault, and a warning elsewhere; other libraries are everybody's. */
static void a_recipe_is_judged_by_it(void **state)
{
    static const char head[] =
        "a\nb\nbackend = host\nsteps = 10\nwarmup = 0\ncheck = off\n[llama3.1-8b]\nsize = check\n";
    const row *cyclic = &rows[4];
    for (int recipe = 0; recipe < 2; recipe++) {
        case_result r;
        bench_case c = case_of(head, 1);
        c.recipe_gpus = recipe, c.layout = layout_of(cyclic);
        result_open(&r, &c);
        for (int64_t i = 0; i < c.steps; i++) r.loss[i] = r.gradient_norm[i] = 1.0;
        r.completed = c.steps;
        r.placement = placed(cyclic, &c.layout);
        snprintf(r.libraries_differ, sizeof r.libraries_differ, "rank 1 on b");
        r.load = (host_load){ 1, 8, 1, 1, 8.0 };
        judge_case(&r);
        assert_int_equal(is_told(&r, cyclic->complaint), recipe);
        assert_true(is_told(&r, "libraries differ: rank 1 on b"));
        assert_false(r.valid);
        result_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(groups_that_span_nodes_are_found),
                                        cmocka_unit_test(a_recipe_is_judged_by_it) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
