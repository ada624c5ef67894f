/* One layout saves a checkpoint and another loads it, for random pairs of layouts. Weights, moments, FP8 history and
 * scales are bitwise those saved. If the same layout continues, it gives the same bits as without a stop; another
 * layout agrees within the limits. `long` draws ten times as many pairs. */
#include "bench/checkpoint/checkpoint.h"
#include "agreement.h"
#include "layouts.h"
#include "units/tests.h"

enum { PAIRS = 4, PAIRS_LONG = 40, SAVED_AT = 2, STEPS = 4 };

/* ---- the state that a checkpoint must restore ---- */

typedef struct {
    double *of[3], *scale;
    int64_t elements, tensors;
    int32_t *past;
} whole_state;

static tensor first_moment(const bucket *b) { return b->first; }
static tensor second_moment(const bucket *b) { return b->second; }

/* Collects all ranks' shares, and rank 0's FP8 history and scales. Collective over the world. */
static whole_state state_now(const trained *r, trainer *t)
{
    static tensor (*const shard[])(const bucket *) = { master_shard, first_moment, second_moment };
    whole_state s = { .elements = r->base[r->rows], .tensors = r->tensors };
    for (int i = 0; i < 3; i++) {
        s.of[i] = calloc((size_t)s.elements, sizeof *s.of[i]);
        if (t) take_rows(t, r, shard[i], s.of[i]);
        world_sum(s.of[i], s.elements);
    }
    s.scale = calloc((size_t)s.tensors + 1, sizeof *s.scale);
    s.past = calloc((size_t)(s.tensors * FP8_HISTORY) + 1, sizeof *s.past);
    if (!t || !s.tensors) return s;
    for (int64_t i = 0; i < s.tensors; i++) s.scale[i] = (double)trainer_scales(t)[i * FP8_FACTORS];
    machine_read(t->machine, s.past, t->stage.work.fp8.history);
    return s;
}

static int64_t state_differences(const whole_state *a, const whole_state *b)
{
    int64_t count = 0;
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; k < a->elements; k++) count += a->of[i][k] != b->of[i][k];
    for (int64_t i = 0; i < a->tensors && world_rank() == 0; i++) count += a->scale[i] != b->scale[i];
    for (int64_t i = 0; i < a->tensors * FP8_HISTORY && world_rank() == 0; i++) count += a->past[i] != b->past[i];
    return count;
}

static void state_free(whole_state *s)
{
    for (int i = 0; i < 3; i++) free(s->of[i]);
    free(s->scale);
    free(s->past);
}

/* ---- one pair ---- */

/* Trains all steps and saves one checkpoint on the way. */
static whole_state train_and_save(trained *r, bench_case *c, const char *folder)
{
    trainer t;
    mesh m;
    checkpoint_facts seen = { 0 };
    training how = { .steps = STEPS };
    snprintf(c->checkpoint, sizeof c->checkpoint, "%s", folder);
    c->checkpoint_keep = 1;
    trained_open(r, c);
    r->steps = STEPS;
    build_trainer(&t, &m, c, &how);
    trainer *own = m.takes_part ? &t : NULL;
    if (own) take_steps(r, own, 0, SAVED_AT, &how);
    checkpoint_save(c, own, SAVED_AT, &seen);
    whole_state saved = state_now(r, own);
    if (own) take_steps(r, own, SAVED_AT, STEPS, &how);
    end_training(r, &t, &m, &how);
    assert_string_equal(seen.failed, "");
    assert_true(seen.saves == 1 && seen.bytes > 0.0);
    return saved;
}

