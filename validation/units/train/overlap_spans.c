/* Transfers run during computing: trains a few steps and examines the spans. The host polls a transfer after every
 * operation, so a transfer whose span encloses an operation was in flight during it. If computing had to wait for the
 * transfer at once, its span could never enclose an operation, whatever the timing. */
#include "machine/watch/watch.h"
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 2, SPANS = 1 << 15, DECK = 1024 };

typedef struct {
    int tensor, data, context, pipeline;
    const char *schedule, *sharding, *overlap, *weights; /* weights: weight_gradient_queue */
    uint32_t hostile;                                    /* seed of a hostile order; 0: as submitted */
    int shard;
} cut;

static bench_case cut_case(cut k)
{
    char text[DECK];
    snprintf(text, sizeof text,
             "overlap\n\n[llama3.1-70b]\nsize = small\nlayers = 2\nhidden = %d\nffn = %d\nheads = %d\nkv_heads = "
             "%d\nsequence = %d\n"
             "vocabulary = 250\nstrips = 2\nweight_gradient_queue = %s\nglobal_batch = 8\nmicrobatch = 2\nwarmup = "
             "0\nsteps = %d\ncheck = off\nbackend = "
             "host\nprecision = fp32\n"
             "tensor = %d\ndata = %d\nshard = %d\ncontext = %d\npipeline = %d\nschedule = %s\n%s = %s\noverlap = %s\n",
             64 * k.tensor, 128 * k.tensor, 2 * k.tensor, k.tensor, 96 * k.tensor, k.weights, STEPS, k.tensor, k.data,
             k.shard, k.context, k.pipeline, k.schedule, "sharding", k.sharding, k.overlap);
    return case_of(text, world_ranks());
}

/* Kinds of overlap: a transfer whose span encloses an operation. */
typedef enum {
    TENSOR, /* a transfer of a layer around a product of that layer */
    REDUCED,
    GATHERED, /* a bucket reduced around backward; gathered around anything */
    FORWARD_IN,
    FORWARD_OUT,
    BACKWARD_IN,
    BACKWARD_OUT, /* between stages, around computing of another microbatch */
    KEYS_FORWARD,
    KEYS_BACKWARD,
    KEY_GRADIENTS,  /* of their layer: around attention; around products of backward; around attention backward */
    WEIGHTS_BEHIND, /* no transfer: a weight gradient ran after an operation submitted later */
    PLACES
} place;
static const char *const place_names[PLACES] = {
    "tensor",       "gradients", "weights",          "forward in",        "forward out",     "backward in",
    "backward out", "keys",      "keys in backward", "gradients of keys", "weight gradients"
};
typedef struct {
    double of[PLACES];
} beside;

/* Returns the place of a transfer of the context queue. */
static place key_place(const span *x, const span *k)
{
    bool gathers = x->kind == OP_ALL_GATHER;
    if (gathers && k->kind == OP_ATTENTION_FORWARD && k->origin.phase == x->origin.phase) return KEYS_FORWARD;
    if (gathers && k->kind == OP_MATMUL && x->origin.phase == PHASE_BACKWARD) return KEYS_BACKWARD;
    return !gathers && k->kind == OP_ATTENTION_BACKWARD ? KEY_GRADIENTS : PLACES;
}

static bool is_pass(phase p)
{
    return p == PHASE_BATCH || p == PHASE_FORWARD || p == PHASE_BACKWARD || p == PHASE_RECOMPUTE;
}

