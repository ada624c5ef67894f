/* A list of prefixes says what is recorded, a list of words what never is. */
#include "bench/record/environment.h"
#include "base/fail.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const recorded[] = { "OMPI_", "UCX_",   "OMP_",  "SLURM_", "NCCL_",
                                        "CUDA_", "MPICH_", "DNNL_", "XGSW_",  0 };
/* SLURM_JWT and the keys of Open MPI's transports open doors. */
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

environment environment_read(void)
{
    environment e = { .lines = 0 };
    int64_t all = 0;
    while (environ[all]) all++;
    e.line = calloc((size_t)all + 1, sizeof *e.line);
    if (!e.line) FAIL("out of memory for the environment");
    for (int64_t i = 0; i < all; i++) {
        if (!is_recorded(environ[i])) continue;
        e.line[e.lines] = strdup(environ[i]);
        if (!e.line[e.lines++]) FAIL("out of memory for the environment");
    }
    qsort(e.line, (size_t)e.lines, sizeof *e.line, by_name);
    return e;
}

void environment_free(environment *e)
{
    for (int64_t i = 0; i < e->lines; i++) free(e->line[i]);
    free(e->line);
    *e = (environment){ .lines = 0 };
}
