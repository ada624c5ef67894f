/* Contents of the files. */
#include "bench/calibrate/calibration_files.h"
#include "base/memory.h"
#include "base/text.h"
#include "bench/project/listed.h"
#include "bench/record/writer.h"
#include "machine/queue/kind.h"
#include "machine/world.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the sheet ---- */

#define HEAD "# measured by ./xgsw --calibrate"

/* The bands are assumed, because in a step operands are in other caches and groups share links. A step on an H100 at
 * its power cap took 10 % longer than its operations alone (validation/measured/gpu-h100.txt). */
static void write_head(FILE *to, const calibration_data *m, const machine_sheet *base)
{
    int threads = machine_threads(MACHINE_HOST);
    double most = base ? 1.12 : 1.05;
    fprintf(to, HEAD " on %d rank%s of %s, %d thread%s each\n", world_ranks(), plural(world_ranks()), world_host(),
            threads, plural(threads));
    fprintf(to, "device %s\n", base ? base->device->name : "host");
    for (sheet_term t = 0; base && t < TERM_OPERATIONS; t++) {
        const term_entry *e = &base->term[t];
        fprintf(to, "%s %s %.6g %.6g %.6g %s in the sheet %s\n", term_name(t), term_unit(t),
                e->value[EXPECTED] / term_si(t), e->value[LEAST] / term_si(t), e->value[MOST] / term_si(t),
                origin_name(e->origin), base->name);
    }
    if (!base)
        fprintf(to, "gap us %.4g %.4g %.4g measured between small operations\n", 1e6 * m->gap, 0.5e6 * m->gap,
                2e6 * m->gap);
    fprintf(to, "operations times 1 %.3f %.3f measured alone: p10 and p90 of a rank's passes, or -5 and +%.0f %%\n",
            fmin(0.95, m->operations.p10), fmax(most, m->operations.p90), 100.0 * (most - 1.0));
    fprintf(to, "nearest times 1 0.85 1.2 assumed the rates of other shapes\n");
    fprintf(to, "transfers times 1 0.8 1.25 measured one after another, in all groups at the same time\n");
}

static bool is_listed(const listed_time *x, const listed_time *list, int count)
{
    for (int i = 0; i < count; i++)
        if (listed_same(&list[i], x)) return true;
    return false;
}

static void write_times(FILE *to, const char *word, const listed_time *list, int count)
{
    for (const listed_time *x = list; x < list + count; x++) {
        listed_write(to, word, x);
        fprintf(to, "\n");
    }
}

/* Writes the lines of the base sheet that were not measured. */
static void write_base(FILE *to, const machine_sheet *s, const calibration_data *m)
{
    for (const listed_time *x = s->operations.list; x < s->operations.list + s->operations.count; x++)
        if (!is_listed(x, m->operations.listed, m->operations.operations)) write_times(to, "op", x, 1);
    for (const listed_time *x = s->transfers.list; x < s->transfers.list + s->transfers.count; x++)
        if (!is_listed(x, m->transfers.list, m->transfers.count)) write_times(to, "transfer", x, 1);
}

static bool write_sheet(const calibration_data *m, const machine_sheet *base, const char *path)
{
    FILE *to = fopen(path, "w");
    if (!to) return false;
    write_head(to, m, base);
    write_times(to, "op", m->operations.listed, m->operations.operations);
    write_times(to, "transfer", m->transfers.list, m->transfers.count);
    if (base) write_base(to, base, m);
    bool whole = !ferror(to);
    return fclose(to) == 0 && whole;
}

/* ---- the record ---- */

static void put_operations(writer *w, const operation_table *t)
{
    const char **key = allocate(t->operations, sizeof *key, "names of operations");
    for (int i = 0; i < t->operations; i++) key[i] = t->listed[i].key;
    writer_group(w, "/operations", "NXcollection");
    writer_texts(w, "/operations/operation", key, t->operations);
    writer_table(w, "/operations/seconds", "s", t->seconds, t->operations, t->ranks);
    free(key);
}

