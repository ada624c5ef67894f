/* Families as tables: the expected recomputed steps and kept slots under every recompute policy, and the assumptions of
 * the step runner about every family. */
#include "model/family.h"
#include "units/tests.h"

enum { POLICIES = RECOMPUTE_ATTENTION_ELEMENTWISE + 1 };

/* Returns the names of the steps and slots whose bit is set, in the order of the table. */
typedef struct {
    char text[256];
} names;

static void add_name(names *n, const char *name) { snprintf(strchr(n->text, 0), 32, " %s", name); }

static names names_of_steps(const family *f, unsigned steps)
{
    names n = { "" };
    for (int i = 0; i < f->layer.count; i++)
        if (steps >> i & 1u) add_name(&n, f->layer.step[i].name);
    return n;
}

static names names_of_slots(const family *f, slot_set slots)
{
    names n = { "" };
    for (int i = SLOT_INPUT; i < f->slots; i++)
        if (slots & slot_bit(i)) add_name(&n, f->slot[i].name);
    return n;
}

typedef struct {
    const char *again, *kept;
} recomputed;

static void check_policies(const family *f, const recomputed expected[POLICIES])
{
    for (int policy = 0; policy < POLICIES; policy++) {
        recomputing r = recomputing_of(f, (recompute_mask)policy, false);
        assert_string_equal(names_of_steps(f, r.again).text, expected[policy].again);
        assert_string_equal(names_of_slots(f, r.kept).text, expected[policy].kept);
    }
}

static void llama_runs_again_and_keeps(void **state)
{
    static const recomputed expected[POLICIES] = {
        [RECOMPUTE_NONE] = { "", " x n1 rstd1 qkv o lse x2 n2 rstd2 gate_up a" },
        [RECOMPUTE_ATTENTION] = { " attention", " x n1 rstd1 qkv x2 n2 rstd2 gate_up a" },
        [RECOMPUTE_MLP] = { " gate_up swiglu", " x n1 rstd1 qkv o lse x2 n2 rstd2" },
        [RECOMPUTE_ATTENTION_MLP] = { " attention_norm attention mlp_norm gate_up swiglu", " x qkv y1" },
        [RECOMPUTE_LAYER] = { " attention_norm qkv rope attention attention_output mlp_norm gate_up swiglu", " x" },
        [RECOMPUTE_ELEMENTWISE] = { " attention_norm mlp_norm swiglu", " x qkv o lse y1 gate_up" },
        [RECOMPUTE_ATTENTION_ELEMENTWISE] = { " attention_norm attention mlp_norm swiglu", " x qkv y1 gate_up" },
    };
    check_policies(&llama, expected);
}

static void nemotron_runs_again_and_keeps(void **state)
{
    static const recomputed expected[POLICIES] = {
        [RECOMPUTE_NONE] = { "", " x n1 moments1 qkv o lse x2 n2 moments2 up a" },
        [RECOMPUTE_ATTENTION] = { " attention", " x n1 moments1 qkv x2 n2 moments2 up a" },
        [RECOMPUTE_MLP] = { " up squared_relu", " x n1 moments1 qkv o lse x2 n2 moments2" },
        [RECOMPUTE_ATTENTION_MLP] = { " attention_norm attention mlp_norm up squared_relu", " x qkv y1" },
        [RECOMPUTE_LAYER] = { " attention_norm qkv rope attention attention_output mlp_norm up squared_relu", " x" },
        [RECOMPUTE_ELEMENTWISE] = { " attention_norm mlp_norm squared_relu", " x qkv o lse y1 up" },
        [RECOMPUTE_ATTENTION_ELEMENTWISE] = { " attention_norm attention mlp_norm squared_relu", " x qkv y1 up" },
    };
    check_policies(&nemotron, expected);
}

/* FP8: products keep FP8 values of their input, and the same steps run again. The values are kept as rows if a product
 * runs again and the step before it does not. Policies share a line if their mask drops nothing more. */
static void codes_are_kept(const family *f, recompute_mask policy, const char *values, const char *codes,
                           const char *rows)
{
    recomputing r = recomputing_of(f, policy, true);
    assert_string_equal(names_of_steps(f, r.again).text,
                        names_of_steps(f, recomputing_of(f, policy, false).again).text);
    assert_string_equal(names_of_slots(f, r.kept).text, values);
    assert_string_equal(names_of_slots(f, r.kept >> SLOTS_MOST).text, codes);
    assert_string_equal(names_of_slots(f, r.kept_as_rows >> SLOTS_MOST).text, rows);
}

static void llama_and_grok_keep_codes(void **state)
{
    codes_are_kept(&llama, RECOMPUTE_NONE, " x rstd1 qkv o lse x2 rstd2 gate_up", " n1 o n2 a", "");
    codes_are_kept(&llama, RECOMPUTE_MLP, " x rstd1 qkv o lse x2 rstd2", " n1 o n2", " n2");
    codes_are_kept(&llama, RECOMPUTE_ATTENTION_MLP, " x qkv y1", "", "");
    codes_are_kept(&llama, RECOMPUTE_LAYER, " x", "", "");
    codes_are_kept(&llama, RECOMPUTE_ELEMENTWISE, " x qkv o lse y1 gate_up", " o", "");
    codes_are_kept(&grok, RECOMPUTE_NONE,
                   " x rstd1 qkv o lse x2 n2 rstd2 router chosen weighted placed sources routed gate_up returned",
                   " n1 o dispatched a", "");
}

/* A step's input was made before it (if gathered: by the step just before it). A step saves its own output. */
static void check_list(const step_list *l)
{
    slot_set made = slot_bit(SLOT_INPUT);
    for (int i = 0; i < l->count; i++) {
        const layer_step *s = &l->step[i];
        assert_int_equal(step_reads(s) & ~made, 0);
        assert_int_equal(step_saves(s) & ~(step_reads(s) | step_makes(s)), 0);
        if (s->kind->gathers) assert_true(i > 0 && step_makes(s - 1) & slot_bit(s->reads[0]));
        made |= step_makes(s);
    }
}

/* The runner starts a gathering in the backward of a row-parallel product: each has exactly one gathering. */
static void check_gatherings(const step_list *l)
{
    bool wanted = false;
    for (int i = 0; i < l->count; i++) {
        if (l->step[i].kind->gathers) {
            assert_false(wanted);
            wanted = true;
        } else if (l->step[i].kind == &row_product) {
            assert_true(wanted);
            wanted = false;
        }
    }
    assert_false(wanted);
}

static void check_family(const family *f)
{
    check_list(&f->layer);
    check_list(&f->head);
    check_gatherings(&f->layer);
    assert_true(f->slots <= SLOTS_MOST && f->layer.count <= 32);
    assert_int_equal((slot_bit(f->sum) | slot_bit(f->delta)) & ~list_makes(&f->layer), 0);
    for (int i = SLOT_INPUT; i < f->slots; i++) {
        int owner = f->slot[i].gradient;
        assert_non_null(f->slot[i].shape);
        if (owner > SLOT_INPUT) assert_int_equal(f->slot[owner].gradient, owner);
        if (owner > SLOT_INPUT) assert_ptr_equal(f->slot[owner].shape, f->slot[i].shape);
    }
    assert_false(f->slot[SLOT_INPUT].dropped);
}

static void tables_are_sound(void **state)
{
    check_family(&llama);
    check_family(&nemotron);
    check_family(&gpt3);
    check_family(&grok);
}

TEST_PROGRAM("family", NULL, NULL, llama_runs_again_and_keeps, nemotron_runs_again_and_keeps, llama_and_grok_keep_codes,
             tables_are_sound)
