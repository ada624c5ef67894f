/* Measures how long a rank reads the index of a checkpoint of Llama 3.1 405B and searches it for its parameters. The
 * ranks are laid out on paper (512 and 2,048 GPUs). The loading layout can differ from the saved one. */
#include "base/clock.h"
#include "base/memory.h"
#include "bench/checkpoint/index.h"
#include "plan/deck/deck.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bench_case case_at(int ranks)
{
    static const char text[] = "a bench\n\n[llama3.1-405b]\nsize = full\n";
    deck_source s = { .name = "bench", .text = text, .length = strlen(text), .ranks = ranks, .dry_run = true };
    deck d = deck_read(&s);
    bench_case c = d.item[0];
    deck_free(&d);
    return c;
}

/* The fragments that a rank owns, on paper. The trainer keeps the parameters of its stage. */
static own_fragments owned_by(trainer *t, mesh *m, const bench_case *c, int rank)
{
    arena a;
    *t = (trainer){ .given = c, .mesh = m };
    mesh_open(m, &c->layout, rank, MESH_PAPER);
    arena_open(&a, NULL, 0);
    param_table_open(&t->stage.params, c, m, &a);
    return fragments_of(t);
}

static checkpoint_index index_of(const bench_case *c)
{
    checkpoint_index x = { .step = 1 };
    for (int rank = 0; rank < c->layout.ranks; rank++) {
        trainer t;
        mesh m;
        own_fragments own = owned_by(&t, &m, c, rank);
        x.fragment = reallocate(x.fragment, x.fragments + own.count, sizeof *x.fragment, "fragments");
        for (int64_t i = 0; i < own.count; i++)
            if (own.list[i].writes) x.fragment[x.fragments++] = own.list[i].saved;
        fragments_free(&own);
        param_table_close(&t.stage.params);
        mesh_close(&m);
    }
    qsort(x.fragment, (size_t)x.fragments, sizeof *x.fragment, fragment_order);
    return x;
}

/* Returns how many runs of one state the rank shares with the saved fragments. */
static int64_t match(const checkpoint_index *x, const own_fragments *own)
{
    int64_t runs = 0, saved;
    for (const own_fragment *o = own->list; o < own->list + own->count; o++) {
        const saved_fragment *f = index_find(x, &o->saved, &saved);
        for (int64_t i = 0; i < saved; i++)
            for (shared_run r = { 0 }; fragment_next_run(&o->saved, 0, o->saved.count, &f[i], &r);) runs++;
    }
    return runs;
}

static void measure_load(const bench_case *c, const bench_case *by, char folder[])
{
    char reason[CHECKPOINT_SENTENCE] = "";
    checkpoint_index x = index_of(c), read = { 0 };
    trainer t;
    mesh m;
    own_fragments own = owned_by(&t, &m, by, by->layout.ranks - 1);
    if (!index_write(&x, c, folder, reason)) puts(reason);
    double begin = clock_seconds();
    if (!index_read(&read, c, folder, reason)) puts(reason);
    double loaded = clock_seconds();
    int64_t runs = match(&read, &own);
    printf(
        "checkpoint index of %d ranks, %lld fragments: read and proven on rank 0 in %.1f ms; %lld runs of a rank of %d "
        "found in %.2f ms\n",
        c->layout.ranks, (long long)x.fragments, 1e3 * (loaded - begin), (long long)runs, by->layout.ranks,
        1e3 * (clock_seconds() - loaded));
    index_free(&x);
    index_free(&read);
    fragments_free(&own);
}

int main(void)
{
    char folder[] = "/tmp/xgsw-index-XXXXXX", path[FOLDER_LENGTH], sum[FOLDER_LENGTH];
    bench_case small = case_at(512), large = case_at(2048);
    if (!mkdtemp(folder)) return 1;
    measure_load(&small, &large, folder);
    measure_load(&large, &small, folder);
    folder_index(path, sum, folder);
    unlink(path), unlink(sum), rmdir(folder);
    return 0;
}