static void put_links(writer *w, const link_table *t)
{
    int64_t *ends = allocate(2 * (int64_t)t->pairs, sizeof *ends, "pairs of ranks");
    double *seconds = allocate((int64_t)BLOCKS * t->pairs, sizeof *seconds, "seconds of pairs");
    for (int i = 0; i < t->pairs; i++) {
        ends[2 * i] = t->pair[i].a, ends[2 * i + 1] = t->pair[i].b;
        memcpy(seconds + BLOCKS * i, t->pair[i].seconds, sizeof t->pair[i].seconds);
    }
    writer_group(w, "/links", "NXcollection");
    writer_integer_table(w, "/links/ranks", ends, t->pairs, 2);
    writer_table(w, "/links/seconds", "s", seconds, t->pairs, BLOCKS);
    free(ends);
    free(seconds);
}

static void put_transfers(writer *w, const listed_times *t)
{
    const char **key = allocate(t->count, sizeof *key, "names of transfers");
    double *bytes = allocate(2 * (int64_t)t->count, sizeof *bytes, "transfers"), *seconds = bytes + t->count;
    for (int i = 0; i < t->count; i++)
        key[i] = t->list[i].key, bytes[i] = t->list[i].work, seconds[i] = t->list[i].seconds;
    writer_group(w, "/transfers", "NXcollection");
    writer_texts(w, "/transfers/transfer", key, t->count);
    writer_reals(w, "/transfers/bytes", "byte", bytes, t->count);
    writer_reals(w, "/transfers/seconds", "s", seconds, t->count);
    free(key);
    free(bytes);
}

static void put_ranks(writer *w, const rank_identity *identity, int ranks)
{
    const char **host = allocate(2 * (int64_t)ranks, sizeof *host, "hosts of ranks"), **device = host + ranks;
    for (int r = 0; r < ranks; r++) host[r] = identity[r].host, device[r] = identity[r].device;
    writer_group(w, "/ranks", "NXcollection");
    writer_texts(w, "/ranks/host", host, ranks);
    writer_texts(w, "/ranks/device", device, ranks);
    free(host);
}

static bool write_record(const calibration_data *m, const char *path, char *why, size_t length)
{
    void *bytes;
    size_t size;
    writer *w = writer_open();
    writer_attribute(w, "/", "creator", datum_text("xgsw --calibrate"));
    put_operations(w, &m->operations);
    put_links(w, &m->links);
    put_transfers(w, &m->transfers);
    put_ranks(w, m->identity, m->operations.ranks);
    if (!writer_close(w, &bytes, &size, why, length)) return false;
    FILE *to = fopen(path, "w");
    bool whole = to && fwrite(bytes, 1, size, to) == size;
    if (to) whole = fclose(to) == 0 && whole;
    if (!whole) snprintf(why, length, "%s: %s", path, strerror(errno));
    free(bytes);
    return whole;
}

bool calibration_prepare_files(const char *name, char *why, size_t length)
{
    char path[512], line[sizeof HEAD] = "";
    snprintf(path, sizeof path, "%.400s.sheet", name);
    FILE *old = fopen(path, "r"), *to = NULL;
    bool foreign = old && (!fgets(line, sizeof line, old) || strcmp(line, HEAD) != 0);
    if (old) fclose(old);
    if (foreign) snprintf(why, length, "%s exists, and no calibration wrote it: rename it or the deck", path);
    snprintf(path, sizeof path, "%.400s.exclude", name);
    if (!foreign && !(to = fopen(path, "w"))) snprintf(why, length, "%s: %s", path, strerror(errno));
    if (to) fclose(to);
    return to != NULL;
}

bool calibration_write(const calibration_data *m, const char *name, const machine_sheet *base, char *why, size_t length)
{
    char sheet[512], exclude[512], record[512];
    snprintf(sheet, sizeof sheet, "%.400s.sheet", name);
    snprintf(exclude, sizeof exclude, "%.400s.exclude", name);
    snprintf(record, sizeof record, "%.400s.calibration.h5", name);
    bool sheet_written = write_sheet(m, base, sheet);
    if (!sheet_written || !deviations_exclude(&m->deviations, m->identity, exclude)) {
        snprintf(why, length, "%s: %s", sheet_written ? exclude : sheet, strerror(errno));
        return false;
    }
    return write_record(m, record, why, length);
}
