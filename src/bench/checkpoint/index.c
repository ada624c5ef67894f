/* Writing and reading the index. */
#include "bench/checkpoint/index.h"
#include "base/memory.h"
#include "base/replace.h"
#include "bench/record/reader.h"
#include "bench/record/writer.h"
#include "machine/world.h"
#include "model/fp8.h"
#include "plan/keys/keys.h"
#include "plan/model/check_case.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { INDEX_VERSION = 1 };

/* Keys that must be equal in the deck that saved and in the deck that loads. The workload must be equal too. */
static const key_id compared_keys[] = { KEY_PRECISION, KEY_FP8_SCALE,  KEY_FP8_SCALING,  KEY_SEED, KEY_TOKENS,
                                        KEY_SEQUENCE,  KEY_LAYERS,     KEY_HIDDEN,       KEY_FFN,  KEY_HEADS,
                                        KEY_KV_HEADS,  KEY_VOCABULARY, KEY_LEARNING_RATE };
enum { COMPARED_KEYS = sizeof compared_keys / sizeof *compared_keys };

/* Columns of the table of fragments: the members of saved_fragment. */
static const char *const columns[FRAGMENT_COLUMNS] = { "parameter",
                                                       "block",
                                                       "rank",
                                                       "first_row",
                                                       "first_column",
                                                       "columns",
                                                       "first",
                                                       "count",
                                                       "weight_at",
                                                       "first_moment_at",
                                                       "second_moment_at",
                                                       "weight_bytes",
                                                       "first_moment_bytes",
                                                       "second_moment_bytes",
                                                       "weight_sum",
                                                       "weight_places",
                                                       "first_moment_sum",
                                                       "first_moment_places",
                                                       "second_moment_sum",
                                                       "second_moment_places" };

void index_free(checkpoint_index *x)
{
    free(x->fragment);
    free(x->amax);
    free(x->columns);
    *x = (checkpoint_index){ 0 };
}

/* ---- saving ---- */

/* Saves the filled rows of the history: one of the calibration and one for each step. */
static void read_amaxes(checkpoint_index *x, const trainer *t)
{
    const fp8_state *f = &t->stage.work.fp8;
    if (!tensor_present(&f->history)) return;
    int64_t tensors = tensor_elements(&f->amax), rows = x->step + 1 < FP8_HISTORY ? x->step + 1 : FP8_HISTORY;
    int32_t *amaxes = allocate(FP8_HISTORY * tensors, sizeof *amaxes, "the history of FP8");
    machine_read(t->machine, amaxes, f->history);
    x->amaxes = rows * tensors;
    x->amax = allocate(x->amaxes, sizeof *x->amax, "the history of FP8");
    for (int64_t i = 0; i < x->amaxes; i++) x->amax[i] = amaxes[i];
    free(amaxes);
}

checkpoint_index index_gather(const trainer *t, const own_fragments *own, int64_t step)
{
    checkpoint_index x = { .step = step };
    double most = (double)own->count;
    world_maximum(&most, 1);
    int64_t slots = (int64_t)most, written = 0;
    saved_fragment *part = allocate(slots, sizeof *part, "the fragments of a checkpoint");
    for (int64_t i = 0; i < own->count; i++)
        if (own->list[i].writes) part[written++] = own->list[i].saved;
    saved_fragment *all = x.fragment = world_gather(part, (size_t)slots * sizeof *part);
    free(part);
    if (!all) return x;
    for (int64_t i = 0; i < slots * world_ranks(); i++)
        if (all[i].count) all[x.fragments++] = all[i];
    qsort(all, (size_t)x.fragments, sizeof *all, fragment_order);
    x.rate = t->rate;
    read_amaxes(&x, t);
    return x;
}

