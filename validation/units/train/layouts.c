/* What every layout promises: each way to divide the ranks is drawn once (layouts.h) and trained, with proof of access
 * lists or without, and held to the properties of a table below. The keys that change no bit (recompute mask, sharding,
 * overlap, schedule, stages and chunks, deferral of the head's weight gradient, execution order, checks of the machine,
 * and with one microbatch shard ranks in place of data ranks) are then drawn anew and trained in hostile order. Other
 * degrees of data, context or tensor parallelism, and of strips, add in another order and are not compared.
 * The day rotates families and precisions over the layouts; `long` trains each layout in every family and precision.
 * XGSW_TEST_SEED sets the day, XGSW_TEST_LAYOUT=NUMBER trains only this one. On GPUs and their emulator (EMULATOR_SEED)
 * the reference is one rank of the host, too. */
#include "layouts.h"
#include "agreement.h"
#include "beside.h"
#include "left_out.h"
#include "units/tests.h"

enum { STEPS = 4, PAPER_STEPS = 3, LEFT_OUT_AT = 1, SPANS = 1 << 15, MOST_TESTS = 2048 };

/* ---- one layout ---- */

/* given, run: as drawn. varied, again: with other keys that change no bit, in hostile order. one: trained with the
 * choices and the scales of `run`: in the same precision; if that is not FP32, in FP32; and if `rounds`, that is, if
 * the first rounds sums as several tensor ranks do, the same for one step without it. */
typedef struct {
    source draws;
    layout given, varied;
    bench_case c, other;
    trained run, again, one[3];
    seen seen, seen_again;
    int references;
    bool rounds;
} lesson;

static void train(trained *x, const bench_case *c, training how, seen *n)
{
    *n = (seen){ { 0 } };
    how.steps = tests_cuda() && c->precision == PRECISION_FP32 ? 2 : STEPS; /* the emulated GPU is slow */
    how.spans = tests_cuda() ? 0 : SPANS;
    how.examine = count_beside;
    how.result = n;
    if (emulator_seed) emulator_seed(how.order_seed * 64ull + (unsigned)world_rank());
    train_case(x, c, &how);
    world_sum(n->of, PLACES);
    world_sum(n->waits, BESIDE_RANKS);
}

/* Trains the references at the same time, on different ranks. The capacity that drops nothing changes only the order of
 * sums over rows: the references have none. */
static void train_references(lesson *l)
{
    following f[3];
    l->rounds = l->c.precision == PRECISION_BF16 && l->given.of.tensor > 1;
    l->references = l->c.precision == PRECISION_FP32 ? 1 : l->rounds ? 3 : 2;
    for (int i = 0; i < l->references; i++) {
        bench_case alone = alone_of(&l->c, i == 1);
        if (has_experts(&l->given) && strcmp(l->given.capacity, "3") == 0) alone.capacity = 0.0;
        if (i == 2) alone.imitated = (imitated_ranks){ 0 };
        begin_following(&f[i], &l->one[i], &alone, &l->run, i == 2 ? 1 : l->run.steps, i % world_ranks());
    }
    for (int i = 0; i < l->references; i++) end_training(&l->one[i], &f[i].t, &f[i].m, &f[i].how);
}

/* ---- properties ---- */

/* Returns whether the norm is that of the gradients, which do not depend on the ranks that hold them. */
static bool norm_is_exact(const trained *x)
{
    double whole = 0.0, units = 0.0;
    for (int64_t k = 0; k < x->base[x->rows]; k++) {
        double square = x->gradient[k] * x->gradient[k], high = floor(ldexp(square, 40));
        whole += high;
        units += nearbyint(ldexp(ldexp(square, 40) - high, 40));
    }
    double exact = sqrt(ldexp(whole, -40) + ldexp(units, -80));
    if (fabs(x->norm[0] / exact - 1.0) < 1e-15) return true;
    if (world_rank() == 0) printf("# norm %.17g, from the gradients %.17g\n", x->norm[0], exact);
    return false;
}

