/* A key table finds exactly the entries that were added, by the whole key, also after it has grown. */
#include "base/key_table.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

enum { THINGS = 5000 };
typedef struct {
    int64_t key[3];
    int number;
} thing;

/* Makes keys that differ in one word only; every word in turn. */
static void name(thing *x, int number)
{
    *x = (thing){ .key = { 7, 7, 7 }, .number = number };
    x->key[number % 3] = 8 + number / 3;
}

static void finds_every_thing_and_no_other(void **state)
{
    (void)state;
    key_table t = { .key_bytes = sizeof(((thing *)0)->key) };
    thing *all = calloc(THINGS, sizeof *all), other;
    assert_non_null(all);
    for (int i = 0; i < THINGS; i++) {
        name(&all[i], i);
        assert_null(key_table_find(&t, all[i].key));
        key_table_add(&t, &all[i]);
    }
    assert_int_equal(t.used, THINGS);
    for (int i = 0; i < THINGS; i++) {
        name(&other, i);
        assert_ptr_equal(key_table_find(&t, other.key), &all[i]);
        other.key[(i + 1) % 3] = -1;
        assert_null(key_table_find(&t, other.key));
    }
    free(t.slot);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(finds_every_thing_and_no_other) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
