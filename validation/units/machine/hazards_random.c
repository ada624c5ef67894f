/* Compares the hazard checker with an oracle, the explicit happens-before graph, on random programs. */
#include "base/numeric.h"
#include "machine/queue/hazard.h"
#include "units/test_length.h"
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

enum { PROGRAMS = 30000, PROGRAMS_LONG = 100000, LONGEST = 48, BYTES = 64 };

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

static void wait_for(program *p, int on, int target)
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
        if (age < p->steps) wait_for(p, (int)roll(d, (uint32_t)p->queues), p->steps - 1 - age);
    }
}

/* Adds a wait for each collision, but forgets one in `forgetful`. */
static void needed_waits(program *p, dice *d, const step *x, uint32_t forgetful)
{
    for (int i = p->steps - 1; i >= 0; i--)
        if (collisions(p, x) >> i & 1 && roll(d, forgetful)) wait_for(p, x->on, i);
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
    int64_t hazards = 0, programs = test_is_long() ? PROGRAMS_LONG : PROGRAMS;
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(checker_and_oracle_agree) };
    mallopt(M_MMAP_THRESHOLD, 1 << 18); /* as in world_start: most clocks of a new checker are never touched */
    return cmocka_run_group_tests_name("hazards_random", tests, NULL, NULL);
}