/* No hazard; gathered weights equal the owners', also after other scales were given; no loss is omitted; norm. */
static bool is_sound(const lesson *l)
{
    const trained *both[] = { &l->run, &l->again };
    bool sound = true;
    for (int i = 0; i < 2; i++) {
        const trained *x = both[i];
        if (x->hazard[0]) fprintf(stderr, "# rank %d: %s\n", world_rank(), x->hazard);
        sound = sound && x->hazards == 0.0 && x->whole_weight_errors == 0.0 && losses_are_positive(x);
    }
    return sound && (tests_cuda() || norm_is_exact(&l->run));
}

static bool agrees(const lesson *l)
{
    bool within = true;
    for (int i = 0; i < l->references && i < 2; i++) {
        spread s = spread_of(&l->run, &l->one[i]);
        within = spread_holds(&l->c, &l->one[i], &s, i == 1) && within;
        for (int64_t step = 0; step < l->run.steps; step++)
            within = within && l->run.dropped[step] == l->one[i].dropped[step];
    }
    return within;
}

static bool has_same_bits(const lesson *l)
{
    char keys[TRAINED_DECK];
    int64_t count = trained_differences(&l->run, &l->again);
    if (count && world_rank() == 0)
        printf("# %lld numbers differ from %s\n", (long long)count, layout_line(keys, &l->varied));
    return count == 0;
}

/* The reference rounds as the run does: without, the first step is farther from the run. */
static bool rounds_as_several(const lesson *l)
{
    const char *name = "";
    if (!l->rounds) return true;
    double with = worst_ratio(&l->one[0], l->run.gradient, l->one[0].gradient, &name),
           without = worst_ratio(&l->one[0], l->run.gradient, l->one[2].gradient, &name),
           loss = loss_spread(&l->run, &l->one[0], 0), plain = loss_spread(&l->run, &l->one[2], 0);
    if (world_rank() == 0)
        printf("#   rounds as several ranks: gradient %.1e, loss %.1e; without %.1e, %.1e\n", with, loss, without,
               plain);
    return with < without && loss < plain;
}

/* Power-of-two scales of the first step may differ by a factor of two if the reference's largest / amax is this near a
 * power of two. An exact scale may differ as far as an element of a BF16 gradient: 2e-2 (bench/check/check_limits.c).
 * With data, shard and pipeline ranks alone there is no difference. */
static bool scales_follow(const lesson *l)
{
    const bench_case *c = &l->c;
    double distance = l->one[0].first_distance;
    bool same_sums = l->given.of.tensor * l->given.of.context * l->given.microbatch == 1;
    double limit = same_sums ? 0.0 : c->model.experts ? routed_alone : c->fp8_scale == FP8_EXACT ? 0x1p-5 : 0x1p-6;
    if (!(distance <= limit) && world_rank() == 0) printf("# the first scales differ by %.1e\n", distance);
    return c->precision != PRECISION_FP8 || distance <= limit;
}

/* Operations during transfers in all trainings with overlap; and the trainings that had some. */
static double beside[PLACES], trainings_beside[PLACES];

/* Without overlap no transfer runs during computing, but a send delays nobody; and a weight gradient runs late only on
 * its own queue. */
static bool adds_overlap(const layout *l, const seen *n)
{
    bool right = true;
    for (int p = 0; p < PLACES; p++) {
        bool on = strcmp(p == WEIGHTS_BEHIND ? l->weights : l->overlap, "on") == 0;
        if (on) beside[p] += n->of[p], trainings_beside[p] += n->of[p] > 0.0;
        if (on || n->of[p] == 0.0 || p == FORWARD_OUT || p == BACKWARD_OUT) continue;
        right = false;
        if (world_rank() == 0) printf("# %s: %.0f operations beside transfers\n", place_names[p], n->of[p]);
    }
    return right;
}

static bool overlaps_if_asked(const lesson *l)
{
    bool given = adds_overlap(&l->given, &l->seen), varied = adds_overlap(&l->varied, &l->seen_again);
    return given && varied;
}

/* ---- waits ---- */

enum { MOST_LEFT_OUT = 8192 };
static int64_t waits_left_out, waits_named;
/* Waits, each to be left out alone, and the hazards that the checker then reports on paper. */
typedef struct {
    int64_t count;
    place of[MOST_LEFT_OUT];
    double hazards[MOST_LEFT_OUT];
} left_out;