/* Takes names and shapes from the parameter table of the case on one rank, where no parameter is cut. */
static void write_parameters(writer *w, checkpoint_index *x, const bench_case *c)
{
    mesh m;
    arena a;
    param_table t;
    bench_case uncut = single_rank_case(c, false);
    mesh_open_alone(&m, 0);
    arena_open(&a, NULL, 0);
    param_table_open(&t, &uncut, &m, &a);
    const char **name = allocate(t.rows, sizeof *name, "names of parameters");
    int64_t *rows = allocate(t.rows, sizeof *rows, "rows of parameters");
    x->parameters = t.rows;
    x->columns = allocate(t.rows, sizeof *x->columns, "columns of parameters");
    for (int i = 0; i < t.rows; i++)
        name[i] = t.row[i].name, rows[i] = t.row[i].rule.rows, x->columns[i] = t.row[i].rule.columns;
    writer_group(w, "/parameters", "NXcollection");
    writer_texts(w, "/parameters/name", name, t.rows);
    writer_integers(w, "/parameters/rows", "1", rows, t.rows);
    writer_integers(w, "/parameters/columns", "1", x->columns, t.rows);
    free(name);
    free(rows);
    param_table_close(&t);
    mesh_close(&m);
}

static void write_settings(writer *w, const checkpoint_index *x, const bench_case *c)
{
    char word[KEY_TEXT];
    writer_attribute(w, "/", "creator", datum_text("xgsw checkpoint"));
    writer_attribute(w, "/", "version", datum_integer(INDEX_VERSION));
    writer_attribute(w, "/", "step", datum_integer(x->step));
    writer_attribute(w, "/", "rate_warmup", datum_integer(x->rate.warmup));
    writer_attribute(w, "/", "rate_steps", datum_integer(x->rate.total));
    writer_attribute(w, "/", "workload", datum_text(c->workload));
    for (int i = 0; i < COMPARED_KEYS; i++) {
        key_write(compared_keys[i], c, word);
        writer_attribute(w, "/", key_at(compared_keys[i])->name, datum_text(word));
    }
}

bool index_write(checkpoint_index *x, const bench_case *c, const char *folder, char reason[CHECKPOINT_SENTENCE])
{
    char path[FOLDER_LENGTH], sum[FOLDER_LENGTH], line[SHA256_HEX + 16];
    void *bytes;
    size_t length;
    writer *w = writer_open();
    write_settings(w, x, c);
    write_parameters(w, x, c);
    writer_integer_table(w, "/fragments", (const int64_t *)(const void *)x->fragment, x->fragments, FRAGMENT_COLUMNS);
    writer_attribute_texts(w, "/fragments", "columns", columns, FRAGMENT_COLUMNS);
    writer_integers(w, "/amax_history", "1", x->amax, x->amaxes);
    if (!writer_close(w, &bytes, &length, reason, CHECKPOINT_SENTENCE)) return false;
    sha256_of(bytes, length, x->sha256);
    folder_index(path, sum, folder);
    int text = snprintf(line, sizeof line, "%s  index.h5\n", x->sha256);
    bool written = replace_file(path, bytes, length, reason, CHECKPOINT_SENTENCE) &&
                   replace_file(sum, line, (size_t)text, reason, CHECKPOINT_SENTENCE);
    free(bytes);
    return written;
}

/* ---- loading ---- */

static bool matches_case(const checkpoint_index *x, reader *r, const bench_case *c, char reason[CHECKPOINT_SENTENCE])
{
    char saved[KEY_TEXT] = "", now[KEY_TEXT];
    for (int i = -1; i < COMPARED_KEYS; i++) {
        const char *name = i < 0 ? "workload" : key_at(compared_keys[i])->name;
        if (i < 0) snprintf(now, sizeof now, "%s", c->workload);
        else key_write(compared_keys[i], c, now);
        if (reader_text(r, name, saved, sizeof saved) && strcmp(saved, now) == 0) continue;
        snprintf(reason, CHECKPOINT_SENTENCE, "%s was saved with %s %.200s, but the deck has %.200s", x->folder, name,
                 saved, now);
        return false;
    }
    return true;
}

