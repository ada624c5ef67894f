/* Attention with all ranks as context ranks, in both precisions. Checks outputs, statistics and gradients of the local
 * positions; equal bits in every hostile order; no hazard; and equal attention flops on every rank, which add up to the
 * flops of the whole. The reference is the same code on one rank with the whole sequence, so an error common to all
 * sizes is not found here: validation/units/machine/operations/operations_attention.c tests attention itself. */
#include "model/attention.h"
#include "parallel/zigzag.h"
#include "units/machine/fabric_ranks.h"

/* piece: positions per piece; then batch rows, heads, kv heads, head dim */
typedef struct {
    int64_t piece, b, heads, kv, d;
} shape;
static const shape shapes[] = {
    { 1, 1, 1, 1, 2 }, { 5, 2, 4, 2, 6 }, { 35, 1, 2, 1, 18 }, { 64, 1, 2, 2, 16 }, { 70, 2, 3, 1, 64 }
};
enum { SHAPES = sizeof shapes / sizeof *shapes, SEEDS = 6 };

/* One forward and backward pass over some positions of the sequence. qkv and d_qkv are fused like the slots. */
typedef struct {
    tensor qkv, out, lse, d_out, d_qkv;
    int64_t q, kv;
} problem;

static tensor own(tensor t)
{
    t.data = bytes_of(tensor_span(&t));
    return t;
}

static problem problem_open(const shape *n, int64_t positions, dtype type, dtype results)
{
    int64_t all = n->heads + 2 * n->kv;
    return (problem){ .q = n->heads,
                      .kv = n->kv,
                      .qkv = own(tensor_4d(NULL, type, positions, n->b, all, n->d)),
                      .out = own(tensor_4d(NULL, results, positions, n->b, n->heads, n->d)),
                      .lse = own(tensor_3d(NULL, F32, n->b, n->heads, positions)),
                      .d_out = own(tensor_4d(NULL, type, positions, n->b, n->heads, n->d)),
                      .d_qkv = own(tensor_4d(NULL, results, positions, n->b, all, n->d)) };
}

static void problem_close(problem *p)
{
    tensor *all[] = { &p->qkv, &p->out, &p->lse, &p->d_out, &p->d_qkv };
    for (int i = 0; i < 5; i++) free(all[i]->data);
}

/* Fills local position p with the values of sequence position `at`. Every rank computes the same values. */
static void fill_position(tensor x, int64_t p, int64_t at, uint32_t number)
{
    int64_t row = x.dim[1] * x.dim[2] * x.dim[3];
    for (int64_t i = 0; i < row; i++) {
        philox_block counter = { { (uint32_t)(at * row + i), number, 0, 0 } };
        value_set(x.type, x.data, p * row + i, (double)philox4x32(counter, 3, 5).word[0] * 0x1p-31 - 1.0);
    }
}

static void fill_problem(problem *p, const zigzag *z)
{
    for (int64_t i = 0; i < p->qkv.dim[0]; i++) {
        fill_position(p->qkv, i, zigzag_position(z, i), 1);
        fill_position(p->d_out, i, zigzag_position(z, i), 2);
    }
}

/* The backward pass gets the output and the statistics of the caller. */
static attention_operands operands_of(const problem *p, const shape *n, tensor out, tensor lse)
{
    return (attention_operands){ .q = tensor_slice(p->qkv, 2, 0, p->q),
                                 .kv = tensor_slice(p->qkv, 2, p->q, 2 * p->kv),
                                 .out = out,
                                 .lse = lse,
                                 .d_out = p->d_out,
                                 .dq = tensor_slice(p->d_qkv, 2, 0, p->q),
                                 .d_kv = tensor_slice(p->d_qkv, 2, p->q, 2 * p->kv),
                                 .scale = (float)(1.0 / sqrt((double)n->d)) };
}

/* Runs forward and backward twice, like successive layers: what the first call leaves in memory must not matter. */
static void submit_attention(context_attention *x, const shape *n, const problem *p, tensor out, tensor lse)
{
    attention_operands forward = operands_of(p, n, p->out, p->lse), backward = operands_of(p, n, out, lse);
    for (int i = 0; i < 4; i++) {
        context_attention_gather(x, forward.kv);
        if (i >= 2) context_attention_clear(x);
        if (i < 2) context_attention_forward(x, &forward);
        else context_attention_backward(x, &backward);
    }
    context_attention_forward(x, &forward);
}

typedef struct {
    double forward_flops, backward_flops;
    int64_t hazards;
} found;

