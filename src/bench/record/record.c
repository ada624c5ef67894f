/* The record keeps all finished cases in memory and writes the file anew at each commit. */
#include "bench/record/record.h"
#include "base/fail.h"
#include "bench/record/case_group.h"
#include "bench/record/provenance.h"
#include "bench/record/replace.h"
#include "bench/record/writer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_VERSION = 1 };

typedef struct {
    bench_case given;
    case_result result;                 /* arrays owned */
    char axis[TALLY_AXES][NAME_LENGTH]; /* what result.tally names */
    verdict verdict;
} kept_case;

struct record {
    char path[PATH_LENGTH]; /* links followed, so that they stay */
    bool none;
    provenance *provenance;
    int64_t planned;
    kept_case **kept;
    int64_t count;
};

static const char *verdict_name(verdict v)
{
    static const char *const names[] = { "PASSED", "FAILED", "SKIPPED" };
    return names[v];
}

const char *record_library(char *line, size_t length)
{
    writer_library(line, length);
    return line;
}

/* A target that exists must be empty or an HDF5 file: a record never replaces a deck. */
static bool may_replace(const char *path, char *reason, size_t length)
{
    static const char signature[] = "\211HDF\r\n\032\n";
    char first[8];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(first, 1, sizeof first, f) : 0;
    if (f) fclose(f);
    if (n == 0 || (n == sizeof first && memcmp(first, signature, n) == 0)) return true;
    snprintf(reason, length, "%s exists and is no HDF5 file; it is not replaced", path);
    return false;
}

record *record_open(const record_source *source, char *reason, size_t length)
{
    record *r = calloc(1, sizeof *r);
    if (!r) FAIL("out of memory for the record");
    r->none = strcmp(source->path, "none") == 0;
    r->planned = source->cases;
    char *real = realpath(source->path, NULL);
    snprintf(r->path, sizeof r->path, "%s", real ? real : source->path);
    free(real);
    if (!r->none && (!replace_possible(r->path, reason, length) || !may_replace(r->path, reason, length))) {
        free(r);
        return NULL;
    }
    r->provenance = provenance_open(source);
    return r;
}

static void *copy_bytes(const void *values, size_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);
    if (!copy) FAIL("out of memory for %zu bytes of the record", bytes);
    return bytes ? memcpy(copy, values, bytes) : copy;
}

static double *copy_reals(const double *values, int64_t count)
{
    return copy_bytes(values, (size_t)count * sizeof *values);
}

static void copy_arrays(case_result *to, const case_result *from, const bench_case *c)
{
    int64_t total = c->warmup + c->steps;
    to->loss = copy_reals(from->loss, total);
    to->gradient_norm = copy_reals(from->gradient_norm, total);
    to->learning_rate = copy_reals(from->learning_rate, total);
    to->step_seconds = copy_reals(from->step_seconds, total);
    to->rank_seconds = copy_reals(from->rank_seconds, total * c->layout.ranks);
    to->devices = copy_bytes(from->devices, (size_t)c->layout.ranks * 2 * sizeof *from->devices);
    to->spans = copy_bytes(from->spans, (size_t)from->span_count * sizeof *from->spans);
}

static kept_case *keep(const bench_case *c, const case_result *result, verdict v)
{
    kept_case *k = calloc(1, sizeof *k);
    if (!k) FAIL("out of memory for case %d of the record", c->number);
    k->given = *c;
    k->verdict = v;
    if (!result) return k;
    k->result = *result;
    k->result.given = &k->given;
    copy_arrays(&k->result, result, c);
    for (int a = 0; a < k->result.tally.axes; a++) {
        snprintf(k->axis[a], sizeof k->axis[a], "%s", result->tally.axis[a].axis);
        k->result.tally.axis[a].axis = k->axis[a];
    }
    return k;
}

static void discard(kept_case *k)
{
    result_close(&k->result);
    free(k);
}

/* Its place in the list: the old one of a case that was added before. */
static kept_case **find_place(record *r, int number)
{
    for (int64_t i = 0; i < r->count; i++)
        if (r->kept[i]->given.number == number) return &r->kept[i];
    kept_case **longer = realloc(r->kept, (size_t)(r->count + 1) * sizeof *longer);
    if (!longer) FAIL("out of memory for case %d of the record", number);
    r->kept = longer;
    r->kept[r->count] = NULL;
    return &r->kept[r->count++];
}

void record_add(record *r, const bench_case *c, const case_result *result, verdict v)
{
    if (r->none) return;
    kept_case **place = find_place(r, c->number);
    if (*place) discard(*place);
    *place = keep(c, result, v);
}

static writer_path group_of(const kept_case *k)
{
    writer_path group;
    snprintf(group.path, sizeof group.path, "/case_%04d", k->given.number);
    return group;
}

/* A case that ran has results; one that never ran has a reason. */
static void write_case(writer *w, const kept_case *k)
{
    writer_path group = group_of(k);
    bool ran = k->result.step_seconds != NULL;
    const char *why = *k->given.skipped ? k->given.skipped : k->given.not_built;
    writer_group(w, group.path, "NXentry");
    writer_attribute_text(w, group.path, "verdict", verdict_name(k->verdict));
    writer_attribute_text(w, group.path, "validity", ran && k->result.valid ? "VALID" : "NOT VALID");
    writer_attribute_text(w, group.path, "skipped", why);
    settings_write(w, group.path, &k->given);
    if (ran) results_write(w, group.path, &k->given, &k->result);
}

/* h5web follows `default` from the root to the step times of the first case that ran. */
static void write_root(writer *w, const record *r)
{
    int64_t count[VERDICT_SKIPPED + 1] = { 0 };
    const kept_case *shown = NULL;
    for (int64_t i = r->count - 1; i >= 0; i--) {
        count[r->kept[i]->verdict]++;
        if (r->kept[i]->result.step_seconds) shown = r->kept[i];
    }
    writer_attribute_text(w, "/", "NX_class", "NXroot");
    writer_attribute_text(w, "/", "creator", "xgsw");
    writer_attribute_integer(w, "/", "record_version", RECORD_VERSION);
    writer_attribute_integer(w, "/", "cases_planned", r->planned);
    writer_attribute_integer(w, "/", "passed", count[VERDICT_PASSED]);
    writer_attribute_integer(w, "/", "failed", count[VERDICT_FAILED]);
    writer_attribute_integer(w, "/", "skipped", count[VERDICT_SKIPPED]);
    if (shown) writer_attribute_text(w, "/", "default", group_of(shown).path + 1);
}

bool record_commit(record *r, char *reason, size_t length)
{
    if (r->none) return true;
    writer *w = writer_open();
    write_root(w, r);
    provenance_write(r->provenance, w);
    for (int64_t i = 0; i < r->count; i++) write_case(w, r->kept[i]);
    void *bytes;
    size_t size;
    if (!writer_close(w, &bytes, &size, reason, length)) return false;
    bool written = replace_file(r->path, bytes, size, reason, length);
    free(bytes);
    return written;
}

void record_close(record *r)
{
    if (!r) return;
    for (int64_t i = 0; i < r->count; i++) discard(r->kept[i]);
    free(r->kept);
    provenance_close(r->provenance);
    free(r);
}
