/* Unknown texts are recorded as "n/a", so every record has every name. */
#include "bench/record/provenance.h"
#include "base/build_info.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "bench/launch/libraries.h"
#include "bench/launch/start_check.h"
#include "machine/world.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { LINE = 512 };
struct provenance {
    const run_source *run;
    char started[CLOCK_TEXT], deck_sha256[SHA256_HEX], binary_sha256[SHA256_HEX];
    char processor[LINE], kernel[LINE], hdf5[LINE];
    char *command_line;
};

/* Recorded variables concern MPI, threads, devices and the batch system. Variables with secrets are never recorded,
 * such as SLURM_JWT and the keys of Open MPI's transports. */
static const char *const recorded[] = { "OMPI_", "UCX_",   "OMP_",  "SLURM_", "NCCL_", "LD_",
                                        "CUDA_", "MPICH_", "DNNL_", "XGSW_",  0 };
static const char *const secret[] = {
    "TOKEN", "JWT", "SECRET", "PASSW", "CREDENTIAL", "_KEY", "APIKEY", "precondition_transports", 0
};

static bool is_recorded(const char *line)
{
    const char *equals = strchr(line, '=');
    char name[256];
    if (!equals || (size_t)(equals - line) >= sizeof name) return false;
    memcpy(name, line, (size_t)(equals - line));
    name[equals - line] = 0;
    for (int i = 0; secret[i]; i++)
        if (strstr(name, secret[i])) return false;
    for (int i = 0; recorded[i]; i++)
        if (strncmp(name, recorded[i], strlen(recorded[i])) == 0) return true;
    return false;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Writes "NAME=value", sorted. Reads the environment now, because NCCL adds variables from a configuration file. */
static void write_environment(writer *w, const char *group)
{
    int64_t all = 0, variables = 0;
    while (environ[all]) all++;
    const char **kept = allocate(all, sizeof *kept, "the environment");
    for (int64_t i = 0; i < all; i++)
        if (is_recorded(environ[i])) kept[variables++] = environ[i];
    qsort(kept, (size_t)variables, sizeof *kept, by_name);
    writer_texts(w, writer_join(group, "environment").path, kept, variables);
    free(kept);
}

/* Prints a word, quoted for a shell if it has other characters than letters, digits and ./_-=,:@%+ */
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

/* Owned by the caller. */
static char *command_line_of(int argc, char **argv)
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
    return line;
}

/* Reads the first line "model name : ..." of /proc/cpuinfo. */
static void read_processor(char model[LINE])
{
    char line[LINE];
    FILE *cpuinfo = fopen("/proc/cpuinfo", "r");
    while (cpuinfo && !*model && fgets(line, sizeof line, cpuinfo))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':'))
            snprintf(model, LINE, "%s", strchr(line, ':') + 1 + strspn(strchr(line, ':') + 1, " \t"));
    if (cpuinfo) fclose(cpuinfo);
    model[strcspn(model, "\n")] = 0;
}

provenance *provenance_open(const run_source *run)
{
    provenance *p = allocate(1, sizeof *p, "the record's provenance");
    struct utsname name;
    p->run = run;
    clock_text(p->started);
    sha256_of(run->deck_text, run->deck_length, p->deck_sha256);
    p->command_line = command_line_of(run->argc, run->argv);
    start_program_sha256(p->binary_sha256);
    writer_library(p->hdf5, sizeof p->hdf5);
    read_processor(p->processor);
    if (uname(&name) == 0) snprintf(p->kernel, sizeof p->kernel, "%s %s %s", name.sysname, name.release, name.machine);
    return p;
}

static void write_texts(const provenance *p, writer *w, const char *group)
{
    const struct {
        const char *name, *value;
    } text[] = { { "started", p->started },
                 { "deck", p->run->deck_text },
                 { "deck_name", p->run->deck_name },
                 { "deck_sha256", p->deck_sha256 },
                 { "command_line", p->command_line },
                 { "git_commit", build_commit },
                 { "build_flags", build_flags },
                 { "build_compiler", build_compiler },
                 { "build_mpi", build_mpi },
                 { "build_date", build_date },
                 { "binary_sha256", p->binary_sha256 },
                 { "mpi_library", p->run->mpi },
                 { "hdf5_library", p->hdf5 },
                 { "products_library", p->run->products },
                 { "cuda_library", p->run->cuda },
                 { "processor", p->processor },
                 { "kernel", p->kernel } };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        const char *value = text[i].value && *text[i].value ? text[i].value : "n/a";
        writer_value(w, writer_join(group, text[i].name).path, NULL, datum_text(value));
    }
}

/* Writes one text per rank from a list with `bytes` bytes each. If list is NULL, writes an empty list. */
static void write_rank_texts(writer *w, const char *path, const char *list, size_t bytes, int ranks)
{
    const char **text = allocate(ranks, sizeof *text, "texts of ranks");
    for (int rank = 0; list && rank < ranks; rank++) text[rank] = list + (size_t)rank * bytes;
    writer_texts(w, path, text, list ? ranks : 0);
    free(text);
}

