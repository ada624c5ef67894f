/* The bytes that FP8 adds to a layer of llama3.1-8b on one of eight GPUs, on paper. For all operations but products,
 * FP8's bytes minus BF16's are the conversions and transposed copies. A layer is a two-layer model minus a one-layer
 * model. Weights are converted once per step, not per microbatch, so they are separate. The tally omits one thing: on
 * GPUs the FP8 values of both norms, and of one norm's backward, take a second kernel, which reads what the first
 * wrote. */
#include "trained.h"
#include "units/tests.h"

/* Relative to a layer's bytes in BF16. */
static const double LIMIT = 0.06;
static const double READ_AGAIN = 3.0 * 8192 * 4096 * sizeof(uint16_t);

static tally tally_of(const char *precision, int layers, int microbatches)
{
    char text[512];
    mesh m;
    trainer_options o = { .machine = { .kind = MACHINE_HOST } };
    snprintf(text, sizeof text,
             "bytes\n\n[llama3.1-8b]\nsize = full\nprecision = %s\nlayers = %d\ntensor = 1\npipeline = 1\ncontext = 1\n"
             "data = 8\nsharding = optimizer\nmicrobatch = 1\nglobal_batch = %d\ncheck = off\nbackend = host\n",
             precision, layers, 8 * microbatches);
    bench_case c = case_of(text, 8);
    mesh_open(&m, &c.layout, 0, MESH_PAPER);
    measure r = measure_case(&c, &m, &o);
    tally t = r.step;
    measure_free(&r);
    mesh_close(&m);
    return t;
}

/* Bytes per layer and microbatch, and per layer for weights once a step. */
typedef struct {
    double products, others, quantize, transpose, weights;
} layer_bytes;

static bool multiplies(int kind) { return kind == OP_MATMUL || kind == OP_GROUPED_MATMUL; }
static bool is_of_step(int kind) { return kind == OP_ADAMW || kind == OP_SQUARE_SUM || op_is_transfer((op_kind)kind); }

/* For each kind: the bytes of the second layer, and how many of these the second microbatch adds. */
static layer_bytes layer_of(const char *precision)
{
    tally of[2][2];
    layer_bytes b = { 0 };
    for (int layers = 1; layers <= 2; layers++)
        for (int m = 1; m <= 2; m++) of[layers - 1][m - 1] = tally_of(precision, layers, m);
    for (int kind = 0; kind < OP_KINDS; kind++) {
        double once = of[1][0].kind[kind].bytes - of[0][0].kind[kind].bytes;
        double twice = of[1][1].kind[kind].bytes - of[0][1].kind[kind].bytes, each = twice - once;
        if (!is_of_step(kind)) b.weights += once - each;
        *(multiplies(kind) ? &b.products : &b.others) += is_of_step(kind) ? 0.0 : each;
        if (kind == OP_QUANTIZE) b.quantize = each;
        if (kind == OP_TRANSPOSE) b.transpose = each;
    }
    return b;
}

static void conversions_of_a_layer(void **state)
{
    layer_bytes fp8 = layer_of("fp8"), bf16 = layer_of("bf16");
    double added = fp8.others - bf16.others, whole = bf16.products + bf16.others;
    printf("# llama3.1-8b, a layer and microbatch: BF16 %.0f MB, of these products %.0f; FP8 %.0f, products %.0f\n",
           whole / 1e6, bf16.products / 1e6, (fp8.products + fp8.others) / 1e6, fp8.products / 1e6);
    printf("# conversions and transposed copies add %.0f MB: %.2f %% of BF16's bytes, %.2f %% of FP8's; of quantize "
           "%.0f, of transpose %.0f; of weights once a step %.0f\n",
           added / 1e6, 100 * added / whole, 100 * added / (fp8.products + fp8.others), fp8.quantize / 1e6,
           fp8.transpose / 1e6, (fp8.weights - bf16.weights) / 1e6);
    printf("# with what second kernels of norms read again, %.0f MB: %.2f %%\n", READ_AGAIN / 1e6,
           100 * (added + READ_AGAIN) / whole);
    assert_true(added > 0.0 && added <= LIMIT * whole);
    assert_true(fp8.transpose == 0.0);
}

TEST_PROGRAM("fp8_bytes", NULL, NULL, conversions_of_a_layer)
