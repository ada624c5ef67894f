/* Checks, on any number of ranks, the selection of devices and its refusals, without a device; and which groups span
 * nodes, on invented nodes. */
#include "bench/run/devices.h"
#include "bench/launch/case_machine.h"
#include "bench/launch/placement.h"
#include "bench/launch/window.h"
#include "units/tests.h"
#include "units/train/trained.h"

static const char head[] = "a\nb\nbackend = host\nsteps = 10\nwarmup = 0\ncheck = off\n[llama3.1-8b]\nsize = check\n";

static void ranks_that_share_are_found(void **state)
{
    machine_device device[6] = { { .identity = "c" }, { .identity = "b" }, { .identity = "a" },
                                 { .identity = "d" }, { .identity = "a" }, { .identity = "b" } };
    int pair[2], most;
    assert_true(devices_shared(device, 6, pair, &most));
    assert_int_equal(pair[0], 1);
    assert_int_equal(pair[1], 5);
    assert_int_equal(most, 2);
    assert_false(devices_shared(device, 4, pair, &most));
    assert_int_equal(most, 1);
    for (int i = 0; i < 3; i++) strcpy(device[i].identity, "d");
    assert_true(devices_shared(device, 6, pair, &most));
    assert_int_equal(pair[0], 0);
    assert_int_equal(pair[1], 1);
    assert_int_equal(most, 4);
}

/* On the host backend, all processes of a host share one device. */
static void a_survey_names_the_first_rank_that_lacks_one(void **state)
{
    char why[256] = "", wanted[512];
    device_survey s = devices_survey(MACHINE_HOST);
    assert_true(s.usable);
    assert_string_equal(s.missing, "");
    assert_int_equal(s.sharing, world_ranks());
    assert_string_equal(s.shared, world_ranks() > 1 ? "ranks 0 and 1 share the device " : "");
    assert_true((s.device != NULL) == (world_rank() == 0));
    free(s.device);
    if (world_all(machine_usable(MACHINE_CUDA, why, sizeof why))) return;
    s = devices_survey(MACHINE_CUDA);
    assert_false(s.usable);
    assert_int_equal(s.sharing, 0);
    assert_null(s.device);
    snprintf(wanted, sizeof wanted, "rank 0 on %s: %s", world_host(), why);
    if (world_rank() == 0) assert_string_equal(s.missing, wanted);
    assert_memory_equal(s.missing, "rank 0 on ", 10);
}

/* Full size cannot cut 130 positions into the zig-zag of two context ranks; a small case has no such limit. */
static void what_is_refused_depends_on_the_devices(void **state)
{
    static const char text[] = "a\nb\n[llama3.1-8b]\nsize = auto\nsequence = 130\n";
    deck_source source = { .name = "test", .text = text, .length = strlen(text), .ranks = 8, .cuda_usable = true };
    deck with = deck_read(&source);
    source.cuda_usable = false;
    deck without = deck_read(&source);
    assert_true(with.messages > 0);
    assert_int_equal(without.messages, 0);
    assert_int_equal(without.item[0].size, SIZE_SMALL);
    deck_free(&with);
    deck_free(&without);
}

static void keys_reach_the_machine(void **state)
{
    char text[512];
    bench_case c = case_of(head, world_ranks());
    machine_options on = case_machine(&c);
    assert_false(on.tuning.deterministic || on.tuning.own_attention);
    snprintf(text, sizeof text, "%s%s", head, "deterministic = yes\nattention = own\n");
    c = case_of(text, world_ranks());
    on = case_machine(&c);
    assert_true(on.tuning.deterministic && on.tuning.own_attention);
}

/* All ranks of one stage have windows of the same size, or none has a window. */
static void ranks_that_lie_alike_have_windows(void **state)
{
    char text[512];
    int last = world_ranks() - 1;
    snprintf(text, sizeof text, "%sdata = %d\n", head, world_ranks());
    bench_case c = case_of(text, world_ranks());
    c.backend = BACKEND_CUDA;
    for (int unlike = 0; unlike < 2; unlike++) {
        measure r = { .arena.used = world_rank() == last ? 200 : 100,
                      .prepared.address_hash = world_rank() == last && unlike ? 2 : 1 };
        window_agree(&c, &r);
        assert_int_equal(r.window, world_ranks() == 1 || unlike ? 0 : 200);
    }
}

/* ---- nodes ---- */

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
                          .ranks = r->t * r->c * r->d * r->p,
                          .copies = 1 };
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

WORLD_PROGRAM("devices", NULL, NULL, ranks_that_share_are_found, a_survey_names_the_first_rank_that_lacks_one,
              what_is_refused_depends_on_the_devices, keys_reach_the_machine, ranks_that_lie_alike_have_windows,
              groups_that_span_nodes_are_found)
