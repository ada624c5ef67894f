/* A tool that NVTX loads (NVTX_INJECTION64_PATH). It writes each call to XGSW_RANGES.RANK: "= NAME" registers a name,
 * "> PAYLOAD NAME" and "<" are nested ranges, "[ ID NAME" and "] ID" are other ranges. The needed part of NVTX's
 * interface is written out here, so that the header is not required. In an event, the fourth 64-bit word is the payload
 * and the sixth is the handle of the registered name. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLBACKS = 1, CORE2 = 5, CALLS = 13 };
typedef void function(void);
typedef int table_of(int module, function ***table, unsigned *size);

static FILE *to;
static long long begun;

static const char *create(const char *text) { return text; }
static char *name(const char *in, const char *text) { return fprintf(to, "= %s\n", text), strdup(text); }
static void push(const char *in, const long long *e) { fprintf(to, "> %lld %s\n", e[3], (const char *)e[5]); }
static void pop(const char *in) { fprintf(to, "<\n"); }
static long long start(const char *in, const long long *e)
{
    return fprintf(to, "[ %lld %s\n", ++begun, (const char *)e[5]), begun;
}
static void end(const char *in, long long id) { fprintf(to, "] %lld\n", id); }

int InitializeInjectionNvtx2(table_of *const *(*exported)(uint32_t));
int InitializeInjectionNvtx2(table_of *const *(*exported)(uint32_t))
{
    char path[4096];
    unsigned size;
    function **table, *calls[CALLS] = { [2] = (function *)start, [3] = (function *)end,   [4] = (function *)push,
                                        [5] = (function *)pop,   [10] = (function *)name, [12] = (function *)create };
    snprintf(path, sizeof path, "%s.%s", getenv("XGSW_RANGES"), getenv("OMPI_COMM_WORLD_RANK"));
    to = fopen(path, "w");
    if (!to || !exported(CALLBACKS)[1](CORE2, &table, &size)) return 0;
    for (int i = 0; i < CALLS; i++)
        if (calls[i]) *(function **)table[i] = calls[i];
    return 1;
}