/* Returns the distance of waits that are left out: all, with `long` in every eighth layout, otherwise about 50. */
static int stride_of(const lesson *l)
{
    double waits = 0.0;
    for (int rank = 0; rank < BESIDE_RANKS; rank++) waits += l->seen.waits[rank];
    return test_is_long() && l->draws.number % 8 == 0 ? 1 : 1 + (int)(waits / 50.0);
}

/* Leaves out every `stride`th wait of every rank. Divides the waits among the ranks. Collective. */
static void leave_out(const lesson *l, int stride, left_out *n)
{
    n->count = 0;
    for (int rank = 0; rank < ranks_of(l->given.of); rank++)
        for (int64_t i = ((int64_t)l->draws.number + rank) % stride; i < (int64_t)l->seen.waits[rank]; i += stride)
            if (n->count < MOST_LEFT_OUT) n->of[n->count++] = (place){ rank, LEFT_OUT_AT, i };
    memset(n->hazards, 0, sizeof n->hazards);
    for (int64_t i = world_rank(); i < n->count; i += world_ranks())
        n->hazards[i] = (double)on_paper(&l->c, PAPER_STEPS, n->of[i]).hazards.count;
    world_sum(n->hazards, n->count);
}

/* Returns whether a run in hostile order has the bits of l->run and no hazard if this rank leaves out its wait `own`
 * (-1: none). Collective. */
static bool same_bits_without(const lesson *l, int64_t own, uint32_t seed)
{
    trained got;
    train_case(&got, &l->c,
               &(training){ .steps = l->run.steps,
                            .hostile = true,
                            .order_seed = seed,
                            .drop_step = LEFT_OUT_AT,
                            .drop_wait = own + 1 });
    bool same = got.hazards == 0.0 && trained_differences(&got, &l->run) == 0;
    trained_close(&got);
    return same;
}

static bool is_redundant(const lesson *l, int64_t own)
{
    bool same = true;
    for (uint32_t seed = 1; seed <= (test_is_long() ? 3 : 1); seed++) same = same && same_bits_without(l, own, seed);
    return same;
}

/* Returns this rank's wait number k without a hazard, or -1. */
static int64_t unnamed_wait(const left_out *n, int64_t k)
{
    for (int64_t i = 0; i < n->count; i++)
        if (n->of[i].rank == world_rank() && n->hazards[i] == 0.0 && k-- == 0) return n->of[i].index;
    return -1;
}

static bool all_are_redundant(const lesson *l, const left_out *n)
{
    bool redundant = true;
    for (int64_t i = 0; i < n->count; i++) {
        place p = n->of[i];
        if (n->hazards[i] > 0.0 || is_redundant(l, world_rank() == p.rank ? p.index : -1)) continue;
        redundant = false;
        if (world_rank() == 0)
            printf("# needed, and no hazard names it: wait %lld of rank %d, before %s\n", (long long)p.index, p.rank,
                   on_paper(&l->c, PAPER_STEPS, p).before);
    }
    return redundant;
}

/* The hazard checker names two unordered operations on the same bytes if a wait is left out, or the wait is redundant:
 * in runs there is no hazard, and the bits are the same. (Redundant waits precede transfers and kernels whose input is
 * older than the wait. They stay because a queue waits for everything submitted before.) Every rank leaves out one wait
 * at once; if the bits change, each alone. A hazard found on paper is also found in a run. */
static bool waits_are_needed(const lesson *l)
{
    static left_out n;
    int64_t named = 0;
    bool right = true, more = true;
    leave_out(l, stride_of(l), &n);
    for (int64_t k = 0; more; k++) {
        int64_t own = unnamed_wait(&n, k);
        more = !world_all(own < 0);
        if (more && !is_redundant(l, own)) more = false, right = all_are_redundant(l, &n);
    }
    for (int64_t i = 0; i < n.count; i++)
        if (n.hazards[i] > 0.0 && named++ == 0 &&
            same_bits_without(l, world_rank() == n.of[i].rank ? n.of[i].index : -1, 1))
            right = false;
    waits_left_out += n.count;
    waits_named += named;
    return right;
}

/* ---- tests of layouts ---- */

