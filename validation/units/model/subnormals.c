/* Products meet no subnormal numbers, which some processors multiply 150 times as slowly. Counts them in the operands
 * of all products of short trainings. Every logit of the wrapped loss that became 0 gets its exact gradient again if
 * `exact` is set: then GPT-3, whose logits are large, must show such numbers. */
#include "base/numeric.h"
#include "units/tests.h"
#include "units/train/trained.h"

enum { STEPS = 2 };
static bool exact;
static int64_t subnormal, multiplied;

static bool is_subnormal(double x) { return x != 0.0 && fabs(x) < 0x1p-126; }

void __real_onednn_multiply(const tensor x[3], access_mode access, void *scratch);
void __wrap_onednn_multiply(const tensor x[3], access_mode access, void *scratch);
void __wrap_onednn_multiply(const tensor x[3], access_mode access, void *scratch)
{
    for (int i = access == UPDATE ? 0 : 1; i < 3; i++)
        for (int64_t k = 0; k < tensor_elements(&x[i]); k++)
            subnormal += is_subnormal(tensor_value(&x[i], tensor_place(&x[i], k)));
    multiplied++;
    __real_onednn_multiply(x, access, scratch);
}

void __real_host_cross_entropy(const op *o, void *scratch);
void __wrap_host_cross_entropy(const op *o, void *scratch);
void __wrap_host_cross_entropy(const op *o, void *scratch)
{
    const tensor *logits = &o->operand[0].tensor;
    const float *partial = o->operand[2].tensor.data;
    int64_t n = tensor_elements(logits), columns = logits->dim[logits->dims - 1];
    bool restores = exact && o->args.cross_entropy.part == CROSS_ENTROPY_FINISH;
    double *before = restores ? malloc((size_t)n * sizeof *before) : NULL;
    for (int64_t i = 0; before && i < n; i++) before[i] = tensor_value(logits, tensor_place(logits, i));
    __real_host_cross_entropy(o, scratch);
    for (int64_t i = 0; before && i < n; i++) {
        const float *row = partial + 3 * (i / columns); /* maximum, sum, label's logit */
        logit_scale s = logit_scale_of(row[1], o->args.cross_entropy.gradient_scale);
        s.smallest = 0.0f;
        float d = logit_gradient(s, exp_shared((float)before[i] - row[0]));
        int64_t at = tensor_place(logits, i);
        if (i % columns >= o->args.cross_entropy.valid || tensor_value(logits, at) != 0.0) continue;
        if (logits->type == F32) ((float *)logits->data)[at] = d;
        else ((uint16_t *)logits->data)[at] = bf16_round(d);
    }
    free(before);
}

static void count(const char *workload, const char *precision)
{
    char text[TRAINED_DECK];
    trained x;
    snprintf(text, sizeof text,
             "a\nb\n[%s]\nprecision = %s\nsize = small\nlayers = 2\nhidden = 128\nffn = 256\nheads = 4\nkv_heads = 4\n"
             "vocabulary = 1000\nsequence = 64\nglobal_batch = 2\nmicrobatch = 1\nwarmup = 0\nsteps = %d\ncheck = off\n"
             "backend = host\n",
             workload, precision, STEPS);
    bench_case c = case_of(text, 1);
    subnormal = multiplied = 0;
    train_case(&x, &c, &(training){ .steps = STEPS });
    trained_close(&x);
    assert_true(multiplied > 0);
    printf("# %s, %s%s: %lld subnormal numbers in the operands of %lld products\n", workload, precision,
           exact ? ", exact gradients" : "", (long long)subnormal, (long long)multiplied);
}

static const char *const precisions[] = { "fp32", "bf16", "fp8" };

static void products_meet_no_subnormal_numbers(void **state)
{
    static const char *const workloads[] = { "llama2-70b", "llama3.1-8b", "nemotron4-340b", "grok1-314b", "gpt3-175b" };
    exact = false;
    for (size_t w = 0; w < sizeof workloads / sizeof *workloads; w++)
        for (int p = 0; p < 3; p++) {
            count(workloads[w], precisions[p]);
            assert_int_equal(subnormal, 0);
        }
}

static void exact_gradients_are_subnormal(void **state)
{
    exact = true;
    for (int p = 0; p < 2; p++) {
        count("gpt3-175b", precisions[p]);
        assert_true(subnormal > 0);
    }
}

WORLD_PROGRAM("subnormals", NULL, NULL, products_meet_no_subnormal_numbers, exact_gradients_are_subnormal)
