/* The hazard checker: its sentences, its counts, and what it forgets; and ordering and overlap in random programs,
 * compared with an oracle, the explicit happens-before graph. */
#include "base/numeric.h"
#include "machine/queue/submit.h"
#include "units/test_length.h"
#include "units/tests.h"
#include <malloc.h>

enum { QUEUES = 4, OLD = 1 << 14 }; /* OLD: operations per queue whose clocks are kept */

static char memory[1 << 12];
static hazard *checker;
static uint64_t serial[QUEUES];

static int open_checker(void **state)
{
    checker = hazard_open();
    memset(serial, 0, sizeof serial);
    return 0;
}

static int close_checker(void **state)
{
    hazard_close(checker);
    return 0;
}

static tensor bytes(int64_t begin, int64_t end) { return tensor_1d(memory + begin, F64, (end - begin) / 8); }

/* Submits the next operation of the queue, with one or two operands. Returns its serial. */
static uint64_t submit_two(int on, const char *name, operand first, operand second)
{
    op o = { .kind = OP_COPY,
             .operands = 2,
             .operand = { first, second },
             .origin = { .step = -1, .microbatch = -1, .chunk = -1, .layer = -1, .name = name } };
    hazard_submit(checker, on, ++serial[on], &o);
    return serial[on];
}

static uint64_t touch(int on, const char *name, access_mode how, int64_t begin, int64_t end)
{
    return submit_two(on, name, (operand){ bytes(begin, end), how }, (operand){ tensor_none(), READ });
}

/* Lets queue `on` wait for an operation of queue `target`. */
static void wait_for(int on, int target, uint64_t operation)
{
    vector_clock past = hazard_past(checker, target, operation);
    hazard_follow(checker, on, &past);
}

static uint64_t reads(int on, const char *name) { return touch(on, name, READ, 0, 64); }
static uint64_t writes(int on, const char *name) { return touch(on, name, WRITE, 0, 64); }
static int64_t found(void) { return hazard_read(checker)->count; }
static const char *sentence(int i) { return hazard_read(checker)->sentence[i]; }

static void missing_wait_is_named(void **state)
{
    writes(0, "first");
    reads(1, "second");
    assert_int_equal(found(), 1);
    assert_string_equal(sentence(0), "copy first (setup) and copy second (setup) touch the same bytes unordered");
}

static void hazard_ordered_says_what_a_wait_would_change(void **state)
{
    uint64_t a = writes(0, "a"), b = writes(0, "b");
    assert_false(hazard_ordered(checker, 1, 0, a));
    wait_for(1, 0, a);
    assert_true(hazard_ordered(checker, 1, 0, a));
    assert_false(hazard_ordered(checker, 1, 0, b));
    uint64_t c = touch(1, "c", READ, 64, 72);
    wait_for(2, 1, c);
    assert_true(hazard_ordered(checker, 2, 0, a));
    assert_true(hazard_ordered(checker, 0, 0, b));
}

/* A view with gaps counts as the range from its first to its last byte. */
static void views_count_as_bounding_ranges(void **state)
{
    tensor matrix = tensor_2d(memory, F64, 4, 8);
    submit_two(0, "column", (operand){ tensor_slice(matrix, 1, 2, 1), WRITE }, (operand){ tensor_none(), READ });
    touch(1, "before it", WRITE, 0, 16);
    touch(1, "after it", WRITE, (3 * 8 + 3) * 8, 256);
    assert_int_equal(found(), 0);
    touch(1, "last byte", WRITE, (3 * 8 + 2) * 8, 256);
    assert_int_equal(found(), 1);
    touch(2, "between", READ, 24, 32);
    assert_int_equal(found(), 2);
}

static void nothing_is_touched_by_no_elements(void **state)
{
    writes(0, "a");
    touch(1, "empty", WRITE, 8, 8);
    submit_two(1, "absent", (operand){ tensor_none(), WRITE }, (operand){ tensor_none(), UPDATE });
    assert_int_equal(found(), 0);
}

static void pass_time(int on, int64_t operations)
{
    for (int64_t i = 0; i < operations; i++) touch(on, "idle", READ, 1024, 1032);
}

/* The clock of the operation `age` before the last is exact while it is kept. Later less is known: a correct program
 * may be reported, but no hazard is missed. */
static void old_marks_stay_sound(void **state)
{
    static const int64_t ages[] = { 0, 1, OLD - 2, OLD - 1, OLD, OLD + 1, 2 * OLD, 2 * OLD + 1 };
    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++) {
        close_checker(NULL);
        open_checker(NULL);
        wait_for(1, 0, touch(0, "behind the mark", WRITE, 0, 64));
        uint64_t marked = touch(1, "mark", WRITE, 64, 128);
        uint64_t later = touch(0, "later", WRITE, 128, 192);
        pass_time(1, ages[i] / 2);
        wait_for(1, 0, later);
        pass_time(1, ages[i] - ages[i] / 2);
        wait_for(2, 1, marked);
        touch(2, "after the mark", READ, 64, 128);
        assert_int_equal(found(), 0);
        touch(2, "behind the mark too", READ, 0, 64);
        assert_int_equal(found(), ages[i] >= OLD);
        touch(2, "not ordered by the mark", READ, 128, 192);
        assert_int_equal(found(), 1 + (ages[i] >= OLD));
    }
}

