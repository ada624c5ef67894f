/* Checks which groups span nodes, on invented nodes. */
#include "bench/launch/placement.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MOST = 64 };
typedef struct {
    int t, c, d, p, expert, nodes;
    bool cyclic;
    int domains;                  /* 0: one per node */
    const char *text, *complaint; /* NULL if none */
} row;

static const row rows[] = {
    { 1, 1, 1, 1, 1, 1, false, 0, "1 node of 1 rank", NULL },
    { 2, 1, 2, 1, 1, 1, false, 0, "1 node of 4 ranks; tensor, data within a node", NULL },
    { 2, 2, 2, 2, 1, 2, false, 0, "2 nodes of 8 ranks; tensor, context, data within a node, pipeline across", NULL },
    { 4, 2, 1, 2, 1, 4, false, 0, "4 nodes of 4 ranks; tensor within a node, context, pipeline across", NULL },
    { 2, 1, 2, 1, 1, 2, true, 0, "2 nodes of 2 ranks; data within a node, tensor across",
      "tensor groups span nodes: ranks 0 and 1 of one group are apart; neighbouring ranks are on different nodes "
      "(cyclic): "
      "use srun --distribution=block or mpirun --map-by ppr:2:node" },
    { 8, 1, 2, 1, 1, 4, false, 0, "4 nodes of 4 ranks; tensor, data across",
      "tensor groups span nodes: ranks 0 and 4 of one group are apart; tensor = 8 needs nodes with a multiple of 8 "
      "consecutive ranks; these have 4" },
    { 2, 1, 3, 1, 1, 2, false, 0, "2 nodes of 3 ranks; tensor, data across",
      "tensor groups span nodes: ranks 2 and 3 of one group are apart; tensor = 2 needs nodes with a multiple of 2 "
      "consecutive ranks; these have 3" },
    { 1, 2, 4, 1, 4, 2, false, 0, "2 nodes of 4 ranks; context, expert within a node, data across", NULL },
    { 1, 1, 8, 1, 8, 2, false, 0, "2 nodes of 4 ranks; data, expert across", NULL },
    { 8, 1, 2, 1, 1, 4, false, 2, "4 nodes of 4 ranks; tensor, data across; tensor within an NVLink domain", NULL },
    { 8, 1, 1, 3, 1, 6, false, 2, "6 nodes of 4 ranks; tensor, pipeline across",
      "tensor groups span NVLink domains: ranks 8 and 12 of one group are apart; tensor = 8 needs NVLink domains "
      "with a multiple of 8 consecutive ranks; these have 12" },
    { 1, 1, 5, 1, 1, 2, true, 0, "2 nodes of 2 to 3 ranks; data across", NULL },
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
    int node[MOST], domain[MOST];
    for (int i = 0; i < l->ranks; i++) node[i] = r->cyclic ? i % r->nodes : i * r->nodes / l->ranks;
    for (int i = 0; i < l->ranks; i++) domain[i] = r->domains ? node[i] * r->domains / r->nodes : node[i];
    return placement_of(l, node, domain);
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(groups_that_span_nodes_are_found) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
