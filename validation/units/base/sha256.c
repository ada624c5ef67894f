/* SHA-256 against the vectors of FIPS 180-4 and NIST's long-message example, fed in pieces of every length. */
#include "base/sha256.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(published_vectors), cmocka_unit_test(a_million_letters),
                                        cmocka_unit_test(pieces_of_every_length) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
