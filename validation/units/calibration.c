/* Spread of the check's ratios over healthy layouts, as fractions of their limits: what the limits in bench/check.c were
 * chosen by. A healthy layout should stay below half of every limit; none may reach it. */
#include "bench/check.h"
#include "bench/run_case.h"
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { RANKS = 8, SEEDS = 4, DECK = 1024 };

typedef struct { int tensor, data; } cut;
static const cut cuts[] = { { 1, 1 }, { 1, 2 }, { 1, 4 }, { 1, 8 }, { 2, 1 }, { 2, 2 }, { 2, 4 }, { 4, 1 }, { 4, 2 }, { 8, 1 } };
static const char *const workloads[] = { "llama3.1-8b", "llama3.1-70b", "llama3.1-405b" };
enum { PARTS = 4 };
typedef struct { double part[PARTS]; char worst[256]; } fractions;

static fractions checked(const bench_case *c)
{
    check k;
    case_result r;
    machine_options on = case_machine(c);
    result_open(&r, c);
    check_open(&k, c);
    check_result x = check_run(&k, &on, &r);
    check_close(&k);
    result_close(&r);
    fractions f = { { x.loss / CHECK_THRESHOLD, x.gradient_first / CHECK_THRESHOLD, x.gradient_fourth / CHECK_THRESHOLD, x.weights / CHECK_THRESHOLD }, "" };
    snprintf(f.worst, sizeof f.worst, "%s", x.worst);
    return f;
}

static void raise(fractions *to, const fractions *f)
{
    for (int i = 0; i < PARTS; i++)
        if (!(f->part[i] <= to->part[i])) {
            if (f->part[i] >= fmax(fmax(to->part[0], to->part[1]), fmax(to->part[2], to->part[3]))) memcpy(to->worst, f->worst, sizeof to->worst);
            to->part[i] = f->part[i];
        }
}

static void print(const char *what, const fractions *f)
{
    if (world_rank() == 0) printf("# %-28s loss %.3f  gradient %.3f %.3f  weights %.3f  %s\n", what, f->part[0], f->part[1], f->part[2], f->part[3], f->worst);
}

static bench_case layout_case(const char *workload, const char *precision, cut k, int seed)
{
    static const char *const recomputes[] = { "none", "attention", "mlp", "layer" };
    char text[DECK];
    snprintf(text, sizeof text, "calibration\n\n[%s]\nsize = check\nprecision = %s\ntensor = %d\ndata = %d\nseed = %d\nsharding = %s\n"
             "recompute = %s\ntokens = %s\nbackend = host\n", workload, precision, k.tensor, k.data, seed,
             seed % 2 ? "optimizer" : "none", recomputes[seed % 4], seed % 3 == 2 ? "ramp" : "uniform");
    return case_of(text, RANKS);
}

/* One workload: a line a cut over its seeds, and the largest fractions so far. */
static void calibrate(const char *workload, const char *precision, double sharpest[PARTS])
{
    fractions all = { { 0 }, "" };
    char what[64];
    for (size_t k = 0; k < sizeof cuts / sizeof cuts[0]; k++) {
        fractions worst = { { 0 }, "" };
        for (int seed = 1; seed <= SEEDS; seed++) {
            bench_case c = layout_case(workload, precision, cuts[k], seed);
            fractions f = checked(&c);
            raise(&worst, &f);
        }
        snprintf(what, sizeof what, "%s %s TP%d DP%d", workload, precision, cuts[k].tensor, cuts[k].data);
        print(what, &worst);
        raise(&all, &worst);
    }
    snprintf(what, sizeof what, "%s %s", workload, precision);
    print(what, &all);
    for (int i = 0; i < PARTS; i++) sharpest[i] = fmax(sharpest[i], all.part[i]);
}

static void calibrate_all(const char *precision)
{
    double sharpest[PARTS] = { 0 };
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++) calibrate(workloads[i], precision, sharpest);
    for (int i = 0; i < PARTS; i++) assert_true(sharpest[i] < 1.0);
}

static void fp32(void **state) { (void)state; calibrate_all("fp32"); }
static void bf16(void **state) { (void)state; calibrate_all("bf16"); }

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(fp32), cmocka_unit_test(bf16) };
    int failed = cmocka_run_group_tests_name("calibration", tests, NULL, NULL);
    world_stop();
    return failed;
}
