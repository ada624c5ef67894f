/* Checks acceptance and the exit status of runs with invented results; repeats of a case; the progress line. */
#include "bench/facts/accept.h"
#include "base/fail.h"
#include "bench/facts/judge.h"
#include "bench/record/journal.h"
#include "bench/run/soak.h"
#include "bench/run/stop.h"
#include "machine/world.h"
#include "units/plan/deck_source.h"

static const char small[] = "backend = host\nsize = check\n[llama3.1-8b]\n";

/* Returns a result as if the case had run. Close it with result_close. */
static case_result judged(const bench_case *c, double tokens_per_second)
{
    case_result r;
    result_open(&r, c);
    r.ruling.passed = r.ruling.valid = true;
    r.figures.tokens_per_second = tokens_per_second;
    return r;
}

static bench_case expecting(const char *keys)
{
    char body[512];
    snprintf(body, sizeof body, "%s%s", keys, small);
    return case_of(body, 1, false);
}

static void assert_acceptance(case_result *r, acceptance wanted, const char *why)
{
    accept_case(r);
    assert_int_equal(r->ruling.acceptance, wanted);
    assert_string_equal(r->ruling.not_accepted, why);
}

static void the_tolerance_is_the_border(void **state)
{
    bench_case c = expecting("expect = 1000\ntolerance = 0.25\n"), none = expecting("");
    case_result r = judged(&c, 750.0);
    assert_acceptance(&r, ACCEPTANCE_YES, "");
    assert_true(r.ruling.expected_tokens_per_second == 1000.0);
    c.repeats = 2, c.repeat = 1;
    assert_acceptance(&r, ACCEPTANCE_LATER, "");
    r.figures.tokens_per_second = 749.9;
    assert_acceptance(&r, ACCEPTANCE_NO, "749.9 tokens/s, expected 1000.0 tokens/s less 25 %");
    r.ruling.valid = false;
    for (int i = 0; i < 3; i++) reasons_add(&r.ruling.invalids, "rule", -1, "rule %d", i);
    assert_acceptance(&r, ACCEPTANCE_NO,
                      "749.9 tokens/s, expected 1000.0 tokens/s less 25 %; NOT VALID: rule 0; and 2 more reasons");
    r.given = &none;
    assert_acceptance(&r, ACCEPTANCE_NONE, "");
    assert_true(isnan(r.ruling.expected_tokens_per_second));
    result_close(&r);
}

static void power_is_sampled_and_below_its_limit(void **state)
{
    bench_case c = expecting("power_limit = 700\n");
    case_result r = judged(&c, 1.0);
    assert_acceptance(&r, ACCEPTANCE_NO, "no samples of power, limit 700 W a GPU");
    r.seen.samples.watts = 700.0;
    assert_acceptance(&r, ACCEPTANCE_YES, "");
    r.seen.samples.watts = 700.1;
    assert_acceptance(&r, ACCEPTANCE_NO, "power 700.1 W a GPU, limit 700 W");
    result_close(&r);
}

static void what_is_no_measurement_is_not_accepted(void **state)
{
    bench_case c = expecting("expect = 1\n");
    case_result r = judged(&c, 1e6);
    r.ruling.valid = false;
    reasons_add(&r.ruling.invalids, "check off", -1, "check off");
    assert_acceptance(&r, ACCEPTANCE_NO, "NOT VALID: check off");
    reasons_add(&r.ruling.invalids, "debug build", -1, "debug build");
    assert_acceptance(&r, ACCEPTANCE_NO, "NOT VALID: check off; and 1 more reason");
    r.ruling.verdict = VERDICT_FAILED;
    reasons_add(&r.ruling.fails, "hazards", -1, "2 hazards");
    assert_acceptance(&r, ACCEPTANCE_NO, "FAILED: 2 hazards");
    r.ruling.verdict = VERDICT_INTERRUPTED;
    snprintf(r.ruling.stopped_by, sizeof r.ruling.stopped_by, "SIGTERM");
    assert_acceptance(&r, ACCEPTANCE_NO, "INTERRUPTED: SIGTERM");
    result_close(&r);
    result_skip(&r, &c, "needs 8 ranks, there are 4");
    assert_acceptance(&r, ACCEPTANCE_NO, "SKIPPED: needs 8 ranks, there are 4");
}

/* Published cells exist only for layouts of the recipe and for the same device. Two devices have cells of gpt3-175b on
 * 64 GPUs. */