/* Measures memory and scratch on paper, then runs with exactly these sizes. The backward pass gets out and lse. */
static found run(const shape *n, const problem *p, group *g, bool narrow, tensor out, tensor lse,
                 machine_options options)
{
    found f = { 0 };
    arena a;
    context_attention x;
    group back = group_reversed(g);
    size_t bytes = 0, scratch_bytes[HAZARD_QUEUES] = { 0 };
    options.world_rank = world_rank();
    for (int pass = 0; pass < 2; pass++) {
        char *memory = bytes_of(bytes), *scratch[HAZARD_QUEUES];
        options.on_paper = pass == 0;
        machine *m = machine_open(&options);
        queues l = queues_open(m, true, true);
        arena_open(&a, pass ? memory : NULL, bytes);
        uint64_t sequence = g->sequence;
        context_attention_open(&x, &l, (group *[]){ g, &back }, operands_of(p, n, out, lse).kv, narrow, &a);
        int count = machine_queues(m);
        for (int i = 0; i < count; i++)
            queue_set_scratch(machine_queue_at(m, i), scratch[i] = bytes_of(scratch_bytes[i]), scratch_bytes[i]);
        submit_attention(&x, n, p, out, lse);
        machine_sync(m);
        if (pass == 0) {
            preparation needed = machine_prepared(m);
            memcpy(scratch_bytes, needed.scratch, sizeof scratch_bytes);
            preparation_free(&needed);
            g->sequence = sequence;
            back.sequence = 0;
        }
        f.forward_flops = machine_tally(m)->kind[OP_ATTENTION_FORWARD].flops;
        f.backward_flops = machine_tally(m)->kind[OP_ATTENTION_BACKWARD].flops;
        f.hazards += machine_hazards(m)->count;
        bytes = a.used;
        machine_close(m);
        free(memory);
        for (int i = 0; i < count; i++) free(scratch[i]);
    }
    return f;
}

/* Runs the whole sequence on this rank. Results are FP32; the backward pass gets the output rounded to the type. */
static problem whole_of(const shape *n, dtype type, tensor *rounded)
{
    group g = group_line("context", world_rank(), 1, 1, 0);
    zigzag z = zigzag_of(&g, n->piece * 2 * world_ranks());
    problem p = problem_open(n, z.length, type, F32);
    *rounded = own(tensor_4d(NULL, type, z.length, n->b, n->heads, n->d));
    memset(rounded->data, 0, tensor_span(rounded));
    fill_problem(&p, &z);
    run(n, &p, &g, false, *rounded, p.lse, (machine_options){ 0 });
    for (int64_t i = 0; i < tensor_elements(rounded); i++)
        value_set(type, rounded->data, i, value_at(F32, p.out.data, i));
    run(n, &p, &g, false, *rounded, p.lse, (machine_options){ 0 });
    return p;
}

static double largest(tensor x)
{
    double most = 0.0;
    for (int64_t i = 0; i < tensor_elements(&x); i++) most = fmax(most, fabs(value_at(x.type, x.data, i)));
    return most;
}

/* Compares local rows of `got` with rows of `want`, whose dimension 0 is the position. The tolerance is `roundings`
 * FP32 roundings of the largest element, plus one rounding of the result. */
static bool rows_agree(tensor got, tensor want, const zigzag *z, double roundings, double scale)
{
    int64_t row = tensor_elements(&got) / got.dim[0];
    double round = got.type == BF16 ? 0x1p-8 : 0x1p-24;
    for (int64_t i = 0; i < tensor_elements(&got); i++) {
        double x = value_at(got.type, got.data, i),
               y = value_at(F32, want.data, zigzag_position(z, i / row) * row + i % row);
        if (!(fabs(x - y) <= round * fabs(y) + roundings * 0x1p-24 * scale)) {
            print_message("# element %lld: %.9g, on one rank %.9g\n", (long long)i, x, y);
            return false;
        }
    }
    return true;
}

/* Returns the place of local position p's statistics in a row of heads: by piece, on one rank all together. */
static int64_t statistics_place(tensor lse, int64_t row, int64_t p)
{
    int64_t pieces = world_ranks() > 1 ? 2 : 1, length = lse.dim[2] / pieces, rows = lse.dim[0] * lse.dim[1];
    return (p / length * rows + row) * length + p % length;
}

static bool statistics_agree(tensor got, tensor want, const zigzag *z, double roundings)
{
    int64_t local = got.dim[2], whole = want.dim[2];
    bool agree = true;
    for (int64_t row = 0; row < got.dim[0] * got.dim[1]; row++)
        for (int64_t p = 0; p < local; p++) {
            double x = value_at(F32, got.data, statistics_place(got, row, p)),
                   y = value_at(F32, want.data, row * whole + zigzag_position(z, p));
            agree = agree && fabs(x - y) <= roundings * 0x1p-24 * fmax(1.0, largest(want));
        }
    return agree;
}

/* Returns the rows of the whole at the local positions. */
static tensor local_rows(tensor whole, const zigzag *z)
{
    tensor t = own(tensor_4d(NULL, whole.type, z->length, whole.dim[1], whole.dim[2], whole.dim[3]));
    size_t row = tensor_span(&t) / (size_t)z->length;
    for (int64_t p = 0; p < z->length; p++)
        memcpy((char *)t.data + (size_t)p * row, (char *)whole.data + (size_t)zigzag_position(z, p) * row, row);
    return t;
}

