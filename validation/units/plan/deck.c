/* Valid decks: titles, sections, sweeps, defaults, line ends, echo. Refused decks: the refusals of deck_read on two
 * ranks are those of validation/decks/refused.list, which explains its own format. */
#include "base/sha256.h"
#include "deck_source.h"
#include "plan/catalogue/catalogue.h"
#include "plan/keys/keys.h"
#include <glob.h>
#include <time.h>
#include <unistd.h>

static void reads_titles_and_sections(void **state)
{
    deck d = deck_of("one # two\n[draft] three\nsteps = 7 # remark\n\n\t[llama3.1-8b]  # remark\n seed\t=\t5\n"
                     "[ llama3.1-70b ]\nsteps=9",
                     2);
    assert_int_equal(d.messages, 0);
    assert_string_equal(d.title[0], "one # two");
    assert_string_equal(d.title[1], "[draft] three");
    assert_int_equal(d.cases, 2);
    const bench_case *first = &d.item[0], *second = &d.item[1];
    assert_int_equal(first->number, 1);
    assert_int_equal(second->number, 2);
    assert_int_equal(first->line, 5);
    assert_int_equal(second->line, 7);
    assert_string_equal(first->workload, "llama3.1-8b");
    assert_string_equal(second->workload, "llama3.1-70b");
    assert_int_equal(first->steps, 7);
    assert_int_equal(second->steps, 9);
    assert_int_equal(first->seed, 5);
    assert_int_equal(second->seed, 1);
    deck_free(&d);
}

static void record_holds_for_all_wherever_it_stands(void **state)
{
    deck d = deck_of("a\nb\n[llama3.1-8b]\n[llama3.1-8b]\nrecord = a.h5\n[llama3.1-8b]\nrecord = a.h5\n", 2);
    assert_int_equal(d.messages, 0);
    assert_int_equal(d.cases, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(d.item[i].record, "a.h5");
    deck_free(&d);
}

static void knows_its_defaults(void **state)
{
    bench_case c = case_of("[llama3.1-8b]\n", 2, false);
    assert_int_equal(c.size, SIZE_SMALL);
    assert_int_equal(c.precision, PRECISION_BF16);
    assert_int_equal(c.backend, BACKEND_HOST);
    assert_string_equal(c.record, "gsw.h5");
    assert_int_equal(c.steps, 50);
    assert_int_equal(c.warmup, 0);
    assert_int_equal(c.tokens, TOKENS_UNIFORM);
    assert_int_equal(c.recompute, RECOMPUTE_NONE);
    assert_int_equal(c.sharding, SHARDING_OPTIMIZER);
    assert_int_equal(c.schedule, SCHEDULE_1F1B);
    assert_true(c.overlap);
    assert_int_equal(c.order, ORDER_SUBMITTED);
    assert_int_equal(c.order_seed, 1);
    assert_int_equal(c.check, CHECK_FULL);
    assert_int_equal(c.fault.kind, FAULT_NONE);
    assert_true(c.stall_seconds == 60.0);
    assert_int_equal(c.world_ranks, 2);
    assert_string_equal(c.skipped, "");
}

static void reads_every_kind_of_value(void **state)
{
    bench_case c =
        case_of("record = none\n[llama3.1-8b]\nsize = check\nprecision = fp32\nseed = +4294967295\nsteps = 0012\n"
                "learning_rate = 2.5E-3\nstall_seconds = .5\nfault =  flip\tmatmul 3 1 # planted\n"
                "order = hostile\norder_seed = 9\ntokens = ramp\nrecompute = mlp\nsharding = none\ncheck = off\n",
                2, false);
    assert_string_equal(c.record, "none");
    assert_int_equal(c.precision, PRECISION_FP32);
    assert_int_equal(c.seed, 4294967295u);
    assert_int_equal(c.steps, 12);
    assert_true(c.optimizer.learning_rate == 2.5e-3);
    assert_true(c.stall_seconds == 0.5);
    assert_int_equal(c.fault.kind, FAULT_FLIP);
    assert_string_equal(c.fault.operation, "matmul");
    assert_int_equal(c.fault.nth, 3);
    assert_int_equal(c.fault.rank, 1);
    assert_int_equal(c.order, ORDER_HOSTILE);
    assert_int_equal(c.order_seed, 9);
    assert_int_equal(c.tokens, TOKENS_RAMP);
    assert_int_equal(c.recompute, RECOMPUTE_MLP);
    assert_int_equal(c.sharding, SHARDING_NONE);
    assert_int_equal(c.check, CHECK_OFF);
}

/* The key that is later in the table varies faster, whatever the order in the deck. */
static void sweeps_in_table_order(void **state)
{
    deck d =
        deck_of(TITLES "seed = 3 4\n[llama3.1-8b]\ntensor = 1 2\nprecision = fp32 bf16\n[llama3.1-8b]\nseed = 9\n", 2);
    assert_int_equal(d.messages, 0);
    assert_int_equal(d.cases, 9);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(d.item[i].number, i + 1);
        assert_int_equal(d.item[i].precision, i / 4 ? PRECISION_BF16 : PRECISION_FP32);
        assert_int_equal(d.item[i].seed, 3 + i / 2 % 2);
        assert_int_equal(d.item[i].layout.degree[AXIS_TENSOR], 1 + i % 2);
        assert_int_equal(d.item[i].layout.degree[AXIS_DATA], 2 - i % 2);
    }
    assert_int_equal(d.item[8].seed, 9);
    deck_free(&d);
}

