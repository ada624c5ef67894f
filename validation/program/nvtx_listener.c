/* A tool as NVTX loads it (NVTX_INJECTION64_PATH): writes each call into XGSW_RANGES.RANK. "= NAME" registers a name,
 * "> PAYLOAD NAME" and "<" are nested ranges, "[ ID NAME" and "] ID" others. What it needs of NVTX's interface is
 * spelled out, so that it compiles without the header: an event has its payload in its fourth word of 64 bits and what
 * the registration of its name returned in the sixth. */
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