/* Returns the place of transfer x, which encloses operation k of the compute queue; PLACES if none. */
static place place_of(const trainer *t, const span *x, const span *k)
{
    queue *of = machine_queue_at(t->machine, x->queue);
    bool layer = k->origin.layer == x->origin.layer && k->origin.microbatch == x->origin.microbatch &&
                 k->origin.step == x->origin.step;
    if (of == t->queues.tensor && k->kind == OP_MATMUL && layer) return TENSOR;
    if (of == t->queues.gradient && x->kind == OP_ALL_GATHER) return GATHERED;
    if (of == t->queues.gradient && x->origin.phase == PHASE_GRADIENT && k->origin.phase == PHASE_BACKWARD)
        return REDUCED;
    if (of == t->queues.context && layer) return key_place(x, k);
    for (int i = 0; i < LINKS; i++)
        if (of == t->queues.link[i] && is_pass(k->origin.phase) && k->origin.microbatch != x->origin.microbatch)
            return FORWARD_IN + (place)i;
    return PLACES;
}

/* Returns whether a gate-up weight gradient ran after the norm's backward, which was submitted later. */
static bool is_behind(const span *weight, const span *k)
{
    const origin *w = &weight->origin, *o = &k->origin;
    return w->name && o->name && !strcmp(w->name, "gate_up_gradient") && !strcmp(o->name, "d_mlp_norm") &&
           o->step == w->step && o->microbatch == w->microbatch && o->layer == w->layer && k->end <= weight->begin;
}

static beside count_beside(const trainer *t)
{
    int64_t count;
    beside n = { { 0 } };
    const span *s = machine_spans(t->machine, &count);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < count; k++) n.of[WEIGHTS_BEHIND] += is_behind(&s[i], &s[k]);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; op_is_transfer(s[i].kind) && k < count; k++) {
            bool around = s[i].begin < s[k].begin && s[k].end < s[i].end &&
                          machine_queue_at(t->machine, s[k].queue) == t->queues.compute;
            place at = around ? place_of(t, &s[i], &s[k]) : PLACES;
            if (at != PLACES) n.of[at] += 1.0;
        }
    return n;
}

/* Counts over all ranks. */
static beside beside_of(cut k)
{
    trainer t = { 0 };
    mesh m;
    bench_case c = cut_case(k);
    mesh_open(&m, &c.layout, world_rank(), MESH_ON_HOST);
    trainer_options o = { .machine = { .hostile = k.hostile > 0,
                                       .order_seed = k.hostile,
                                       .world_rank = world_rank(),
                                       .span_capacity = SPANS } };
    measure share = measure_case(&c, &m, &o);
    trainer_build(&t, &c, &m, &o, &share);
    measure_free(&share);
    trainer_initialize(&t);
    for (int i = 0; i < STEPS; i++) mark_sync(trainer_step(&t));
    machine_sync(t.machine);
    beside n = count_beside(&t);
    trainer_dismantle(&t);
    mesh_close(&m);
    world_sum(n.of, PLACES);
    return n;
}

/* Asserts that these places occur in this cut with overlap, and that none occurs without overlap. */
static void assert_place(cut k, place p, double count)
{
    bool right = strcmp(k.overlap, "on") ? count == 0.0 : count > 0.0;
    if (world_rank() == 0)
        printf("# TP%d DP%d S%d CP%d PP%d, %s, sharding %s, overlap %s: %s, %.0f operations beside transfers\n",
               k.tensor, k.data, k.shard, k.context, k.pipeline, k.schedule, k.sharding, k.overlap, place_names[p],
               count);
    assert_true(right);
}

static void assert_beside(cut k, const place *list, int count)
{
    beside n = beside_of(k);
    for (int i = 0; i < count; i++) assert_place(k, list[i], n.of[list[i]]);
}

#define COUNT(list) (int)(sizeof list / sizeof list[0])

/* Checks with and without overlap. */
static void assert_overlap(cut k, const place *list, int count)
{
    k.overlap = "on";
    assert_beside(k, list, count);
    k.overlap = "off";
    assert_beside(k, list, count);
}

/* Tensor ranks (with four ranks, two data ranks): the transfer of one strip runs during the product of another. */
static void tensor_strips(void **state)
{
    static const place list[] = { TENSOR, REDUCED, GATHERED };
    int data = world_ranks() == 4 ? 2 : 1;
    (void)state;
    assert_overlap((cut){ world_ranks() / data, data, 1, 1, "1f1b", "optimizer", "", "off", 0, 1 }, list,
                   data == 1 ? 1 : COUNT(list));
}