static void takes_a_thousand_cases(void **state)
{
    deck d = deck_of(
        TITLES
        "[llama3.1-8b]\nseed = 0 1 2 3 4 5 6 7 8 9\nsteps = 1 2 3 4 5 6 7 8 9 10\nwarmup = 0 1 2 3 4 5 6 7 8 9\n",
        1);
    assert_int_equal(d.messages, 0);
    assert_int_equal(d.cases, 1000);
    assert_int_equal(d.item[123].steps, 2);
    assert_int_equal(d.item[123].warmup, 2);
    assert_int_equal(d.item[123].seed, 3);
    deck_free(&d);
}

/* The FP8 scaling keys count as used if at least one case of the section (or of the sections they apply to) is FP8. */
static void fp8_keys_count_as_used_if_some_case_is_fp8(void **state)
{
    deck d = deck_of(TITLES "fp8_scale = exact\n[llama3.1-8b]\nprecision = bf16 fp8\n[llama3.1-8b]\n", 1);
    assert_int_equal(d.messages, 0);
    assert_int_equal(d.cases, 3);
    assert_int_equal(d.item[1].fp8_scale, FP8_EXACT);
    assert_int_equal(d.item[1].fp8_scaling, FP8_DELAYED);
    deck_free(&d);
}

/* Keys that no case uses are reported; a skipped case might use any. */
static void names_keys_without_effect(void **state)
{
    deck d = deck_of(
        "a\nb\nstrips = 2\n[llama3.1-8b]\ntensor = 2\ntransfer_sms = 8\n[gpt3-175b]\ntensor = 4\nshare_devices = yes\n",
        2);
    assert_int_equal(d.messages, 0);
    assert_string_equal(d.no_effect, "transfer_sms in line 6: there is no case where backend is cuda");
    deck_free(&d);
    d = deck_of("a\nb\nstrips = 2\ndeterministic = yes\n[llama3.1-8b]\n", 2);
    assert_string_equal(d.no_effect, "strips in line 3: there is no case where tensor is above 1; "
                                     "deterministic in line 4: there is no case where backend is cuda");
    deck_free(&d);
}

/* printf tender-7 | sha256sum; a seed that looks like a number is used as a number. */
static void a_word_is_a_seed(void **state)
{
    deck d = deck_of(TITLES "seed = tender-7 7\n[llama3.1-8b]\n", 1);
    assert_int_equal(d.messages, 0);
    assert_int_equal(d.item[0].seed, 0xA10A1B90u);
    assert_int_equal(d.item[1].seed, 7);
    deck_free(&d);
    d = deck_of(TITLES "seed = -1\n[llama3.1-8b]\n", 1);
    assert_int_equal(d.messages, 1);
    deck_free(&d);
}

