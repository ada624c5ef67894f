/* The index. Its lists are columns of integers: a column of each member of a block or fragment. */
#include "bench/checkpoint/index.h"
#include "base/memory.h"
#include "base/replace.h"
#include "bench/record/reader.h"
#include "bench/record/writer.h"
#include "machine/world.h"
#include "model/fp8.h"
#include "plan/keys/keys.h"
#include <stdio.h>
#include <string.h>

enum { INDEX_VERSION = 1 };

/* What must be the same in the deck that loads. The name of the workload, too. */
static const key_id same[] = { KEY_PRECISION, KEY_FP8_SCALE,  KEY_FP8_SCALING,  KEY_SEED, KEY_TOKENS,
                               KEY_SEQUENCE,  KEY_LAYERS,     KEY_HIDDEN,       KEY_FFN,  KEY_HEADS,
                               KEY_KV_HEADS,  KEY_VOCABULARY, KEY_LEARNING_RATE };
enum { SAME = sizeof same / sizeof *same };

typedef struct {
    const char *name;
    size_t offset;
} column;
#define SUM_COLUMNS(type)                                                                                              \
    { "weight_bits", offsetof(type, sum[0][0]) }, { "weight_places", offsetof(type, sum[0][1]) },                      \
        { "first_moment_bits", offsetof(type, sum[1][0]) }, { "first_moment_places", offsetof(type, sum[1][1]) },      \
        { "second_moment_bits", offsetof(type, sum[2][0]) },                                                           \
    {                                                                                                                  \
        "second_moment_places", offsetof(type, sum[2][1])                                                              \
    }
static const column block_columns[] = { { "parameter", offsetof(saved_block, logical) },
                                        { "block", offsetof(saved_block, block) },
                                        { "first_row", offsetof(saved_block, first_row) },
                                        { "rows", offsetof(saved_block, rows) },
                                        { "columns", offsetof(saved_block, columns) },
                                        { "weight_bytes", offsetof(saved_block, bytes[0]) },
                                        { "first_moment_bytes", offsetof(saved_block, bytes[1]) },
                                        { "second_moment_bytes", offsetof(saved_block, bytes[2]) },
                                        SUM_COLUMNS(saved_block) };
static const column fragment_columns[] = { { "parameter", offsetof(saved_fragment, logical) },
                                           { "block", offsetof(saved_fragment, block) },
                                           { "rank", offsetof(saved_fragment, rank) },
                                           { "first_row", offsetof(saved_fragment, first_row) },
                                           { "first_column", offsetof(saved_fragment, first_column) },
                                           { "columns", offsetof(saved_fragment, columns) },
                                           { "first", offsetof(saved_fragment, first) },
                                           { "count", offsetof(saved_fragment, count) },
                                           { "weight_at", offsetof(saved_fragment, at[0]) },
                                           { "first_moment_at", offsetof(saved_fragment, at[1]) },
                                           { "second_moment_at", offsetof(saved_fragment, at[2]) },
                                           SUM_COLUMNS(saved_fragment) };
typedef struct {
    const char *group;
    const column *column;
    int columns;
    size_t bytes; /* of an entry */
} table;
#define TABLE(group, list, type)                                                                                       \
    {                                                                                                                  \
        group, list, sizeof list / sizeof *list, sizeof(type)                                                          \
    }
static const table blocks_table = TABLE("blocks", block_columns, saved_block),
                   fragments_table = TABLE("fragments", fragment_columns, saved_fragment);

/* ---- gathering ---- */

/* What a rank tells of a fragment: also the block that it is a part of. */
typedef struct {
    saved_fragment of;
    int64_t rows, columns; /* of the whole parameter; 0: no fragment */
    int64_t bytes[STATES];
    char name[sizeof((param *)0)->name];
} told_fragment;

static int by_block(const void *a, const void *b)
{
    const told_fragment *x = a, *y = b;
    if ((x->rows == 0) != (y->rows == 0)) return x->rows == 0 ? 1 : -1;
    return fragment_order(&x->of, &y->of);
}

