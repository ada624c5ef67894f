/* The default deck at every number of ranks: compares what deck_read resolves for each machine with the table
 * validation/decks/default.list. The memory of full and proxy models is measured on paper, as in a run.
 *   default_deck --write    prints the table */
#include "bench/paper/memory.h"
#include "bench/paper/paper.h"
#include "plan/catalogue/devices.h"
#include "plan/deck/deck.h"
#include "units/tests.h"

static const char *const machines[] = { "host", "H100", "B200", "GB200", "L40S" };
enum { MACHINES = 5, CASES = 14, FEW = 64, FEW_GPUS = 9, ROW = 256 };
static const int more[] = { 72, 96, 128, 256, 500, 512, 1000, 1024, 2048, 16384 },
                 few_gpus[FEW_GPUS] = { 1, 2, 4, 8, 63, 64, 500, 512, 16384 };
enum { COUNTS = FEW + sizeof more / sizeof *more, TEXT = 128 };

static int count_at(int i) { return i < FEW ? i + 1 : more[i - FEW]; }

static char deck_text[8192];

static deck deck_at(const char *name, int ranks)
{
    bool host = strcmp(name, "host") == 0;
    deck_source source = { .name = "gsw.dat",
                           .text = deck_text,
                           .length = strlen(deck_text),
                           .ranks = ranks,
                           .device = host ? NULL : name,
                           .device_bytes = device_bytes(host ? NULL : name),
                           .rank_bytes = paper_rank_bytes,
                           .dry_run = true,
                           .cuda_missing = host ? "a host" : NULL };
    deck d = deck_read(&source);
    if (d.messages) fail_msg("%s", d.message[0].line);
    assert_int_equal(d.cases, CASES);
    return d;
}

/* Writes a case without its number of ranks: size, layers, degrees, sequences of a data rank. */
static void describe(const char *name, const bench_case *c, const char *precision, char text[TEXT])
{
    const int *n = c->layout.degree;
    snprintf(text, TEXT, "%s %s %s %s %lld T%d P%d C%d E%d S%d V%d B%lld%s:", name, c->workload, precision,
             size_name(c->size), (long long)c->model.layers, n[AXIS_TENSOR], n[AXIS_PIPELINE], n[AXIS_CONTEXT],
             c->layout.expert, n[AXIS_SHARD], c->layout.chunks_per_stage,
             (long long)(c->global_batch / n[AXIS_DATA] / n[AXIS_SHARD]), c->skipped[0] ? " SKIPPED" : "");
}

/* Returns data x shard ranks that could not be used, although there are ranks for them. */
static int unused_data(const bench_case *c)
{
    int data = c->layout.degree[AXIS_DATA];
    return c->world_ranks / (c->layout.ranks / data) - data;
}

/* ---- the table: DESCRIPTION : COUNT... ; a count is N, FIRST-LAST+STEP, or N:UNUSED ---- */

/* Appends to the text. Counts with unused data ranks are in no range. */
static void list_counts(const int *count, const int *unused, int n, char *text)
{
    for (int i = 0, last; i < n; i = last + 1) {
        int step = i + 1 < n ? count[i + 1] - count[i] : 0;
        for (last = i; last + 1 < n && !unused[last] && !unused[last + 1] && count[last + 1] - count[last] == step;)
            last++;
        if (last < i + 2) last = i;
        text += unused[i]   ? sprintf(text, " %d:%d", count[i], unused[i])
                : last == i ? sprintf(text, " %d", count[i])
                            : sprintf(text, " %d-%d+%d", count[i], count[last], step);
    }
}

/* Writes the rows of one workload and precision into `rows`, in the order of their first count. Returns their number.
 */
static int rows_of(char text[COUNTS][TEXT], const int unused[COUNTS], char rows[COUNTS][ROW])
{
    int number = 0;
    for (int i = 0; i < (int)COUNTS; i++) {
        int count[COUNTS], left[COUNTS], n = 0;
        for (int j = 0; j < (int)COUNTS; j++)
            if (strcmp(text[i], text[j]) == 0) count[n] = count_at(j), left[n++] = unused[j];
        if (count[0] != count_at(i)) continue;
        list_counts(count, left, n, rows[number] + sprintf(rows[number], "%s", text[i]));
        number++;
    }
    return number;
}

/* Prints a row in lines of at most 118 columns, each with the description. */
static void print_row(const char *row)
{
    int described = (int)strcspn(row, ":") + 1, column = 119;
    for (const char *at = row + described; *at == ' ';) {
        int length = 1 + (int)strcspn(at + 1, " ");
        if (column + length > 118) {
            printf("%s%.*s", at == row + described ? "" : "\n", described, row);
            column = described;
        }
        column += printf("%.*s", length, at);
        at += length;
    }
    printf("\n");
}