/* Loads the checkpoint and trains the remaining steps. */
static void load_and_train(trained *r, bench_case *c, const char *folder, const whole_state *saved)
{
    trainer t;
    mesh m;
    checkpoint_facts seen = { 0 };
    training how = { .steps = STEPS };
    snprintf(c->load, sizeof c->load, "%s", folder);
    trained_open(r, c);
    r->steps = STEPS;
    build_trainer(&t, &m, c, &how);
    trainer *own = m.takes_part ? &t : NULL;
    if (!checkpoint_load(c, own, &seen)) FAIL("%s", seen.refused);
    whole_state loaded = state_now(r, own);
    assert_true(seen.loaded_step == SAVED_AT && state_differences(saved, &loaded) == 0);
    if (own) take_steps(r, own, SAVED_AT, STEPS, &how);
    end_training(r, &t, &m, &how);
    assert_true(r->hazards == 0.0 && r->whole_weight_errors == 0.0);
    state_free(&loaded);
}

static int64_t differences_after(const trained *a, const trained *b)
{
    int64_t count = 0;
    for (int64_t s = SAVED_AT; s < STEPS; s++) count += (a->loss[s] != b->loss[s]) + (a->norm[s] != b->norm[s]);
    for (int64_t k = 0; k < a->base[a->rows]; k++) count += a->weight[k] != b->weight[k];
    return count;
}

/* Each layout is within the limit of one rank (layouts.c), so two layouts are within twice the limit of each other.
 * Losses with different expert groups are not compared, because other choices are dropped. */
static void hold_near(const trained *a, const trained *b, const bench_case *c)
{
    bench_case on_gpu = *c;
    on_gpu.backend = BACKEND_CUDA;
    check_limits limit = check_limits_of(&on_gpu, false);
    for (int64_t s = SAVED_AT; s < STEPS && !c->model.experts; s++)
        assert_true(relative(b->loss[s], a->loss[s]) <= 2.0 * limit.loss_later);
}

static void pair(bench_case a, bench_case b)
{
    trained whole, again, elsewhere;
    char folder[] = "/tmp/xgsw-checkpoint-XXXXXX", command[64];
    if (world_rank() == 0 && !mkdtemp(folder)) FAIL("no folder for a checkpoint");
    world_broadcast(folder, sizeof folder, 0);
    whole_state saved = train_and_save(&whole, &a, folder);
    load_and_train(&again, &a, folder, &saved);
    load_and_train(&elsewhere, &b, folder, &saved);
    assert_int_equal(differences_after(&whole, &again), 0);
    hold_near(&whole, &elsewhere, &a);
    trained *const all[] = { &whole, &again, &elsewhere };
    for (int i = 0; i < 3; i++) trained_close(all[i]);
    state_free(&saved);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (world_rank() == 0 && system(command) != 0) FAIL("%s is left", folder);
}

/* ---- pairs ---- */

static cut draw_cut(source *s)
{
    cut list[MOST_CUTS];
    return list[draw(s, list_cuts(list, 1 + draw(s, world_ranks())))];
}

/* Draws another layout of the same model, precision and batch. */
static layout draw_other(source *s, const layout *a, bench_case *b, int64_t global_batch)
{
    for (;;) {
        layout other = *a;
        other.of = draw_cut(s);
        draw_division(s, &other);
        draw_free_keys(s, &other);
        if (is_legal(&other, b) && b->global_batch == global_batch) return other;
    }
}

/* The emulator is slow, so fewer pairs run there. */
static bool is_quick(void) { return tests_cuda() && !test_is_long(); }

static void drawn_pairs(void **state)
{
    uint32_t seed = seed_of_test();
    for (int w = 0; w < (is_quick() ? 1 : FAMILIES); w++)
        for (int i = 0; i < (tests_cuda() ? 1 : test_is_long() ? PAIRS_LONG : PAIRS); i++) {
            source s = { .seed = seed, .key = fnv1a(families[w]), .number = (uint32_t)i };
            bench_case a, b;
            char keys[TRAINED_DECK];
            layout saves = draw_layout(&s, families[w], precisions[(w + i) % PRECISIONS], draw_cut(&s), &a),
                   loads = draw_other(&s, &saves, &b, a.global_batch);
            if (world_rank() == 0) printf("# %s\n", layout_line(keys, &saves));
            if (world_rank() == 0) printf("#  -> %s\n", layout_line(keys, &loads));
            pair(a, b);
        }
}

WORLD_PROGRAM("checkpoint", NULL, NULL, drawn_pairs)