/* Properties, and of how many layouts one is held to it in a short test. computes: on the emulated GPU only with
 * `long`. */
static const struct {
    const char *name;
    bool (*holds)(const lesson *l);
    uint32_t every;
    bool on_gpu;
} properties[] = {
    { "no hazard, whole weights are the owners', norm is exact", is_sound, 1, true },
    { "agrees with one rank", agrees, 1, true },
    { "other keys and orders give the same bits", has_same_bits, 1, true },
    { "the reference rounds as several ranks do", rounds_as_several, 1, true },
    { "FP8 scales follow the rule", scales_follow, 1, true },
    { "transfers run during computing if overlap = on", overlaps_if_asked, 1, false },
    { "no wait can be left out unnoticed", waits_are_needed, 3, false },
};

static bool is_due(const lesson *l, size_t i)
{
    if (properties[i].holds == has_same_bits && tests_cuda() && !emulator_seed) return false; /* deterministic = no */
    if (tests_cuda() && !properties[i].on_gpu) return emulator_seed && test_is_long() && i > 4;
    return test_is_long() || l->draws.number % properties[i].every == 0;
}

typedef struct {
    char name[96];
    cut of;
    int family, precision;
    source draws;
} numbered;
static numbered list[MOST_TESTS];

static void open_lesson(lesson *l, const numbered *n)
{
    char keys[TRAINED_DECK];
    *l = (lesson){ .draws = n->draws };
    l->given = draw_layout(&l->draws, families[n->family], precisions[n->precision], n->of, &l->c);
    l->varied = draw_same_bits(&l->draws, &l->given, &l->other);
    uint32_t order = (uint32_t)draw(&l->draws, INT32_MAX) + (draw(&l->draws, 2) ? (uint32_t)world_rank() : 0);
    bool proves = draw(&l->draws, 2);
    if (world_rank() == 0) printf("# layout %u: %s\n", n->draws.number, layout_line(keys, &l->given));
    fflush(stdout);
    train(&l->run, &l->c, (training){ .prove_access = draw(&l->draws, 2) }, &l->seen);
    train(
        &l->again, &l->other,
        (training){ .hostile = true, .order_seed = order, .prove_access = proves, .halves_scales = l->run.tensors > 0 },
        &l->seen_again);
    train_references(l);
}

static void hold_layout(void **state)
{
    lesson l;
    bool hold = true;
    open_lesson(&l, *state);

    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        if (!is_due(&l, i)) continue;
        bool holds = world_all(properties[i].holds(&l));
        if (!holds && world_rank() == 0) printf("# not so: %s\n", properties[i].name);
        hold = hold && holds;
    }
    fflush(stdout);
    trained_close(&l.run);
    trained_close(&l.again);
    for (int i = 0; i < l.references; i++) trained_close(&l.one[i]);
    assert_true(hold);
}

/* Lists the layouts of this number of ranks: with `long` all families and precisions, otherwise one of each. The
 * emulated GPU runs a quarter of the layouts, with `long` one precision of each family. */
static int list_layouts(int count, int ranks, uint32_t seed)
{
    const char *only = getenv("XGSW_TEST_LAYOUT");
    cut cuts[MOST_CUTS];
    int all = list_cuts(cuts, ranks);
    for (int i = 0; i < all; i++)
        for (int k = 0; k < FAMILIES * PRECISIONS; k++) {
            int of = k % FAMILIES, precision = k / FAMILIES;
            bool turn = of == (i + (int)(seed % FAMILIES)) % FAMILIES,
                 own = precision == (i + of + (int)(seed / FAMILIES % PRECISIONS)) % PRECISIONS;
            uint32_t number = (uint32_t)((ranks * MOST_CUTS + i) * FAMILIES * PRECISIONS + k);
            if (only ? number != (uint32_t)atol(only) : !test_is_long() && !(turn && own)) continue;
            if (!only && tests_cuda() && (test_is_long() ? !own : (uint32_t)i % 4 != seed % 4)) continue;
            numbered *n = &list[count++];
            *n = (numbered){ .of = cuts[i], .family = of, .precision = precision };
            n->draws = (source){ .seed = seed, .key = fnv1a(families[of]), .number = number };
            snprintf(n->name, sizeof n->name, "layout %u: %s %s TP%d CP%d PP%d DP%d S%d", number, families[of],
                     precisions[precision], n->of.tensor, n->of.context, n->of.pipeline, n->of.data, n->of.shard);
        }
    return count;
}

