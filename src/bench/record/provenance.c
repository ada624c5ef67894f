/* What is not there to be read is recorded as "n/a": a reader finds every name in every record. */
#include "bench/record/provenance.h"
#include "base/build_info.h"
#include "base/fail.h"
#include "base/sha256.h"
#include "bench/record/environment.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>

enum { PROVENANCE_TEXTS = 24 };
static const char absent[] = "n/a";

typedef struct {
    const char *name;
    char *value;
    size_t length;
} named_text;
struct provenance {
    named_text row[PROVENANCE_TEXTS];
    int rows;
    char *hosts;            /* [ranks] names of HOST_NAME_BYTES each */
    machine_device *device; /* [devices]: of all ranks, or none */
    int devices;
    int ranks, threads;
    int processors;
    environment environment;
};

void provenance_now(char out[TIME_BYTES])
{
    time_t now = time(NULL);
    struct tm broken_down;
    gmtime_r(&now, &broken_down);
    strftime(out, TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &broken_down);
}

static void *copy_bytes(const void *bytes, size_t length)
{
    char *copy = calloc(length + 1, 1);
    if (!copy) FAIL("out of memory for the record's provenance");
    if (length) memcpy(copy, bytes, length);
    return copy;
}

static void add(provenance *p, const char *name, const char *value, size_t length)
{
    p->row[p->rows++] = (named_text){ name, copy_bytes(value, length), length };
}

static void add_text(provenance *p, const char *name, const char *value)
{
    const char *shown = value && *value ? value : absent;
    add(p, name, shown, strlen(shown));
}

/* One word as a shell would take it back: quoted where it holds more than letters, digits and ./_-=,:@%+ */
static void print_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-=,:@%+";
    if (*word && strspn(word, plain) == strlen(word)) {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++) *word == '\'' ? fputs("'\\''", out) : putc(*word, out);
    putc('\'', out);
}

static void add_command_line(provenance *p, int argc, char **argv)
{
    char *line = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&line, &length);
    if (!out) FAIL("out of memory for the record's provenance");
    for (int i = 0; i < argc; i++) {
        if (i) putc(' ', out);
        print_word(out, argv[i]);
    }
    fclose(out);
    add_text(p, "command_line", line);
    free(line);
}

static void add_binary_hash(provenance *p)
{
    char hex[SHA256_HEX], piece[1 << 16];
    FILE *binary = fopen("/proc/self/exe", "rb");
    if (!binary) {
        add_text(p, "binary_sha256", absent);
        return;
    }
    sha256 s;
    sha256_open(&s);
    for (size_t got; (got = fread(piece, 1, sizeof piece, binary)) > 0;) sha256_add(&s, piece, got);
    sha256_close(&s, hex);
    add_text(p, "binary_sha256", ferror(binary) ? absent : hex);
    fclose(binary);
}

/* The first line "model name : ..." of /proc/cpuinfo. */
static void add_processor(provenance *p)
{
    char line[256], model[256] = "";
    FILE *cpuinfo = fopen("/proc/cpuinfo", "r");
    while (cpuinfo && !*model && fgets(line, sizeof line, cpuinfo))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':'))
            snprintf(model, sizeof model, "%s", strchr(line, ':') + 1 + strspn(strchr(line, ':') + 1, " \t"));
    if (cpuinfo) fclose(cpuinfo);
    model[strcspn(model, "\n")] = 0;
    add_text(p, "processor", model);
}

static void add_kernel(provenance *p)
{
    struct utsname name;
    char kernel[sizeof name] = "";
    if (uname(&name) == 0) snprintf(kernel, sizeof kernel, "%s %s %s", name.sysname, name.release, name.machine);
    add_text(p, "kernel", kernel);
}

static void add_build(provenance *p)
{
    add_text(p, "git_commit", build_commit);
    add_text(p, "build_flags", build_flags);
    add_text(p, "build_compiler", build_compiler);
    add_text(p, "build_mpi", build_mpi);
    add_text(p, "build_date", build_date);
    add_binary_hash(p);
}

static void add_deck(provenance *p, const record_source *source)
{
    char hex[SHA256_HEX];
    sha256_of(source->deck_text, source->deck_length, hex);
    add(p, "deck", source->deck_text, source->deck_length);
    add_text(p, "deck_sha256", hex);
    add_text(p, "deck_name", source->deck_name);
}