static void a_reference_is_the_published_cell(void **state)
{
    bench_case cell = case_of("expect = reference\n[llama3.1-8b]\nsize = full\n", 8, true),
               other = case_of("expect = reference\n[llama3.1-8b]\nsize = full\ncontext = 4\n", 8, true),
               two = case_of("expect = reference\n[gpt3-175b]\nsize = full\n", 64, true);
    case_result r = judged(&other, 1e9);
    assert_true(fabs(accept_expected(&cell, "NVIDIA H100 80GB HBM3") - 128 * 8192 / 12.27) < 1e-6);
    assert_acceptance(&r, ACCEPTANCE_NO, "expected is a published cell, but none is of this case on this device");
    r.ruling.valid = false;
    reasons_add(&r.ruling.invalids, "check off", -1, "check off");
    assert_acceptance(&r, ACCEPTANCE_NO,
                      "expected is a published cell, but none is of this case on this device; NOT VALID: check off");
    reasons_add(&r.ruling.fails, "hazards", -1, "2 hazards"),
        reasons_add(&r.ruling.fails, "residual", -1, "a residual");
    r.ruling.verdict = VERDICT_FAILED;
    assert_acceptance(&r, ACCEPTANCE_NO, "FAILED: 2 hazards; and 1 more reason");
    double a100 = 128 * 2048 / 26.14, h100 = 128 * 2048 / 10.98;
    assert_true(fabs(accept_expected(&two, "NVIDIA A100-SXM4-80GB") - a100) < 1e-6);
    assert_true(fabs(accept_expected(&two, "NVIDIA H100 80GB HBM3") - h100) < 1e-6);
    assert_true(isnan(accept_expected(&two, "NVIDIA H100 PCIe")) && isnan(accept_expected(&two, "NVIDIA H100 NVL")));
    assert_true(isnan(accept_expected(&two, "NVIDIA H100 80GB HBM3 MIG 1g.10gb")));
    assert_true(isnan(accept_expected(&two, "NVIDIA B200")) && isnan(accept_expected(&two, "NVIDIA GA100")));
    assert_true(isnan(accept_expected(&two, "")));
    assert_true(fabs(accept_expected(&two, "NVIDIA GA100, A1000, A100") - a100) < 1e-6);
    result_close(&r);
}

typedef struct {
    const char *cases; /* p: PASSED and VALID, n: NOT VALID, f: FAILED, s: SKIPPED, i: INTERRUPTED; upper case: missed;
                          a: ACCEPTED */
    bool strict;
    int status;
    const char *line; /* the last line of the run */
} ending;

static case_result ended(const bench_case *c, char letter)
{
    static const verdict of[] = { ['a'] = VERDICT_PASSED,      ['f'] = VERDICT_FAILED, ['s'] = VERDICT_SKIPPED,
                                  ['i'] = VERDICT_INTERRUPTED, ['n'] = VERDICT_PASSED, ['p'] = VERDICT_PASSED };
    char small_letter = (char)(letter | 32);
    case_result r = { .given = c };
    r.ruling.verdict = of[(int)small_letter];
    r.ruling.valid = strchr("ap", small_letter);
    r.ruling.acceptance = letter == 'a' ? ACCEPTANCE_YES : letter == small_letter ? ACCEPTANCE_NONE : ACCEPTANCE_NO;
    if (r.ruling.acceptance == ACCEPTANCE_NO) snprintf(r.ruling.not_accepted, sizeof r.ruling.not_accepted, "missed");
    if (r.ruling.verdict == VERDICT_FAILED) reasons_add(&r.ruling.fails, "residual", -1, "wrong");
    if (!r.ruling.valid) reasons_add(&r.ruling.invalids, "spread", -1, "unsteady");
    if (r.ruling.verdict == VERDICT_SKIPPED) snprintf(r.ruling.skipped, sizeof r.ruling.skipped, "too large");
    if (r.ruling.verdict == VERDICT_INTERRUPTED) snprintf(r.ruling.stopped_by, sizeof r.ruling.stopped_by, "SIGTERM");
    return r;
}