/* The other tests need 2 or 4 ranks; with 4 there are two tensor ranks. */
static bool pairs(void) { return world_ranks() == 2 || world_ranks() == 4; }

/* Shard ranks (with four ranks, two data or two tensor ranks): layers are gathered and a microbatch's gradients summed
 * during computing. */
static void sharded_weights(void **state)
{
    static const place list[] = { GATHERED, REDUCED };
    (void)state;
    if (!pairs()) return;
    assert_overlap((cut){ 1, world_ranks() / 2, 1, 1, "1f1b", "none", "", "off", 0, 2 }, list, COUNT(list));
    assert_overlap((cut){ world_ranks() / 2, 1, 1, 1, "1f1b", "none", "", "off", 0, 2 }, list, COUNT(list));
}

static void whole_gradients(void **state)
{
    static const place list[] = { REDUCED };
    (void)state;
    if (pairs())
        assert_overlap((cut){ world_ranks() / 2, 2, 1, 1, "1f1b", "none", "", "off", 0, 1 }, list, COUNT(list));
}

/* Receives are submitted one action ahead. A send delays nobody, with or without overlap. It overlaps computing unless
 * the next operation itself waits for the other stage. With gpipe it always does, because every stage runs all
 * forwards, then all backwards, in a row. */
static void stages(void **state)
{
    static const place received[] = { FORWARD_IN, BACKWARD_IN }, sent[] = { FORWARD_OUT, BACKWARD_OUT };
    cut gpipe = { world_ranks() / 2, 1, 1, 2, "gpipe", "none", "on", "off", 0, 1 },
        one_by_one = { world_ranks() / 2, 1, 1, 2, "1f1b", "none", "", "off", 0, 1 };
    (void)state;
    if (!pairs()) return;
    assert_overlap(one_by_one, received, COUNT(received));
    assert_overlap(gpipe, received, COUNT(received));
    assert_beside(gpipe, sent, COUNT(sent));
}

/* With tensor ranks, a backward begins with their transfer, during which the transfer of keys may finish. */
static void two_context_ranks(void **state)
{
    static const place list[] = { KEYS_FORWARD, KEY_GRADIENTS, KEYS_BACKWARD };
    int places = world_ranks() == 2 ? COUNT(list) : COUNT(list) - 1;
    (void)state;
    if (pairs()) assert_overlap((cut){ world_ranks() / 2, 1, 2, 1, "1f1b", "none", "", "off", 0, 1 }, list, places);
}

/* On a separate queue, only buffers bind weight gradients to their layer: in a hostile order some run late. */
static void weight_gradients(void **state)
{
    (void)state;
    if (!pairs()) return;
    cut k = { 1, world_ranks(), 1, 1, "1f1b", "none", "on", "on", 0, 1 };
    double behind = 0.0;
    for (k.hostile = 1; k.hostile <= 4; k.hostile++) behind += beside_of(k).of[WEIGHTS_BEHIND];
    k.weights = "off";
    double in_order = beside_of(k).of[WEIGHTS_BEHIND];
    if (world_rank() == 0)
        printf("# weight gradients behind: %.0f on their own queue, %.0f on the other\n", behind, in_order);
    assert_true(behind > 0.0 && in_order == 0.0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(tensor_strips),     cmocka_unit_test(whole_gradients),
                                        cmocka_unit_test(sharded_weights),   cmocka_unit_test(stages),
                                        cmocka_unit_test(two_context_ranks), cmocka_unit_test(weight_gradients) };
    world_start(&argc, &argv);
    watch_limit(30.0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = cmocka_run_group_tests_name("overlap_spans", tests, NULL, NULL);
    world_stop();
    return failed;
}
