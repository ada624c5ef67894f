/* SHA-256 against published vectors; tables of keys; allocation; limits of control groups, versions 1 and 2, read from
 * folders that look like the system's. */
#include "base/cgroup.h"
#include "base/fail.h"
#include "base/key_table.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "units/folder.h"

/* ---- SHA-256: FIPS 180-4 and NIST's long-message example, fed in pieces of every length ---- */

static const char two_blocks[] =
    "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";

static void expect(const char *message, const char *hash)
{
    char hex[SHA256_HEX];
    sha256_of(message, strlen(message), hex);
    assert_string_equal(hex, hash);
}

static void published_vectors(void **state)
{
    expect("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect(two_blocks, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void a_million_letters(void **state)
{
    char hex[SHA256_HEX], letters[1000];
    sha256 s;
    memset(letters, 'a', sizeof letters);
    sha256_open(&s);
    for (int i = 0; i < 1000; i++) sha256_add(&s, letters, sizeof letters);
    sha256_close(&s, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void pieces_of_every_length(void **state)
{
    char whole[SHA256_HEX], hex[SHA256_HEX], bytes[200];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(7 * i);
    for (size_t length = 0; length <= sizeof bytes; length++) {
        sha256_of(bytes, length, whole);
        for (size_t cut = 0; cut <= length; cut++) {
            sha256 s;
            sha256_open(&s);
            sha256_add(&s, bytes, cut);
            sha256_add(&s, bytes + cut, length - cut);
            sha256_close(&s, hex);
            assert_string_equal(hex, whole);
        }
    }
}

/* ---- a key table finds exactly what was added, by the whole key, also after it has grown ---- */

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

/* ---- allocated memory is zeroed, also 0 bytes; without memory the run ends as failed ---- */

static jmp_buf back;
static void jump(int status) { longjmp(back, status); }

static void comes_as_zeros(void **state)
{
    int64_t *x = allocate(1000, sizeof *x, "a test");
    for (int i = 0; i < 1000; i++) assert_int_equal(x[i], 0);
    x[999] = 7;
    x = reallocate(x, 2000, sizeof *x, "a test");
    assert_int_equal(x[999], 7);
    free(x);
    x = allocate(0, sizeof *x, "a test");
    assert_non_null(x);
    free(x);
}

/* In the last row the product overflows to 16 (modulo 2^64). */
static void ends_the_run(void **state)
{
    const int64_t count[] = { INT64_MAX, -1, ((int64_t)1 << 60) + 1 };
    for (volatile int i = 0; i < 6; i++) {
        int status = setjmp(back);
        if (status == 0)
            free(i % 2 ? reallocate(NULL, count[i / 2], 16, "a test") : allocate(count[i / 2], 16, "a test"));
        assert_int_equal(status, STATUS_FAILED);
    }
}

/* ---- control groups ---- */

static cgroup_limits limits(const char *own)
{
    char path[512];
    write_below("own", own);
    snprintf(path, sizeof path, "%s/own", folder);
    return cgroup_limits_of(path, folder);
}

static void version_2(void **state)
{
    write_below("memory.max", "max\n");
    write_below("a/memory.max", "1000000\n");
    write_below("a/memory.current", "900000\n");
    write_below("a/memory.stat", "anon 1\ninactive_file 200000\n");
    write_below("a/cpu.max", "50000 100000\n");
    write_below("a/b/cpu.max", "max 100000\n");
    cgroup_limits l = limits("0::/a/b\n");
    assert_true(l.memory_left == 300000.0 && l.cpus == 0.5); /* of the parent group */
    l = limits("0::/seen/from/outside\n");
    assert_true(isinf(l.memory_left) && isinf(l.cpus));
}

static void version_1(void **state)
{
    write_below("memory/x/memory.limit_in_bytes", "5000\n");
    write_below("memory/x/memory.usage_in_bytes", "1000\n");
    write_below("memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_below("memory/memory.usage_in_bytes", "77\n");
    write_below("cpu/y/cpu.cfs_quota_us", "150000\n");
    write_below("cpu/y/cpu.cfs_period_us", "100000\n");
    write_below("cpu/cpu.cfs_quota_us", "-1\n");
    write_below("cpu/cpu.cfs_period_us", "100000\n");
    cgroup_limits l = limits("5:cpu,cpuacct:/y\n4:memory:/x\n3:cpuset:/z\n");
    assert_true(l.memory_left == 4000.0 && l.cpus == 1.5);
    l = limits("no line of this kind\n:\n::\n7:memory\n");
    assert_true(isinf(l.memory_left) && isinf(l.cpus));
}

int main(void)
{
    TESTS(tests, published_vectors, a_million_letters, pieces_of_every_length, finds_every_thing_and_no_other,
          comes_as_zeros, ends_the_run, version_2, version_1);
    fail_install(jump, "base");
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
