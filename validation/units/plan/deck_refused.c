/* Compares the refusals of deck_read, on two ranks, with every row of validation/decks/refused.list. Each must take
 * well under a second of processor time. The list explains its own format. */
#include "deck_source.h"
#include <stdlib.h>
#include <time.h>

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
    assert_true(seconds < 0.5);
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

int main(void)
{
    static row rows[MOST_DECKS];
    static struct CMUnitTest tests[MOST_DECKS];
    static char line[LONGEST_ROW];
    int count = 0;
    FILE *table = fopen("validation/decks/refused.list", "r");
    while (table && fgets(line, sizeof line, table)) count = take_line(rows, count, line);
    for (int i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){ .name = rows[i].name, .test_func = is_refused, .initial_state = &rows[i] };
    if (count < 80) printf("Bail out! fewer than 80 decks in validation/decks/refused.list\n");
    return count < 80 || _cmocka_run_group_tests("refused", tests, (size_t)count, NULL, NULL);
}