/* Prints "both" in rows that BF16 and FP8 have alike. */
static void write_machine(const char *name)
{
    static char text[CASES][2][COUNTS][TEXT], rows[2][COUNTS][ROW], both[2][COUNTS][ROW];
    static int unused[CASES][COUNTS];
    for (int i = 0; i < (int)COUNTS; i++) {
        deck d = deck_at(name, count_at(i));
        for (int k = 0; k < CASES; k++) {
            const bench_case *c = &d.item[k];
            describe(name, c, precision_name(c->precision), text[k][0][i]);
            describe(name, c, "both", text[k][1][i]);
            unused[k][i] = unused_data(c);
        }
        deck_free(&d);
    }
    for (int k = 0; k < CASES; k += 2) {
        int n[2];
        for (int p = 0; p < 2; p++) {
            n[p] = rows_of(text[k + p][0], unused[k + p], rows[p]);
            rows_of(text[k + p][1], unused[k + p], both[p]);
        }
        for (int p = 0; p < 2; p++)
            for (int i = 0; i < n[p]; i++) {
                int twin = 0;
                while (twin < n[1 - p] && strcmp(both[p][i], both[1 - p][twin])) twin++;
                if (twin == n[1 - p]) print_row(rows[p][i]);
                else if (p == 0) print_row(both[p][i]);
            }
    }
}

/* Returns whether a list of counts has this one. */
static bool has_count(const char *list, int wanted, int *unused)
{
    int first, last, step, used;
    for (; sscanf(list, " %d%n", &first, &used) == 1; list += strcspn(list + 1, " \n") + 1) {
        *unused = 0;
        if (sscanf(list, " %d-%d+%d", &first, &last, &step) == 3) {
            if (wanted >= first && wanted <= last && (wanted - first) % step == 0) return true;
        } else if (first == wanted) return sscanf(list, " %d:%d", &first, unused) > 0;
    }
    return false;
}

/* Compares a case with the row of its description that has its number of ranks. */
static void compare(FILE *table, const char *name, const bench_case *c)
{
    char text[2][TEXT], line[ROW];
    int unused = -1;
    describe(name, c, precision_name(c->precision), text[0]);
    describe(name, c, "both", text[1]);
    rewind(table);
    while (unused < 0 && fgets(line, sizeof line, table))
        for (int i = 0; i < 2 && unused < 0; i++) {
            size_t length = strlen(text[i]);
            if (strncmp(line, text[i], length) || !has_count(line + length, c->world_ranks, &unused)) unused = -1;
        }
    if (unused != unused_data(c))
        fail_msg("%d ranks: %s, %d data ranks unused: not in the table", c->world_ranks, text[0], unused_data(c));
}

static bool is_asked(int m, int ranks)
{
    bool asked = m == 0 || getenv("XGSW_TEST_FULL");
    for (int i = 0; i < FEW_GPUS; i++) asked |= m == 1 && ranks == few_gpus[i];
    return asked;
}

/* On the host at every count; on GPUs in short form at nine counts of H100s. */
static void resolves_as_in_the_table(void **state)
{
    FILE *table = fopen("validation/decks/default.list", "r");
    assert_non_null(table);
    for (int m = 0; m < MACHINES; m++)
        for (int i = 0; i < (int)COUNTS; i++) {
            if (!is_asked(m, count_at(i))) continue;
            deck d = deck_at(machines[m], count_at(i));
            for (int k = 0; k < CASES; k++) compare(table, machines[m], &d.item[k]);
            deck_free(&d);
        }
    fclose(table);
}

/* The bytes that decide are those of the dry run, but for the scratch, although nothing is submitted. */
static void bytes_of_a_rank_are_those_on_paper(void **state)
{
    deck d = deck_at("H100", 8);
    for (int k = 0; k < CASES; k++) {
        paper p = paper_open(&d.item[k]);
        mesh m;
        mesh_open(&m, &d.item[k].layout, 0, MESH_PAPER);
        double scratch = (double)p.stage[0].bytes[SCRATCH], rest = (double)p.stage[0].total - scratch;
        assert_true(scratch < PAPER_SCRATCH_BYTES);
        assert_true(rest + memory_outside_estimate(&m) + PAPER_SCRATCH_BYTES == paper_rank_bytes(&d.item[k]));
        mesh_close(&m);
        paper_close(&p);
    }
    deck_free(&d);
}

static void read_deck(void)
{
    FILE *f = fopen("inputs/gsw.dat", "r");
    if (f) deck_text[fread(deck_text, 1, sizeof deck_text - 1, f)] = 0, fclose(f);
}

int main(int argc, char **argv)
{
    TESTS(tests, resolves_as_in_the_table, bytes_of_a_rank_are_those_on_paper);
    read_deck();
    if (argc < 2) return cmocka_run_group_tests(tests, NULL, NULL);
    for (int m = 0; m < MACHINES; m++) write_machine(machines[m]);
    return 0;
}