static told_fragment *tell(const own_fragments *own, int64_t *most)
{
    double count = 0.0;
    for (int64_t i = 0; i < own->count; i++) count += own->list[i].counts;
    world_maximum(&count, 1);
    *most = (int64_t)count;
    told_fragment *told = allocate(*most, sizeof *told, "the fragments of a checkpoint"), *to = told;
    for (int64_t i = 0; i < own->count; i++) {
        const own_fragment *o = &own->list[i];
        if (!o->counts) continue;
        *to = (told_fragment){ .of = o->of, .rows = o->p->rule.rows, .columns = o->p->rule.columns };
        for (int s = 0; s < STATES; s++) to->bytes[s] = (int64_t)dtype_bytes(state_of(o->b, (saved_state)s).type);
        snprintf(to->name, sizeof to->name, "%s", o->p->name);
        to++;
    }
    told_fragment *all = world_gather(told, (size_t)*most * sizeof *told);
    free(told);
    return all;
}

static void add_block(checkpoint_index *x, const told_fragment *f)
{
    int64_t rows = block_rows(f->columns), first = f->of.block * rows, left = f->rows - first;
    saved_block *b = &x->block[x->blocks];
    *b = (saved_block){ .logical = f->of.logical,
                        .block = f->of.block,
                        .first_row = first,
                        .rows = left < rows ? left : rows,
                        .columns = f->columns };
    memcpy(b->bytes, f->bytes, sizeof b->bytes);
    snprintf(x->name[x->blocks++], sizeof x->name[0], "%s", f->name);
}

static void add_fragment(checkpoint_index *x, const told_fragment *f)
{
    if (!x->fragments || fragment_order(&x->fragment[x->fragments - 1], &f->of) != 0) add_block(x, f);
    x->fragment[x->fragments++] = f->of;
    for (int s = 0; s < STATES; s++)
        for (int i = 0; i < SUMS; i++) x->block[x->blocks - 1].sum[s][i] += f->of.sum[s][i];
}

/* Rows of the history that steps have filled: one for each and the calibration's. */
static void read_amaxes(checkpoint_index *x, const trainer *t)
{
    const fp8_state *f = &t->stage.work.fp8;
    if (!tensor_present(&f->history)) return;
    int64_t tensors = tensor_elements(&f->amax), rows = x->step + 1 < FP8_HISTORY ? x->step + 1 : FP8_HISTORY;
    int32_t *past = allocate(FP8_HISTORY * tensors, sizeof *past, "the history of FP8");
    machine_read(t->machine, past, f->history);
    x->amaxes = rows * tensors;
    x->amax = allocate(x->amaxes, sizeof *x->amax, "the history of FP8");
    for (int64_t i = 0; i < x->amaxes; i++) x->amax[i] = past[i];
    free(past);
}

checkpoint_index index_gather(const trainer *t, const own_fragments *own, int64_t step)
{
    checkpoint_index x = { .step = step };
    int64_t most;
    told_fragment *all = tell(own, &most);
    if (t) x.rate = t->rate;
    if (!all) return x;
    int64_t room = most * world_ranks();
    qsort(all, (size_t)room, sizeof *all, by_block);
    x.fragment = allocate(room, sizeof *x.fragment, "the index of a checkpoint");
    x.block = allocate(room, sizeof *x.block, "the index of a checkpoint");
    x.name = allocate(room, sizeof *x.name, "the index of a checkpoint");
    for (int64_t i = 0; i < room && all[i].rows; i++) add_fragment(&x, &all[i]);
    free(all);
    read_amaxes(&x, t);
    return x;
}

void index_free(checkpoint_index *x)
{
    free(x->block);
    free(x->fragment);
    free(x->name);
    free(x->amax);
    *x = (checkpoint_index){ 0 };
}

/* ---- writing ---- */

static void write_table(writer *w, const table *t, const void *entries, int64_t count)
{
    char folder[32];
    snprintf(folder, sizeof folder, "/%s", t->group);
    writer_group(w, folder, "NXcollection");
    int64_t *values = allocate(count, sizeof *values, "a column of the index");
    for (int k = 0; k < t->columns; k++) {
        for (int64_t i = 0; i < count; i++)
            memcpy(&values[i], (const char *)entries + (size_t)i * t->bytes + t->column[k].offset, sizeof *values);
        writer_integers(w, writer_join(folder, t->column[k].name).path, "1", values, count);
    }
    free(values);
}