static void reads_any_line_end_and_utf8(void **state)
{
    const char *unix_lines = "Grüße\nδεύτερος\n[llama3.1-8b]\nsteps = 3 # größer\n";
    const char *dos_lines = "Grüße\r\nδεύτερος\r\n[llama3.1-8b]\r\nsteps = 3 # größer\r\n";
    deck u = deck_of(unix_lines, 1), w = deck_of(dos_lines, 1);
    assert_int_equal(u.messages, 0);
    assert_int_equal(w.messages, 0);
    assert_string_equal(u.title[1], w.title[1]);
    assert_int_equal(w.item[0].steps, 3);
    assert_int_equal(w.item[0].line, 3);
    deck_free(&u);
    deck_free(&w);
}

static void add_echo(key_id key, const bench_case *c, char *body, size_t size)
{
    char value[KEY_TEXT];
    size_t used = strlen(body);
    key_write(key, c, value);
    snprintf(body + used, size - used, "%s = %s\n", key_at(key)->name, value);
}

/* A deck with the output of key_write gives the same case. */
static void echo_reads_back(void **state)
{
    char echo[3000] = "";
    bench_case c = case_of(
        "record = a/b.h5\nseed = tender-7\n[llama3.1-8b]\nsize = small\nprecision = fp8\nfp8_scale = exact\nfault = "
        "drop all_reduce 3 1\n"
        "learning_rate = 3.3e-4\norder = hostile\norder_seed = 7\ntensor = 2\nstall_seconds = 1.5\n"
        "expect = reference\ntolerance = 0.1\nwarmup = 2\nminutes = 1.5\nprofile = 2-4\nprofile_ranks = "
        "1-1\ncheckpoint = ck\nload = old\n",
        4, false);
    add_echo(KEY_RECORD, &c, echo, sizeof echo);
    strcat(echo, "[llama3.1-8b]\n");
    for (key_id key = 0; key < KEYS; key++)
        if (!key_is_of_run(key)) add_echo(key, &c, echo, sizeof echo);
    bench_case again = case_of(echo, 4, false);
    for (key_id key = 0; key < KEYS; key++) {
        char first[KEY_TEXT], second[KEY_TEXT];
        key_write(key, &c, first);
        key_write(key, &again, second);
        assert_string_equal(first, second);
    }
    assert_memory_equal(&c.model, &again.model, sizeof c.model);
    assert_memory_equal(&c.layout, &again.layout, sizeof c.layout);
}

/* Every key is found by its name and is the nearest key to that name. */
static void keys_are_found(void **state)
{
    for (key_id key = 0; key < KEYS; key++) {
        assert_int_equal(key_find(text_of(key_at(key)->name)), key);
        assert_int_equal(key_nearest(text_of(key_at(key)->name)), key);
        assert_true((key_at(key)->fallback == NULL) != (key_at(key)->rule == NULL));
        assert_true(key < USER_KEYS || key_at(key)->fallback);
    }
    assert_int_equal(key_find(text_of("nonsense")), KEYS);
}

static void measures_distance(void **state)
{
    assert_int_equal(text_distance(text_of("kitten"), "sitting"), 3);
    assert_int_equal(text_distance(text_of(""), "abc"), 3);
    assert_int_equal(text_distance(text_of("abc"), ""), 3);
    assert_int_equal(text_distance(text_of("flaw"), "lawn"), 2);
}

static size_t read_file(const char *path, char *into, size_t size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t length = fread(into, 1, size - 1, file);
    fclose(file);
    into[length] = '\0';
    return length;
}

