/* Compares training curves and first gradients with the independent float64 program (validation/float64/), in FP32, on
 * one rank and on two. make runs that program to write build/float64/. */
#include "trained.h"
#include "units/tests.h"

static char *file_bytes(const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *length = (size_t)ftell(f);
    rewind(f);
    char *bytes = calloc(*length + 1, 1);
    assert_int_equal(fread(bytes, 1, *length, f), *length);
    fclose(f);
    return bytes;
}

typedef struct {
    int64_t steps;
    double loss[TRAINED_STEPS], norm[TRAINED_STEPS];
    double balance[TRAINED_STEPS], dropped[TRAINED_STEPS]; /* 0 without experts */
    int rows;
    char name[TRAINED_ROWS][48];
    int64_t offset[TRAINED_ROWS], elements[TRAINED_ROWS];
} curve;

static curve read_curve(const char *path)
{
    curve c = { 0 };
    size_t length;
    char *text = file_bytes(path, &length);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        long long rows, columns, offset, step;
        double loss, norm, balance = 0.0, dropped = 0.0;
        char name[48];
        if (sscanf(line, "gradient %47s %lld %lld %lld", name, &rows, &columns, &offset) == 4) {
            strcpy(c.name[c.rows], name);
            c.offset[c.rows] = offset;
            c.elements[c.rows++] = rows * columns;
        } else if (sscanf(line, "%lld %lf %lf %lf %lf", &step, &loss, &norm, &balance, &dropped) >= 3) {
            c.loss[step] = loss;
            c.norm[step] = norm;
            c.balance[step] = balance;
            c.dropped[step] = dropped;
            c.steps = step + 1;
        }
    }
    free(text);
    return c;
}

/* Reads the float64 gradient in the order of the parameter table. Elements missing at the end of the file are zero. */
static double *gradient_of(const trained *t, const curve *c, const char *path)
{
    size_t length;
    char *bytes = file_bytes(path, &length);
    const float *values = (const float *)(void *)bytes;
    int64_t given = (int64_t)(length / sizeof *values);
    double *out = calloc((size_t)t->base[t->rows], sizeof *out);
    assert_int_equal(t->rows, c->rows);
    for (int i = 0; i < t->rows; i++) {
        int k = 0;
        while (k < c->rows && strcmp(t->name[i], c->name[k])) k++;
        if (k == c->rows) fail_msg("%s has no gradient in %s", t->name[i], path);
        assert_int_equal(c->elements[k], t->base[i + 1] - t->base[i]);
        for (int64_t v = 0; v < c->elements[k] && c->offset[k] + v < given; v++)
            out[t->base[i] + v] = (double)values[c->offset[k] + v];
    }
    free(bytes);
    return out;
}

typedef struct {
    int ranks;
    const char *deck, *layout; /* layout: keys besides the deck's, separated by semicolons */
} comparison;

/* Returns the largest relative error of losses and balance losses over the first steps. */
static double curve_error(const trained *t, const curve *want, int64_t steps)
{
    double worst = 0.0;
    for (int64_t s = 0; s < steps; s++) {
        worst = worst_of(worst, fabs(t->loss[s] / want->loss[s] - 1.0));
        if (want->balance[s] > 0.0) worst = worst_of(worst, fabs(t->balance[s] / want->balance[s] - 1.0));
    }
    return worst;
}

static bench_case case_compared(const comparison *what)
{
    char path[256], text[4096];
    size_t length;
    snprintf(path, sizeof path, "validation/float64/%s.dat", what->deck);
    char *body = file_bytes(path, &length);
    snprintf(text, sizeof text, "%s%s\n", body, what->layout);
    for (char *c = text + length; *c; c++) *c = *c == ';' ? '\n' : *c;
    free(body);
    return case_of(text, what->ranks);
}

/* Issue 4: 1e-6 and 1e-5 at the first step, 1e-5 over ten steps. The dropped count must be exact: choices in these
 * curves have margins a hundred times the rounding of FP32. */
static void assert_same(const trained *t, const curve *want, const double *gradient, const comparison *what)
{
    const char *where = "";
    double first = curve_error(t, want, 1), all = curve_error(t, want, want->steps),
           r = worst_ratio(t, t->gradient, gradient, &where);
    if (world_rank() == 0)
        printf("# %s %s: loss at step 0 %.2e, over %lld steps %.2e, gradient r %.2e (%s)\n", what->deck, what->layout,
               first, (long long)want->steps, all, r, where);
    assert_true(losses_are_positive(t));
    assert_true(first < 1e-6);
    assert_true(all < 1e-5);
    assert_true(r < 1e-5);
    for (int64_t s = 0; s < want->steps; s++) assert_true(t->dropped[s] == want->dropped[s]);
    assert_true(t->hazards == 0.0);
}

static void compare(void **state)
{
    const comparison *what = *state;
    char path[256];
    trained t;
    bench_case c = case_compared(what);
    snprintf(path, sizeof path, "build/float64/%s.curve", what->deck);
    curve want = read_curve(path);
    assert_int_equal(want.steps, c.warmup + c.steps);
    train_case(&t, &c, &(training){ .steps = want.steps });
    snprintf(path, sizeof path, "build/float64/%s.gradient", what->deck);
    double *gradient = gradient_of(&t, &want, path);
    assert_same(&t, &want, gradient, what);
    free(gradient);
    trained_close(&t);
}

static comparison comparisons[] = {
    { 1, "llama3.1-8b", "" },
    { 1, "llama3.1-70b", "" },
    { 1, "llama3.1-405b", "" },
    { 1, "llama2-70b", "" },
    { 1, "nemotron4-340b", "" },
    { 1, "gpt3-175b", "" },
    { 1, "grok1-314b", "" },
    { 1, "grok1-314b-dropless", "" },
    { 2, "llama2-70b", "shard = 2" },
    { 2, "nemotron4-340b", "tensor = 2" },
    { 2, "gpt3-175b", "pipeline = 2" },
    { 2, "gpt3-175b", "tensor = 2" },
    { 2, "grok1-314b", "expert = 2" }, /* a microbatch has the same sequences as on one rank */
    { 2, "grok1-314b-dropless", "context = 2; expert = 2" },
};
enum { COMPARISONS = sizeof comparisons / sizeof *comparisons };

int main(int argc, char **argv)
{
    struct CMUnitTest tests[COMPARISONS];
    size_t taken = 0;
    world_start(&argc, &argv);
    for (int i = 0; i < COMPARISONS; i++)
        if (comparisons[i].ranks == world_ranks())
            tests[taken++] = (struct CMUnitTest){ .name = comparisons[i].deck,
                                                  .test_func = compare,
                                                  .initial_state = &comparisons[i] };
    int failed = _cmocka_run_group_tests("float64", tests, taken, NULL, NULL);
    world_stop();
    return failed;
}