static bool read_lists(checkpoint_index *x, reader *r, char reason[CHECKPOINT_SENTENCE])
{
    int64_t numbers = 0;
    x->fragment = (saved_fragment *)(void *)reader_integers(r, "/fragments", &numbers);
    x->amax = reader_integers(r, "/amax_history", &x->amaxes);
    x->columns = reader_integers(r, "/parameters/columns", &x->parameters);
    x->fragments = numbers / FRAGMENT_COLUMNS;
    if (x->fragment && x->amax && x->columns && reader_integer(r, "step", &x->step) &&
        reader_integer(r, "rate_warmup", &x->rate.warmup) && reader_integer(r, "rate_steps", &x->rate.total))
        return true;
    snprintf(reason, CHECKPOINT_SENTENCE, "the index of %s lacks a list", x->folder);
    return false;
}

static bool read_index(checkpoint_index *x, void *bytes, size_t length, const bench_case *c,
                       char reason[CHECKPOINT_SENTENCE])
{
    int64_t version = 0;
    reader *r = reader_open(bytes, length);
    bool known = r && reader_integer(r, "version", &version) && version == INDEX_VERSION;
    if (!known)
        snprintf(reason, CHECKPOINT_SENTENCE, "the index of %s has version %lld of its format; this program reads %d",
                 x->folder, (long long)version, INDEX_VERSION);
    bool read = known && matches_case(x, r, c, reason) && read_lists(x, r, reason);
    if (r) reader_close(r);
    return read;
}

static bool is_intact(const checkpoint_index *x, const char *path, const char *sum, char reason[CHECKPOINT_SENTENCE])
{
    char saved[SHA256_HEX] = "";
    FILE *file = fopen(sum, "re");
    bool read = file && fgets(saved, sizeof saved, file);
    if (file) fclose(file);
    if (read && strcmp(saved, x->sha256) == 0) return true;
    snprintf(reason, CHECKPOINT_SENTENCE, read ? "%s is damaged: its SHA-256 is not the one in %s" : "%s has no %s",
             path, sum);
    return false;
}

bool index_read(checkpoint_index *x, const bench_case *c, const char *parent, char reason[CHECKPOINT_SENTENCE])
{
    char path[FOLDER_LENGTH], sum[FOLDER_LENGTH];
    size_t length = 0;
    bool found = folder_newest(parent, x->folder), read = false;
    folder_index(path, sum, x->folder);
    void *bytes = found ? read_whole(path, &length) : NULL;
    if (bytes) sha256_of(bytes, length, x->sha256);
    if (access(parent, R_OK | X_OK) != 0)
        snprintf(reason, CHECKPOINT_SENTENCE, "cannot read the folder %s: %s", parent, strerror(errno));
    else if (!found) snprintf(reason, CHECKPOINT_SENTENCE, "%s has no complete checkpoint (step-*/index.h5)", parent);
    else if (!bytes) snprintf(reason, CHECKPOINT_SENTENCE, "%s is not an HDF5 file of xgsw", path);
    else if (is_intact(x, path, sum, reason)) read = read_index(x, bytes, length, c, reason);
    free(bytes);
    return read;
}

static void *broadcast_list(void *list, int64_t count, size_t bytes)
{
    if (world_rank() != 0) list = allocate(count, bytes, "the index of a checkpoint");
    world_broadcast(list, (size_t)count * bytes, 0);
    return list;
}

void index_broadcast(checkpoint_index *x)
{
    checkpoint_index own = *x;
    world_broadcast(x, sizeof *x, 0);
    x->fragment = broadcast_list(own.fragment, x->fragments, sizeof *x->fragment);
    x->amax = broadcast_list(own.amax, x->amaxes, sizeof *x->amax);
    x->columns = broadcast_list(own.columns, x->parameters, sizeof *x->columns);
}

const saved_fragment *index_find(const checkpoint_index *x, const saved_fragment *of, int64_t *count)
{
    const saved_fragment *end = x->fragment + x->fragments,
                         *first = bsearch(of, x->fragment, (size_t)x->fragments, sizeof *first, fragment_order);
    *count = 0;
    while (first && first > x->fragment && fragment_order(first - 1, of) == 0) first--;
    while (first && first + *count < end && fragment_order(first + *count, of) == 0) ++*count;
    return first;
}