/* The cases after an interrupted one are SKIPPED and count for neither acceptance nor failure. */
static void a_run_ends_by_its_cases(void **state)
{
    static const ending endings[] = {
        { "pp", false, STATUS_PASSED, "PASSED: 2 of 2 cases computed correctly, 2 results VALID" },
        { "ps", false, STATUS_PASSED, "PASSED: 1 of 2 cases computed correctly, 1 result VALID, 1 SKIPPED (case 1)" },
        { "nn", false, STATUS_PASSED,
          "PASSED, but no result is VALID: case 1: unsteady; 2 of 2 cases computed correctly, 0 results VALID" },
        { "ss", false, STATUS_NOTHING, "NOTHING TRAINED: case 1: too large" },
        { "pf", false, STATUS_FAILED, "FAILED: case 1: wrong; 1 of 2 cases computed correctly, 1 result VALID" },
        { "pis", false, STATUS_STOPPED,
          "INTERRUPTED: case 1: SIGTERM; 1 of 3 cases computed correctly, 1 result VALID, 1 SKIPPED (case 1)" },
        { "fi", false, STATUS_FAILED, "FAILED: case 1: wrong; 0 of 2 cases computed correctly, 0 results VALID" },
        { "pP", false, STATUS_FAILED,
          "NOT ACCEPTED: case 1: missed; 2 of 2 cases computed correctly, 2 results VALID" },
        { "pS", false, STATUS_FAILED,
          "NOT ACCEPTED: case 1: missed; 1 of 2 cases computed correctly, 1 result VALID, 1 SKIPPED (case 1)" },
        { "pIS", false, STATUS_STOPPED,
          "INTERRUPTED: case 1: SIGTERM; 1 of 3 cases computed correctly, 1 result VALID, 1 SKIPPED (case 1)" },
        { "PIS", false, STATUS_FAILED,
          "NOT ACCEPTED: case 1: missed; 1 of 3 cases computed correctly, 1 result VALID, 1 SKIPPED (case 1)" },
        { "aa", true, STATUS_PASSED, "ACCEPTED: 2 of 2 cases computed correctly, 2 results VALID" },
        { "an", false, STATUS_PASSED, "ACCEPTED: 2 of 2 cases computed correctly, 1 result VALID" },
        { "af", false, STATUS_FAILED, "NOT ACCEPTED: case 1: wrong; 1 of 2 cases computed correctly, 1 result VALID" },
        { "an", true, STATUS_FAILED,
          "NOT ACCEPTED: case 1: unsteady; 2 of 2 cases computed correctly, 1 result VALID" },
        { "afP", false, STATUS_FAILED,
          "NOT ACCEPTED: case 1: wrong; 2 of 3 cases computed correctly, 2 results VALID" },
        { "ps", true, STATUS_FAILED,
          "FAILED, as --strict asks: case 1: too large; 1 of 2 cases computed correctly, 1 result VALID, 1 SKIPPED "
          "(case 1)" },
        { "pn", true, STATUS_FAILED,
          "FAILED, as --strict asks: case 1: unsteady; 2 of 2 cases computed correctly, 1 result VALID" },
        { "pis", true, STATUS_STOPPED,
          "INTERRUPTED: case 1: SIGTERM; 1 of 3 cases computed correctly, 1 result VALID, 1 SKIPPED (case 1)" },
        { "nis", true, STATUS_FAILED,
          "FAILED, as --strict asks: case 1: unsteady; 1 of 3 cases computed correctly, 0 results VALID, 1 SKIPPED "
          "(case 1)" },
    };
    char line[ACCEPT_LINE];
    bench_case c = expecting("");
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        final_counts n = { .strict = endings[i].strict };
        bool stopped = false;
        for (const char *letter = endings[i].cases; *letter; letter++) {
            case_result r = ended(&c, *letter);
            stopped |= r.ruling.verdict == VERDICT_INTERRUPTED;
            accept_count(&n, &r, stopped);
        }
        if (accept_status(&n) != endings[i].status) fail_msg("%s: status %d", endings[i].cases, accept_status(&n));
        assert_string_equal(accept_line(&n, line), endings[i].line);
    }
}

