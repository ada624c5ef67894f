/* A tool as NVTX loads it (NVTX_INJECTION64_PATH): writes the calls for the domain xgsw into XGSW_RANGES.RANK, a line
 * each: "= NAME" registers, "> PAYLOAD NAME" and "<" are nested ranges, "[ ID PAYLOAD NAME" and "] ID" others; payload
 * -: none. NVTX's interface is spelled out, so that it compiles without its header. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLBACKS = 1, CORE2 = 5, START = 2, END = 3, PUSH = 4, POP = 5, REGISTER = 10, CREATE = 12, NO_PAYLOAD = 0 };
typedef void function(void);
typedef struct {
    size_t bytes;
    int (*table_of)(int module, function ***table, unsigned *size);
} callbacks;
typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    int64_t payload;
    int32_t message_type;
    const char *message; /* registered: what register_string returned */
} event;

static FILE *to;
static uint64_t begun;

static const char *create(const char *name) { return strcmp(name, "xgsw") == 0 ? "xgsw" : NULL; }

static char *register_string(const char *domain, const char *text)
{
    if (domain) fprintf(to, "= %s\n", text);
    return strdup(text);
}

static void write_event(const event *e)
{
    if (e->payload_type == NO_PAYLOAD) fprintf(to, "- %s\n", e->message);
    else fprintf(to, "%lld %s\n", (long long)e->payload, e->message);
}

static int push(const char *domain, const event *e)
{
    if (domain) fprintf(to, "> "), write_event(e);
    return 0;
}

static int pop(const char *domain)
{
    if (domain) fprintf(to, "<\n");
    return 0;
}

static uint64_t start(const char *domain, const event *e)
{
    if (domain) fprintf(to, "[ %llu ", (unsigned long long)++begun), write_event(e);
    return begun;
}

static void end(const char *domain, uint64_t id)
{
    if (domain) fprintf(to, "] %llu\n", (unsigned long long)id);
}

int InitializeInjectionNvtx2(const void *(*table_at)(uint32_t));
int InitializeInjectionNvtx2(const void *(*table_at)(uint32_t))
{
    char path[4096];
    unsigned size;
    function **table;
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *name = getenv("XGSW_RANGES");
    const callbacks *c = table_at(CALLBACKS);
    if (!name || !c || !c->table_of(CORE2, &table, &size)) return 0;
    snprintf(path, sizeof path, "%s.%s", name, rank ? rank : "0");
    to = fopen(path, "w");
    *(function **)table[CREATE] = (function *)create;
    *(function **)table[REGISTER] = (function *)register_string;
    *(function **)table[PUSH] = (function *)push;
    *(function **)table[POP] = (function *)pop;
    *(function **)table[START] = (function *)start;
    *(function **)table[END] = (function *)end;
    return to != NULL;
}