static void sentences_are_few_but_all_are_counted(void **state)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j" };
    for (int i = 0; i < 20; i++) {
        touch(0, names[i / 2], WRITE, 8 * i, 8 * i + 8);
        touch(1, names[i / 2], WRITE, 8 * i, 8 * i + 8);
        assert_int_equal(hazard_read(checker)->sentences, i / 2 < HAZARD_SENTENCES ? i / 2 + 1 : HAZARD_SENTENCES);
    }
    assert_int_equal(found(), 20);
}

/* A machine on paper with queues, for the same tests with fillers and marks. */
static machine *paper(queue *q[3])
{
    machine_options options = { .on_paper = true };
    machine *m = machine_open(&options);
    for (int i = 0; i < 3; i++) q[i] = machine_queue(m, "queue");
    return m;
}

static void a_machine_checks_what_passes(void **state)
{
    queue *q[3];
    machine *m = paper(q);
    tensor x = tensor_1d(memory, F32, 16), y = tensor_1d(memory + 64, F32, 16);
    queue_wait(q[1], submit(q[0], "x", fill_op(x, 1.0)));
    mark copied = submit(q[1], "y", copy_op(y, WRITE, x));
    assert_int_equal(machine_hazards(m)->count, 0);
    machine_origin(m, (origin){ .step = 3, .microbatch = 1, .chunk = -1, .layer = 5, .phase = PHASE_BACKWARD });
    submit(q[0], "x", fill_op(x, 2.0));
    assert_string_equal(
        machine_hazards(m)->sentence[0],
        "copy y (setup) and fill x (step 3, microbatch 1, layer 5, backward) touch the same bytes unordered");
    machine_sync(m);
    submit(q[2], "x", fill_op(x, 3.0));
    mark_sync(copied);
    assert_int_equal(machine_hazards(m)->count, 1);
    machine_close(m);
}

/* ---- random programs ---- */

enum { PROGRAMS = 5000, PROGRAMS_FULL = 30000, PROGRAMS_LONG = 100000, LONGEST = 48, BYTES = 64 };

typedef struct {
    uint32_t program, draws;
} dice;

static uint32_t roll(dice *d, uint32_t sides)
{
    philox_block counter = { { d->draws++, d->program, 0, 0 } };
    return mulhi(philox4x32(counter, 17, 23).word[0], sides);
}

/* One step reads or writes up to three ranges. `before`: the steps of its program that happen before it. */
typedef struct {
    int on;
    uint64_t serial, before;
    int operands;
    int64_t begin[3], end[3];
    bool writes[3];
} step;

typedef struct {
    step step[LONGEST];
    int steps;
    int queues;
    uint64_t follows[HAZARD_QUEUES]; /* what the next step of each queue follows */
    uint64_t colliding;              /* unordered steps that collide with the last one */
} program;

/* The checker is reused for the next program, after a join of all queues, until it has found a hazard. */
static struct {
    hazard *checker;
    uint64_t serial[HAZARD_QUEUES];
} under_test;

static void wait_in(program *p, int on, int target)
{
    const step *x = &p->step[target];
    vector_clock past = hazard_past(under_test.checker, x->on, x->serial);
    hazard_follow(under_test.checker, on, &past);
    p->follows[on] |= x->before | 1ull << target;
}

static bool collide(const step *a, const step *b)
{
    for (int i = 0; i < a->operands; i++)
        for (int j = 0; j < b->operands; j++)
            if ((a->writes[i] || b->writes[j]) && a->begin[i] < b->end[j] && b->begin[j] < a->end[i]) return true;
    return false;
}

/* Returns the earlier steps that collide with this one and do not happen before it. */
static uint64_t collisions(const program *p, const step *x)
{
    uint64_t found = 0;
    for (int i = 0; i < p->steps; i++)
        if (!(p->follows[x->on] >> i & 1) && collide(&p->step[i], x)) found |= 1ull << i;
    return found;
}

static step random_step(const program *p, dice *d)
{
    step x = { .on = (int)roll(d, (uint32_t)p->queues), .operands = 1 + (int)roll(d, 3) };
    for (int i = 0; i < x.operands; i++) {
        x.begin[i] = roll(d, BYTES - 4);
        x.end[i] = x.begin[i] + 1 + roll(d, roll(d, 4) ? 4 : (uint32_t)(BYTES - x.begin[i]));
        if (x.end[i] > BYTES) x.end[i] = BYTES;
        x.writes[i] = roll(d, 4) == 0;
    }
    return x;
}