/* Padding rows leave the losses bitwise equal. They add zeros to a sum of the backward pass, which a library may add in
 * another order: by an FP32 rounding of each of 509 terms, and where that moves a BF16 value, by its half unit. */
static void padding(void **state)
{
    for (int p = 0; p < 2; p++) {
        trained want, got;
        const char *name = "";
        bench_case c;
        source s = { .key = (uint32_t)p };
        draw_layout(&s, families[0], precisions[p], (cut){ 1, 1, 1, 1, 1 }, &c);
        train_case(&want, &c, &(training){ .steps = 1 });
        c.model.padded_vocabulary += 128;
        train_case(&got, &c, &(training){ .steps = 1 });
        assert_memory_equal(got.sequence_loss[0], want.sequence_loss[0], sizeof want.sequence_loss[0]);
        assert_true(got.loss[0] == want.loss[0]);
        double distance = worst_ratio(&want, got.gradient, want.gradient, &name);
        if (world_rank() == 0) printf("# %s: gradients differ by %.1e\n", precisions[p], distance);
        assert_true(distance < (p ? 0x1p-8 : 509 * 0x1p-24) && got.whole_weight_errors == 0.0);
        trained_close(&want);
        trained_close(&got);
    }
}

/* Trains layouts with overlap of two ranks, which can have it at place p, until one has. */
static void train_until_beside(overlap_place p)
{
    cut of = p == TENSOR          ? (cut){ 2, 1, 1, 1, 1 }
             : p <= GATHERED      ? (cut){ 1, 1, 1, 2, 1 }
             : p <= BACKWARD_OUT  ? (cut){ 1, 1, 2, 1, 1 }
             : p <= KEY_GRADIENTS ? (cut){ 1, 2, 1, 1, 1 }
                                  : (cut){ 1, 1, 1, 1, 1 };
    for (uint32_t i = 0; i < 100 && beside[p] == 0.0; i++) {
        bench_case c;
        trained x;
        seen n;
        source s = { .seed = i, .key = (uint32_t)p };
        layout l = draw_layout(&s, families[0], precisions[0], of, &c);
        l.overlap = l.weights = "on";
        if (!is_legal(&l, &c)) continue;
        train(&x, &c, (training){ .hostile = p == WEIGHTS_BEHIND, .order_seed = i }, &n);
        trained_close(&x);
        adds_overlap(&l, &n);
    }
}

/* Asserts that every kind of overlap occurred, and that a wait left out was named. */
static void everything_was_seen(void **state)
{
    for (int p = 0; p < PLACES; p++) {
        train_until_beside((overlap_place)p);
        if (world_rank() == 0)
            printf("# %s: %.0f operations beside transfers, in %.0f trainings\n", place_names[p], beside[p],
                   trainings_beside[p]);
        assert_true(beside[p] > 0.0);
    }
    if (world_rank() == 0)
        printf("# of %lld waits left out, the hazard checker named %lld\n", (long long)waits_left_out,
               (long long)waits_named);
    /* One layout alone (XGSW_TEST_LAYOUT) may leave none out. */
    assert_true(waits_left_out == 0 || waits_named > waits_left_out / 2);
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[MOST_TESTS + 2];
    world_start(&argc, &argv);
    uint32_t seed = seed_of_test();
    int count = list_layouts(0, world_ranks(), seed);
    if (world_ranks() > 2 && !tests_cuda()) count = list_layouts(count, world_ranks() - 1, seed);
    for (int i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){ .name = list[i].name, .test_func = hold_layout, .initial_state = &list[i] };
    if (!tests_cuda()) tests[count++] = (struct CMUnitTest)cmocka_unit_test(padding);
    if (world_ranks() > 1 && !tests_cuda()) tests[count++] = (struct CMUnitTest)cmocka_unit_test(everything_was_seen);
    int failed = _cmocka_run_group_tests("layouts", tests, (size_t)count, NULL, NULL);
    world_stop();
    return failed;
}