/* Each deck of inputs/reference gives exactly its cells at their rank counts; all decks together give all cells. */
static void reference_decks_are_the_cells(void **state)
{
    glob_t found;
    int met = 0, decks = 0;
    assert_int_equal(glob("inputs/reference/*.dat", 0, NULL, &found), 0);
    for (int i = 0; recipe_at(i); i++) {
        const recipe_row *r = recipe_at(i);
        char path[128], body[8192];
        snprintf(path, sizeof path, "inputs/reference/%s-%s.dat", r->workload, precision_name(r->precision));
        if (access(path, R_OK)) continue;
        read_file(path, body, sizeof body);
        deck_source source = { "a.dat", body, strlen(body), .ranks = r->gpus, .device = r->gpu, .dry_run = true };
        deck d = deck_read(&source);
        assert_int_equal(d.messages, 0);
        assert_int_equal(d.cases, 1);
        const bench_case *c = &d.item[0];
        assert_string_equal(c->workload, r->workload);
        assert_int_equal(c->precision, r->precision);
        assert_int_equal(c->layout.ranks, r->gpus);
        assert_true(c->recipe_layout && !c->skipped[0]);
        assert_true(r->format ? recipe_format(c, r->gpu) == r->format : recipe_origin(c, r->gpu) == r);
        assert_true(strstr(body, "To run it"));
        met++;
        decks += i < RECIPE_CELLS && (i == 0 || strcmp(recipe_at(i - 1)->workload, r->workload) ||
                                      recipe_at(i - 1)->precision != r->precision);
        deck_free(&d);
    }
    assert_int_equal(met, RECIPE_CELLS + NEWER_ROWS);
    assert_int_equal(found.gl_pathc, decks);
    globfree(&found);
}