/* Writes host and switches of every rank, and the lowest ranks of its node and of its NVLink domain. */
static void write_hosts(const run_source *run, writer *w, const char *group)
{
    int ranks = run->hosts ? run->ranks : 0;
    write_rank_texts(w, writer_join(group, "hosts").path, run->hosts, HOST_NAME_BYTES, ranks);
    write_rank_texts(w, writer_join(group, "switches").path, run->switches, SWITCHES_BYTES, ranks);
    int64_t *node = allocate(2 * ranks, sizeof *node, "the nodes and domains of ranks"), *domain = node + ranks;
    for (int rank = 0; rank < ranks; rank++) {
        node[rank] = world_node(rank);
        domain[rank] = machine_domain(MACHINE_CUDA, rank);
    }
    writer_integers(w, writer_join(group, "nodes").path, "1", node, ranks);
    writer_integers(w, writer_join(group, "domains").path, "1", domain, ranks);
    free(node);
}

/* Writes "PATH IDENTITY" of rank 0's libraries as loaded now, and the paths of preloaded ones. */
static void write_libraries(const run_source *run, writer *w, const char *group)
{
    enum { LINE_BYTES = LIBRARY_PATH + LIBRARY_IDENTITY };
    library_list now = libraries_loaded();
    char(*line)[LINE_BYTES] = allocate(now.count, sizeof *line, "lines of libraries");
    const char **text = allocate(now.count, sizeof *text, "texts of libraries");
    int preloaded = 0;
    for (int i = 0; i < now.count; i++) {
        snprintf(line[i], LINE_BYTES, "%s %s", now.item[i].path, now.item[i].identity);
        text[i] = line[i];
    }
    writer_texts(w, writer_join(group, "libraries").path, text, now.count);
    for (int i = 0; run->libraries && i < run->libraries->count; i++)
        if (run->libraries->item[i].preloaded) text[preloaded++] = run->libraries->item[i].path;
    writer_texts(w, writer_join(group, "preloaded").path, text, preloaded);
    free(text);
    free(line);
    libraries_free(&now);
}

static void write_devices(const run_source *run, writer *w, const char *group)
{
    static const struct {
        const char *name;
        size_t at;
    } texts[] = { { "device_name", offsetof(machine_device, name) },
                  { "device_identity", offsetof(machine_device, identity) },
                  { "device_driver", offsetof(machine_device, driver) },
                  { "device_bus", offsetof(machine_device, bus) },
                  { "device_serial", offsetof(machine_device, serial) } };
    int n = run->devices ? run->ranks : 0;
    const char **text = allocate(n, sizeof *text, "the names of devices");
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        for (int i = 0; i < n; i++) text[i] = (const char *)&run->devices[i] + texts[t].at;
        writer_texts(w, writer_join(group, texts[t].name).path, text, n);
    }
    free(text);
}

static void write_device_numbers(const run_source *run, writer *w, const char *group)
{
    int n = run->devices ? run->ranks : 0;
    int64_t *multiprocessors = allocate(2 * n, sizeof *multiprocessors, "multiprocessors"), *ecc = multiprocessors + n;
    double *memory = allocate(3 * n, sizeof *memory, "the memory and limits of devices");
    for (int i = 0; i < n; i++) {
        const machine_device *d = &run->devices[i];
        multiprocessors[i] = d->multiprocessors, ecc[i] = d->ecc, memory[i] = d->memory_bytes;
        memory[n + i] = d->power_limit_watts, memory[2 * n + i] = d->clock_limit_hertz;
    }
    writer_integers(w, writer_join(group, "device_multiprocessors").path, "1", multiprocessors, n);
    writer_integers(w, writer_join(group, "device_ecc").path, "1", ecc, n);
    writer_reals(w, writer_join(group, "device_memory").path, "bytes", memory, n);
    writer_reals(w, writer_join(group, "device_power_limit").path, "W", memory + n, n);
    writer_reals(w, writer_join(group, "device_clock_limit").path, "Hz", memory + 2 * n, n);
    free(multiprocessors);
    free(memory);
}

static void write_changing_items(const provenance *p, writer *w, const char *group)
{
    char now[CLOCK_TEXT];
    writer_value(w, writer_join(group, "written").path, NULL, datum_text(clock_text(now)));
    writer_value(w, writer_join(group, "processors").path, "1", datum_integer(get_nprocs()));
    write_libraries(p->run, w, group);
    write_environment(w, group);
}

void provenance_write(const provenance *p, writer *w)
{
    static const char group[] = "/provenance";
    writer_group(w, group, "NXcollection");
    write_texts(p, w, group);
    writer_value(w, writer_join(group, "dirty").path, NULL, datum_flag(build_dirty));
    writer_value(w, writer_join(group, "debug").path, NULL, datum_flag(build_debug));
    writer_value(w, writer_join(group, "threads").path, "1", datum_integer(p->run->threads));
    write_hosts(p->run, w, group);
    write_devices(p->run, w, group);
    write_device_numbers(p->run, w, group);
    write_changing_items(p, w, group);
}

void provenance_close(provenance *p)
{
    if (!p) return;
    free(p->command_line);
    free(p);
}
