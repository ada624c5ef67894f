/* Decks made by chance: whatever the bytes and however large the numbers, the answer is cases or refusals, and both are
 * well formed. XGSW_FUZZ sets the number of decks. */
#include "base/numeric.h"
#include "deck_sound.h"
#include "deck_source.h"
#include "plan/keys/keys.h"
#include "plan/keys/names.h"
#include <stdlib.h>

typedef struct {
    uint32_t count;
} chance;

static uint32_t draw(chance *c, uint32_t below)
{
    philox_block block = { { c->count++, 0, 0, 0 } };
    return mulhi(philox4x32(block, 7, 11).word[0], below);
}

static const char *const pieces[] = { "=",
                                      " ",
                                      "\n",
                                      "#",
                                      "[",
                                      "]",
                                      "[llama3.1-8b]",
                                      "[llama3.1-405b]",
                                      "0",
                                      "1",
                                      "2",
                                      "-1",
                                      "3",
                                      "4",
                                      "7",
                                      "8",
                                      "64",
                                      "1024",
                                      "9223372036854775807",
                                      "9223372036854775808",
                                      "2147483647",
                                      "32768",
                                      "16777216",
                                      "1e-3",
                                      "1e400",
                                      "nan",
                                      "full",
                                      "small",
                                      "check",
                                      "auto",
                                      "bf16",
                                      "hostile",
                                      "none",
                                      "interleaved",
                                      "drop matmul 1 0",
                                      "\t",
                                      "\r\n",
                                      "\xC3\xA4",
                                      "\xFF",
                                      "\x01",
                                      "tensor",
                                      "optimizer" };

static void add(char *body, size_t size, const char *piece)
{
    size_t used = strlen(body);
    if (used + strlen(piece) + 1 < size) strcpy(body + used, piece);
}

/* Pieces in any order. */
static void make_soup(chance *c, char *body, size_t size)
{
    uint32_t count = draw(c, 60);
    strcpy(body, draw(c, 4) ? TITLES : "");
    for (uint32_t i = 0; i < count; i++)
        add(body, size,
            draw(c, 3) ? pieces[draw(c, sizeof pieces / sizeof pieces[0])] : key_at((key_id)draw(c, KEYS))->name);
}

/* Within the bounds: any, small, or a power of two. */
static int64_t draw_integer(chance *c, int64_t low, int64_t high)
{
    int64_t power = (int64_t)1 << draw(c, 32), any = (int64_t)draw(c, UINT32_MAX) % (high - low + 1) + low;
    int64_t pick = draw(c, 4) == 0 ? any : draw(c, 3) == 0 ? (int64_t)draw(c, 9) : power;
    return pick < low ? low : pick > high ? high : pick;
}

static void add_value(chance *c, char *body, size_t size, const key_row *row)
{
    char number[64];
    uint32_t words = 0;
    while (row->kind == KIND_WORD && row->words[words]) words++;
    snprintf(number, sizeof number, "%lld", (long long)draw_integer(c, row->low, row->high));
    add(body, size, words ? row->words[draw(c, words)] : row->kind == KIND_INTEGER ? number : "1");
}

/* A section of sound values, many of them enormous. */
static void make_section(chance *c, char *body, size_t size)
{
    strcpy(body, TITLES "[llama3.1-70b]\n");
    for (key_id key = 0; key < KEYS; key++) {
        if (!key_sweeps(key) || draw(c, 5)) continue;
        add(body, size, key_at(key)->name);
        add(body, size, " = ");
        add_value(c, body, size, key_at(key));
        add(body, size, " ");
        if (!draw(c, 9)) add_value(c, body, size, key_at(key));
        add(body, size, "\n");
    }
}

static void check_deck(const char *body, int ranks, bool dry_run)
{
    deck d = dry_run ? dry_deck_of(body, ranks) : deck_of(body, ranks);
    const char *wrong = deck_unsound(&d);
    if (wrong) fail_msg("%s", wrong);
    deck_free(&d);
}

static void run(void (*make)(chance *, char *, size_t), uint32_t seed)
{
    char body[8192];
    chance c = { seed };
    long decks = getenv("XGSW_FUZZ") ? atol(getenv("XGSW_FUZZ")) : 50000;
    for (long i = 0; i < decks; i++) {
        make(&c, body, sizeof body);
        check_deck(body, 1 + (int)draw(&c, i % 2 ? 8 : 4096), draw(&c, 2));
    }
}

static void any_pieces(void **state) { run(make_soup, 0); }
static void enormous_numbers(void **state) { run(make_section, 1u << 31); }

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(any_pieces), cmocka_unit_test(enormous_numbers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