static void add_libraries(provenance *p, const record_source *source)
{
    char own[64];
    add_text(p, "mpi_library", source->mpi);
    add_text(p, "hdf5_library", source->hdf5 ? source->hdf5 : record_library(own, sizeof own));
    add_text(p, "products_library", source->products);
    add_text(p, "cuda_library", source->cuda);
}

static void add_hosts(provenance *p, const record_source *source)
{
    p->ranks = source->hosts ? source->ranks : 0;
    p->hosts = copy_bytes(source->hosts, (size_t)p->ranks * HOST_NAME_BYTES);
    for (int rank = 1; rank <= p->ranks; rank++) p->hosts[(size_t)rank * HOST_NAME_BYTES - 1] = 0;
}

static void add_devices(provenance *p, const record_source *source)
{
    p->devices = source->devices ? source->ranks : 0;
    p->device = copy_bytes(source->devices, (size_t)p->devices * sizeof *p->device);
}

provenance *provenance_open(const record_source *source)
{
    provenance *p = calloc(1, sizeof *p);
    if (!p) FAIL("out of memory for the record's provenance");
    char now[TIME_BYTES];
    provenance_now(now);
    add_text(p, "started", now);
    add_deck(p, source);
    add_command_line(p, source->argc, source->argv);
    add_build(p);
    add_libraries(p, source);
    add_processor(p);
    add_kernel(p);
    p->processors = get_nprocs();
    p->threads = source->threads;
    add_hosts(p, source);
    add_devices(p, source);
    p->environment = environment_read();
    return p;
}

static void write_hosts(const provenance *p, writer *w, const char *group)
{
    const char **names = calloc((size_t)p->ranks + 1, sizeof *names);
    if (!names) FAIL("out of memory for the hosts of %d ranks", p->ranks);
    for (int rank = 0; rank < p->ranks; rank++) names[rank] = p->hosts + (size_t)rank * HOST_NAME_BYTES;
    writer_texts(w, writer_join(group, "hosts").path, names, p->ranks);
    free(names);
}

static void write_devices(const provenance *p, writer *w, const char *group)
{
    size_t n = (size_t)p->devices;
    const char **text = calloc(3 * n + 1, sizeof *text);
    int64_t *multiprocessors = calloc(2 * n + 1, sizeof *multiprocessors), *ecc = multiprocessors + n;
    double *memory = calloc(n + 1, sizeof *memory);
    if (!text || !multiprocessors || !memory) FAIL("out of memory for %d devices of the record", p->devices);
    for (size_t i = 0; i < n; i++) {
        const machine_device *d = &p->device[i];
        text[i] = d->name, text[n + i] = d->identity, text[2 * n + i] = d->driver;
        multiprocessors[i] = d->multiprocessors, ecc[i] = d->ecc, memory[i] = d->memory_bytes;
    }
    writer_texts(w, writer_join(group, "device_name").path, text, p->devices);
    writer_texts(w, writer_join(group, "device_identity").path, text + n, p->devices);
    writer_texts(w, writer_join(group, "device_driver").path, text + 2 * n, p->devices);
    writer_integers(w, writer_join(group, "device_multiprocessors").path, "1", multiprocessors, p->devices);
    writer_integers(w, writer_join(group, "device_ecc").path, "1", ecc, p->devices);
    writer_reals(w, writer_join(group, "device_memory").path, "bytes", memory, p->devices);
    free(text);
    free(multiprocessors);
    free(memory);
}

void provenance_write(const provenance *p, writer *w)
{
    static const char group[] = "/provenance";
    char now[TIME_BYTES];
    provenance_now(now);
    writer_group(w, group, "NXcollection");
    for (int i = 0; i < p->rows; i++)
        writer_text(w, writer_join(group, p->row[i].name).path, p->row[i].value, p->row[i].length);
    writer_text(w, writer_join(group, "written").path, now, strlen(now));
    writer_flag(w, writer_join(group, "dirty").path, build_dirty);
    writer_flag(w, writer_join(group, "debug").path, build_debug);
    writer_integer(w, writer_join(group, "threads").path, "1", p->threads);
    writer_integer(w, writer_join(group, "processors").path, "1", p->processors);
    write_hosts(p, w, group);
    write_devices(p, w, group);
    writer_texts(w, writer_join(group, "environment").path, (const char *const *)p->environment.line,
                 p->environment.lines);
}

void provenance_close(provenance *p)
{
    for (int i = 0; i < p->rows; i++) free(p->row[i].value);
    free(p->hosts);
    free(p->device);
    environment_free(&p->environment);
    free(p);
}