static void write_names(writer *w, const checkpoint_index *x)
{
    const char **name = allocate(x->blocks, sizeof *name, "the names of parameters");
    for (int64_t i = 0; i < x->blocks; i++) name[i] = x->name[i];
    writer_texts(w, "/blocks/name", name, x->blocks);
    free(name);
}

static void write_settings(writer *w, const checkpoint_index *x, const bench_case *c)
{
    char word[KEY_TEXT];
    writer_attribute(w, "/", "creator", datum_text("xgsw checkpoint"));
    writer_attribute(w, "/", "checkpoint_version", datum_integer(INDEX_VERSION));
    writer_attribute(w, "/", "step", datum_integer(x->step));
    writer_attribute(w, "/", "rate_warmup", datum_integer(x->rate.warmup));
    writer_attribute(w, "/", "rate_steps", datum_integer(x->rate.total));
    writer_attribute(w, "/", "workload", datum_text(c->workload));
    for (int i = 0; i < SAME; i++) {
        key_write(same[i], c, word);
        writer_attribute(w, "/", key_at(same[i])->name, datum_text(word));
    }
}

bool index_write(checkpoint_index *x, const bench_case *c, const char *folder, char reason[CHECKPOINT_SENTENCE])
{
    char path[FOLDER_LENGTH], line[SHA256_HEX + 16];
    void *bytes;
    size_t length;
    writer *w = writer_open();
    write_settings(w, x, c);
    write_table(w, &blocks_table, x->block, x->blocks);
    write_names(w, x);
    write_table(w, &fragments_table, x->fragment, x->fragments);
    writer_integers(w, "/amax_history", "1", x->amax, x->amaxes);
    if (!writer_close(w, &bytes, &length, reason, CHECKPOINT_SENTENCE)) return false;
    sha256_of(bytes, length, x->sha256);
    folder_index(path, folder);
    bool written = replace_file(path, bytes, length, reason, CHECKPOINT_SENTENCE);
    free(bytes);
    int text = snprintf(line, sizeof line, "%s  index.h5\n", x->sha256);
    folder_index_sum(path, folder);
    return written && replace_file(path, line, (size_t)text, reason, CHECKPOINT_SENTENCE);
}

/* ---- reading ---- */

/* False: the table is not there, or its columns are not equally long. */
static bool read_table(reader *r, const table *t, char **entries, int64_t *count)
{
    *entries = NULL;
    for (int k = 0; k < t->columns; k++) {
        int64_t n, *values = reader_integers(r, writer_join(t->group, t->column[k].name).path, &n);
        if (!*entries) *count = n, *entries = allocate(n > 0 ? n : 0, t->bytes, "the index of a checkpoint");
        bool alike = values && n == *count;
        for (int64_t i = 0; alike && i < n; i++)
            memcpy(*entries + (size_t)i * t->bytes + t->column[k].offset, &values[i], sizeof *values);
        free(values);
        if (!alike) return false;
    }
    return true;
}

static bool differ(const checkpoint_index *x, const char *name, const char *saved, const char *now,
                   char reason[CHECKPOINT_SENTENCE])
{
    snprintf(reason, CHECKPOINT_SENTENCE, "%s was saved with %s %s, and the deck has %s", x->folder, name, saved, now);
    return false;
}

static bool suits(const checkpoint_index *x, reader *r, const bench_case *c, char reason[CHECKPOINT_SENTENCE])
{
    char saved[KEY_TEXT] = "none", now[KEY_TEXT];
    reader_text(r, "workload", saved, sizeof saved);
    if (strcmp(saved, c->workload) != 0) return differ(x, "workload", saved, c->workload, reason);
    for (int i = 0; i < SAME; i++) {
        key_write(same[i], c, now);
        if (!reader_text(r, key_at(same[i])->name, saved, sizeof saved)) snprintf(saved, sizeof saved, "none");
        if (strcmp(saved, now) != 0) return differ(x, key_at(same[i])->name, saved, now, reason);
    }
    return true;
}