static void repeats_must_agree(void **state)
{
    static const double seconds[] = { 1.0, 1.04, NAN, 0.98 };
    deck d = deck_of(TITLES "repeats = 4\nbackend = host\nsize = check\nseed = 1 1 2\n[llama3.1-8b]\n", 1);
    repeat_means means = { .first = 0 };
    assert_int_equal(d.cases, 8);
    for (int i = 0; i < 8; i++) {
        case_result r = judged(&d.item[i], 1.0);
        assert_int_equal(d.item[i].repeat, 1 + i % 4);
        r.figures.mean_seconds = i < 4 ? seconds[i] : 7.0;
        repeats_add(&means, r.given, &r.figures);
        r.seen.load = (host_load){ .node_ranks = 1, .cores = 1, .threads = 1, .quota = INFINITY };
        judge_case(&r);
        bool is_told = false;
        for (int k = 0; k < r.ruling.invalids.count; k++)
            is_told |= strstr(r.ruling.invalids.list[k].sentence, "repeats spread") != NULL;
        assert_int_equal(is_told, i == 3);
        if (i == 3)
            assert_true(r.figures.repeated.count == 3 && r.figures.repeated.median == 1.0 &&
                        r.figures.repeated.minimum == 0.98 && r.figures.repeated.maximum == 1.04);
        if (i == 7) assert_true(r.figures.repeated.count == 4 && r.figures.repeated.spread == 0.0);
        result_close(&r);
    }
    deck_free(&d);
}

/* The number of steps that fit is estimated from the fastest warm-up step, and doubled if it turns out too small. */
static void a_soak_ends_by_the_clock(void **state)
{
    char text[PROGRESS_TEXT];
    bench_case c = expecting("minutes = 0.01\nwarmup = 2\nsteps = 3\n");
    case_result r = judged(&c, 1.0);
    r.seen.own_seconds[0] = 1.0, r.seen.own_seconds[1] = 0.1;
    soak_begin(&r);
    assert_int_equal(r.seen.total, 2 + 3 + 24);
    for (int64_t step = 0; step < 1000; step++) {
        int64_t room = r.seen.total;
        assert_int_equal(soak_grow(&r, step),
                         step == 26 || step == 55 || step == 113 || step == 229 || step == 461 || step == 925);
        assert_int_equal(r.seen.total, room < r.seen.total ? 2 * room : room);
        r.seen.loss[step] = (double)step;
        assert_int_equal(soak_reason(&r, INFINITY, step), 0);
    }
    for (int64_t step = 0; step < 1000; step++) assert_true(r.seen.loss[step] == (double)step);
    for (int64_t step = 0; step < 29; step++) assert_int_equal(soak_reason(&r, 0.0, step), step < 3 ? 0 : STOP_SOAKED);
    r.seen.completed = 6;
    soak_end(&r);
    assert_int_equal(r.seen.total, 6);
    assert_string_equal(result_progress(&r, text), "4 of at least 3 steps and 2 of 2 of warm-up");
    r.seen.completed = 1;
    assert_string_equal(result_progress(&r, text), "0 of at least 3 steps and 1 of 2 of warm-up");
    result_close(&r);
}

/* The number of steps is limited by a gather of one number per step and by a journal entry with all ranks' tables. */
static void a_soak_has_the_steps_that_can_be_kept(void **state)
{
    bench_case c = expecting("minutes = 100000\nwarmup = 2\nsteps = 300\n");
    case_result r = judged(&c, 1.0);
    r.seen.own_seconds[0] = r.seen.own_seconds[1] = 1e-7;
    soak_begin(&r);
    assert_int_equal(r.seen.total, WORLD_GATHER_MOST / 8);
    assert_false(soak_grow(&r, r.seen.total - 3));
    assert_int_equal(soak_reason(&r, 0.0, r.seen.total - 2), STOP_SOAKED);
    result_close(&r);
    r = judged(&c, 1.0);
    r.seen.own_seconds[0] = r.seen.own_seconds[1] = 1e-7;
    c.ranks = 10000;
    soak_begin(&r);
    int64_t tables = 8 * (RANK_TABLES + 1) * (int64_t)c.ranks;
    assert_true(r.seen.total * tables <= JOURNAL_ENTRY_MOST && r.seen.total * tables > JOURNAL_ENTRY_MOST / 2);
    c.ranks = 1000000;
    assert_int_equal(soak_steps_most(&r), 302);
    result_close(&r);
}

TEST_PROGRAM("accept", NULL, NULL, the_tolerance_is_the_border, power_is_sampled_and_below_its_limit,
             what_is_no_measurement_is_not_accepted, a_reference_is_the_published_cell, a_run_ends_by_its_cases,
             repeats_must_agree, a_soak_ends_by_the_clock, a_soak_has_the_steps_that_can_be_kept)