/* One byte of the oracle is one I32 of the checker, at paper addresses. */
static op op_of(const step *x, int number)
{
    op o = { .kind = OP_COPY,
             .operands = x->operands,
             .origin = { .step = number, .microbatch = -1, .chunk = -1, .layer = -1, .name = "x" } };
    for (int i = 0; i < x->operands; i++)
        o.operand[i] = (operand){ tensor_1d((void *)(uintptr_t)(4096 + 4 * x->begin[i]), I32, x->end[i] - x->begin[i]),
                                  !x->writes[i]     ? READ
                                  : x->begin[i] % 2 ? WRITE
                                                    : UPDATE };
    return o;
}

static void submit_step(program *p, step x)
{
    op o = op_of(&x, p->steps);
    p->colliding = collisions(p, &x);
    x.before = p->follows[x.on];
    x.serial = ++under_test.serial[x.on];
    hazard_submit(under_test.checker, x.on, x.serial, &o);
    p->follows[x.on] |= 1ull << p->steps;
    p->step[p->steps++] = x;
}

/* Returns whether every sentence names the last step and a step that the oracle reports. */
static bool sentences_are_true(const program *p)
{
    const hazard_report *r = hazard_read(under_test.checker);
    for (int i = 0; i < r->sentences; i++) {
        int first = -1, second = -1;
        if (sscanf(r->sentence[i], "copy x (step %d, setup) and copy x (step %d, setup)", &first, &second) != 2)
            return false;
        if (second != p->steps - 1 || !(p->colliding >> first & 1)) return false;
    }
    return true;
}

static void join(program *p)
{
    hazard_join(under_test.checker);
    for (int q = 0; q < HAZARD_QUEUES; q++) p->follows[q] = (1ull << p->steps) - 1;
}

/* Adds arbitrary waits for recent or old steps. */
static void random_waits(program *p, dice *d)
{
    for (uint32_t i = roll(d, 3); i > 0 && p->steps; i--) {
        int age = (int)roll(d, roll(d, 3) ? 4 : LONGEST);
        if (age < p->steps) wait_in(p, (int)roll(d, (uint32_t)p->queues), p->steps - 1 - age);
    }
}

/* Adds a wait for each collision, but forgets one in `forgetful`. */
static void needed_waits(program *p, dice *d, const step *x, uint32_t forgetful)
{
    for (int i = p->steps - 1; i >= 0; i--)
        if (collisions(p, x) >> i & 1 && roll(d, forgetful)) wait_in(p, x->on, i);
}

/* Runs a program up to its first hazard. Returns whether checker and oracle agree at every step. */
static bool agree(uint32_t number, bool *hazardous)
{
    static const uint32_t forgets[] = { 5, 30, 200, 10000 };
    dice d = { number, 0 };
    program p = { .queues = 2 + (int)roll(&d, 3) };
    uint32_t forgetful = forgets[roll(&d, 4)];
    bool same = true;
    *hazardous = false;
    if (!under_test.checker) under_test.checker = hazard_open();
    hazard_join(under_test.checker);
    while (same && !*hazardous && p.steps < LONGEST) {
        random_waits(&p, &d);
        if (roll(&d, 40) == 0) join(&p);
        step x = random_step(&p, &d);
        needed_waits(&p, &d, &x, forgetful);
        submit_step(&p, x);
        *hazardous = p.colliding != 0;
        same = (hazard_read(under_test.checker)->count > 0) == *hazardous && sentences_are_true(&p);
    }
    if (*hazardous || !same) {
        hazard_close(under_test.checker);
        memset(&under_test, 0, sizeof under_test);
    }
    return same;
}

static void checker_and_oracle_agree(void **state)
{
    int64_t hazards = 0, programs = test_is_long() ? PROGRAMS_LONG : test_is_full() ? PROGRAMS_FULL : PROGRAMS;
    for (uint32_t i = 0; i < programs; i++) {
        bool hazardous;
        if (!agree(i, &hazardous)) fail_msg("program %u: the checker and the happens-before graph differ", i);
        hazards += hazardous;
    }
    print_message("# %lld programs, %lld with a hazard\n", (long long)programs, (long long)hazards);
    assert_in_range(hazards, programs / 4, programs - programs / 4);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_checker, close_checker)
    const struct CMUnitTest tests[] = {
        CASE(missing_wait_is_named),          CASE(hazard_ordered_says_what_a_wait_would_change),
        CASE(views_count_as_bounding_ranges), CASE(nothing_is_touched_by_no_elements),
        CASE(old_marks_stay_sound),           CASE(sentences_are_few_but_all_are_counted),
        CASE(a_machine_checks_what_passes),   cmocka_unit_test(checker_and_oracle_agree),
    };
    mallopt(M_MMAP_THRESHOLD, 1 << 18); /* as in world_start: most clocks of a new checker are never touched */
    return cmocka_run_group_tests_name("hazards", tests, NULL, NULL);
}