static bool read_lists(checkpoint_index *x, reader *r)
{
    char *blocks = NULL, *fragments = NULL;
    bool read = read_table(r, &blocks_table, &blocks, &x->blocks) &&
                read_table(r, &fragments_table, &fragments, &x->fragments) &&
                (x->amax = reader_integers(r, "/amax_history", &x->amaxes)) != NULL;
    x->block = (saved_block *)(void *)blocks;
    x->fragment = (saved_fragment *)(void *)fragments;
    return read && reader_integer(r, "step", &x->step) && reader_integer(r, "rate_warmup", &x->rate.warmup) &&
           reader_integer(r, "rate_steps", &x->rate.total);
}

static bool read_bytes(checkpoint_index *x, void *bytes, size_t length, const bench_case *c,
                       char reason[CHECKPOINT_SENTENCE])
{
    int64_t version = 0;
    reader *r = reader_open(bytes, length);
    bool known = r && reader_integer(r, "checkpoint_version", &version) && version == INDEX_VERSION;
    if (!known)
        snprintf(reason, CHECKPOINT_SENTENCE, "the index of %s has version %lld of its format; this program reads %d",
                 x->folder, (long long)version, INDEX_VERSION);
    bool read = known && suits(x, r, c, reason);
    if (read && !read_lists(x, r)) {
        snprintf(reason, CHECKPOINT_SENTENCE, "the index of %s lacks a list", x->folder);
        read = false;
    }
    if (r) reader_close(r);
    return read;
}

/* Is the sum of the index the one that was written next to it? */
static bool is_intact(const checkpoint_index *x)
{
    char path[FOLDER_LENGTH], saved[SHA256_HEX] = "";
    folder_index_sum(path, x->folder);
    FILE *file = fopen(path, "re");
    bool read = file && fgets(saved, sizeof saved, file);
    if (file) fclose(file);
    return read && strcmp(saved, x->sha256) == 0;
}

bool index_read(checkpoint_index *x, const bench_case *c, const char *parent, char reason[CHECKPOINT_SENTENCE])
{
    char path[FOLDER_LENGTH];
    size_t length = 0;
    *x = (checkpoint_index){ 0 };
    bool found = folder_newest(parent, x->folder);
    folder_index(path, x->folder);
    void *bytes = found ? read_whole(path, &length) : NULL;
    if (!found) snprintf(reason, CHECKPOINT_SENTENCE, "%s has no whole checkpoint: no step-*/index.h5", parent);
    else if (!bytes) snprintf(reason, CHECKPOINT_SENTENCE, "%s cannot be read as an HDF5 file of xgsw", path);
    if (!bytes) return false;
    sha256_of(bytes, length, x->sha256);
    bool read = is_intact(x);
    if (!read) snprintf(reason, CHECKPOINT_SENTENCE, "%s is damaged: its SHA-256 is not that of %s.sha256", path, path);
    else read = read_bytes(x, bytes, length, c, reason);
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
    saved_block *block = x->block;
    saved_fragment *list = x->fragment;
    int64_t *amax = x->amax;
    void *name = x->name;
    world_broadcast(x, sizeof *x, 0);
    if (x->name) x->name = broadcast_list(name, x->blocks, sizeof *x->name);
    x->block = broadcast_list(block, x->blocks, sizeof *block);
    x->fragment = broadcast_list(list, x->fragments, sizeof *list);
    x->amax = broadcast_list(amax, x->amaxes, sizeof *amax);
}

static int block_order(const void *key, const void *entry)
{
    const saved_block *b = entry;
    return fragment_order(key, &(saved_fragment){ .logical = b->logical, .block = b->block });
}

saved_block *index_block(const checkpoint_index *x, const saved_fragment *of)
{
    return bsearch(of, x->block, (size_t)x->blocks, sizeof *x->block, block_order);
}

static int compare_fragments(const void *a, const void *b) { return fragment_order(a, b); }

const saved_fragment *index_fragments(const checkpoint_index *x, const saved_fragment *of, int64_t *count)
{
    const saved_fragment *end = x->fragment + x->fragments,
                         *first = bsearch(of, x->fragment, (size_t)x->fragments, sizeof *first, compare_fragments);
    *count = 0;
    while (first && first > x->fragment && fragment_order(first - 1, of) == 0) first--;
    while (first && first + *count < end && fragment_order(first + *count, of) == 0) ++*count;
    return first;
}