static tensor local_statistics(tensor whole, const zigzag *z)
{
    tensor t = own(tensor_3d(NULL, F32, whole.dim[0], whole.dim[1], z->length));
    for (int64_t row = 0; row < whole.dim[0] * whole.dim[1]; row++)
        for (int64_t p = 0; p < z->length; p++)
            ((float *)t.data)[statistics_place(t, row, p)] =
                ((float *)whole.data)[row * whole.dim[2] + zigzag_position(z, p)];
    return t;
}

/* Checks the flops of causal attention (half of the square; two products forward, four backward) for three forwards and
 * two backwards. Every rank has an equal share. */
static bool flops_are_balanced(const found *f, const shape *n, int ranks)
{
    double s = (double)(2 * ranks * n->piece), product = s * s * (double)(n->b * n->heads * n->d);
    return f->forward_flops == 3 * 2 * product / ranks && f->backward_flops == 2 * 4 * product / ranks;
}

static bool same_bytes(const problem *a, const problem *b)
{
    return !memcmp(a->out.data, b->out.data, tensor_span(&a->out)) &&
           !memcmp(a->lse.data, b->lse.data, tensor_span(&a->lse)) &&
           !memcmp(a->d_qkv.data, b->d_qkv.data, tensor_span(&a->d_qkv));
}

/* Roundings: both sides have the error that validation/units/machine/operations/operations_attention.c allows for
 * attention (24 forward, 60 backward). A gradient is the sum of two calls on each rank. With `narrow` each rank's sum
 * is rounded to BF16, by half a unit, assumed to be at most twice the largest gradient. */
static void check_shape(const shape *n, dtype type, bool narrow, test_group *t)
{
    int ranks = world_ranks();
    zigzag z = zigzag_of(&t->g, n->piece * 2 * ranks);
    tensor rounded;
    problem whole = whole_of(n, type, &rounded), part = problem_open(n, z.length, type, type),
            again = problem_open(n, z.length, type, type);
    tensor out = local_rows(rounded, &z), lse = local_statistics(whole.lse, &z);
    double forward = 2 * 24, backward = 2 * 60 + 2 * ranks + (narrow ? ranks * 2 * 0x1p15 : 0.0),
           scale = fmax(largest(whole.d_qkv), 1.0);
    fill_problem(&part, &z);
    fill_problem(&again, &z);
    found f = run(n, &part, &t->g, narrow, out, lse, (machine_options){ .prove_access = true });
    assert_on_all(f.hazards == 0, "piece %lld: hazards", (long long)n->piece);
    assert_on_all(flops_are_balanced(&f, n, ranks), "piece %lld: attention flops", (long long)n->piece);
    assert_on_all(rows_agree(part.out, whole.out, &z, forward, 1.0), "piece %lld: output", (long long)n->piece);
    assert_on_all(statistics_agree(part.lse, whole.lse, &z, forward), "piece %lld: statistics", (long long)n->piece);
    assert_on_all(rows_agree(part.d_qkv, whole.d_qkv, &z, backward, scale), "piece %lld: gradients",
                  (long long)n->piece);
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        f = run(n, &again, &t->g, narrow, out, lse,
                (machine_options){ .hostile = true, .order_seed = 10 * seed + (uint32_t)world_rank() });
        assert_on_all(f.hazards == 0 && same_bytes(&part, &again), "piece %lld: hostile order %u", (long long)n->piece,
                      seed);
    }
    problem *all[] = { &whole, &part, &again };
    tensor *views[] = { &rounded, &out, &lse };
    for (int i = 0; i < 3; i++) problem_close(all[i]), free(views[i]->data);
}

static void check_type(dtype type, bool narrow)
{
    test_group t;
    group_open(&t, "context", 0, 1, world_ranks());
    for (int i = 0; i < SHAPES; i++) check_shape(&shapes[i], type, narrow, &t);
    group_close(&t);
}

static void fp32(void **state) { check_type(F32, false); }
static void bf16(void **state) { check_type(BF16, false); }
static void bf16_narrow(void **state) { check_type(BF16, true); }

/* Every position occurs once, ascending on each rank, and every rank attends to equally many keys. */
static void zigzag_covers(void **state)
{
    for (int ranks = 1; ranks <= 9; ranks++) {
        int64_t sequence = 2 * ranks * 7, seen = 0, before = 0;
        for (int rank = 0; rank < ranks; rank++) {
            zigzag z = zigzag_of(&(group){ .size = ranks, .rank = rank }, sequence);
            int64_t keys = 0, last = -1;
            for (int64_t p = 0; p < z.length; p++) {
                int64_t at = zigzag_position(&z, p);
                assert_true(at > last && at < sequence);
                keys += at + 1;
                seen += at;
                last = at;
            }
            assert_true(z.length * ranks == sequence && (rank == 0 || keys == before));
            before = keys;
        }
        assert_int_equal(seen, sequence * (sequence - 1) / 2);
    }
}

WORLD_PROGRAM("context", NULL, NULL, zigzag_covers, fp32, bf16, bf16_narrow)