/* The shipped decks can be read on a few ranks, those of the recipes on any number. */
static void shipped_decks_are_read(void **state)
{
    glob_t found;
    assert_int_equal(glob("inputs/*.dat", 0, NULL, &found), 0);
    assert_int_equal(glob("inputs/reference/*.dat", GLOB_APPEND, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char body[65536];
        read_file(found.gl_pathv[i], body, sizeof body);
        int most = strstr(body, "global_batch =") ? 4 : 4096;
        for (int ranks = 1; ranks <= most; ranks *= 2) {
            deck run = deck_of(body, ranks), dry = dry_deck_of(body, ranks);
            if (run.messages) fail_msg("%s, %d ranks: %s", found.gl_pathv[i], ranks, run.message[0].line);
            if (dry.messages) fail_msg("%s, %d ranks: %s", found.gl_pathv[i], ranks, dry.message[0].line);
            assert_int_equal(run.cases, dry.cases);
            deck_free(&run);
            deck_free(&dry);
        }
    }
    globfree(&found);
}

/* ---- refused decks ---- */

enum { LARGEST = 2 << 20, MOST_DECKS = 400, LONGEST_ROW = 4096 };

typedef struct {
    char name[64], deck[LONGEST_ROW], said[LONGEST_ROW];
} row;

/* Writes text as bytes and returns their end. Resolves escapes. In a repetition, number replaces each #. */
static char *write_bytes(char *to, const char *text, const char *end, int number)
{
    while (text < end) {
        if (*text == '\\' && text[1] == 'x') {
            *to++ = (char)strtol((char[]){ text[2], text[3], '\0' }, NULL, 16);
            text += 4;
        } else if (*text == '\\') {
            *to++ = '\n';
            text += 2;
        } else if (*text == '#' && number >= 0) {
            to += sprintf(to, "%d", number);
            text++;
        } else {
            *to++ = *text++;
        }
    }
    return to;
}

/* Writes text with its repetitions, plus a zero byte. Returns the number of bytes without it. */
static size_t expand(const char *text, char *into)
{
    char *to = into;
    for (const char *open; (open = strchr(text, '{')) != NULL;) {
        const char *inside = strchr(open, ':') + 1, *close = strchr(inside, '}');
        int first, last;
        to = write_bytes(to, text, open, -1);
        assert_int_equal(sscanf(open, "{%d-%d:", &first, &last), 2);
        for (int number = first; number <= last; number++) to = write_bytes(to, inside, close, number);
        text = close + 1;
    }
    to = write_bytes(to, text, text + strlen(text), -1);
    *to = '\0';
    return (size_t)(to - into);
}

static size_t deck_bytes(const char *text, char *into)
{
    const char *titles = *text == '$' || *text == '@' ? "title\ntitle\n" : "";
    const char *section = *text == '@' ? "[llama3.1-8b]\n" : "";
    size_t before = (size_t)sprintf(into, "%s%s", titles, section);
    return before + expand(text + (*titles != '\0'), into + before);
}

/* Returns the processor time of SHA-256 of the longest deck, which measures how fast this processor is. */
static double yardstick(void)
{
    static double seconds;
    static char bytes[LARGEST];
    char hex[SHA256_HEX];
    if (seconds > 0.0) return seconds;
    clock_t start = clock();
    sha256_of(bytes, sizeof bytes, hex);
    return seconds = (double)(clock() - start + 1) / CLOCKS_PER_SEC;
}

/* A refusal takes at most ten times the yardstick (the largest seen on an Intel Xeon with AMX: 0.53 of it). Reading
 * that is quadratic in the length of the deck would take hundreds. */
static void is_refused(void **state)
{
    const row *wanted = *state;
    char *bytes = malloc(LARGEST), *said = malloc(LARGEST), *got = calloc(1, LARGEST), *end = got;
    deck_source source = {
        .name = "", .text = bytes, .length = deck_bytes(wanted->deck, bytes), .ranks = 2, .cuda_missing = "REASON"
    };
    strcpy(said + expand(wanted->said, said), "\n");
    clock_t start = clock();
    deck d = deck_read(&source);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    for (int i = 0; i < d.messages; i++) end += sprintf(end, "%s\n", d.message[i].line + 1);
    assert_string_equal(got, said);
    assert_true(d.messages > 0);
    assert_int_equal(d.cases, 0);
    assert_null(d.item);
    assert_true(seconds < 10.0 * yardstick());
    free(bytes);
    free(said);
    free(got);
}

/* Adds a line of the table to the rows and returns the number of rows. */
static int take_line(row *rows, int count, char *line)
{
    char *text = line + strspn(line, " "), *bar = strstr(line, " |");
    row *last = &rows[count - 1];
    text[strcspn(text, "\n")] = '\0';
    if (*text == '\0' || *line == '#') return count;
    if (text > line && *text == '|') {
        strcat(*last->said ? last->said : last->deck, text + 2);
    } else if (text > line) {
        strcat(strcat(last->said, *last->said ? "\\n" : ""), text);
    } else {
        snprintf(rows[count].name, sizeof rows->name, "%.*s", (int)(bar - line), line);
        strcpy(rows[count++].deck, bar + 2 + strspn(bar + 2, " "));
    }
    return count;
}

/* Reads the table into rows and returns their number. */
static int read_table(row *rows)
{
    static char line[LONGEST_ROW];
    int count = 0;
    FILE *table = fopen("validation/decks/refused.list", "r");
    while (table && fgets(line, sizeof line, table)) count = take_line(rows, count, line);
    if (table) fclose(table);
    return count;
}

int main(void)
{
    static row rows[MOST_DECKS];
    static struct CMUnitTest tests[MOST_DECKS + 20];
    TESTS(valid, reads_titles_and_sections, record_holds_for_all_wherever_it_stands, knows_its_defaults,
          reads_every_kind_of_value, sweeps_in_table_order, takes_a_thousand_cases,
          fp8_keys_count_as_used_if_some_case_is_fp8, names_keys_without_effect, a_word_is_a_seed,
          reads_any_line_end_and_utf8, echo_reads_back, keys_are_found, measures_distance,
          reference_decks_are_the_cells, shipped_decks_are_read);
    int count = read_table(rows);
    size_t others = sizeof valid / sizeof *valid;
    if (count < 80) return printf("Bail out! fewer than 80 decks in validation/decks/refused.list\n"), 1;
    memcpy(tests, valid, sizeof valid);
    for (int i = 0; i < count; i++)
        tests[others + (size_t)i] =
            (struct CMUnitTest){ .name = rows[i].name, .test_func = is_refused, .initial_state = &rows[i] };
    return _cmocka_run_group_tests("deck", tests, others + (size_t)count, NULL, NULL);
}
