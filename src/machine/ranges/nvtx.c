/* Ranges with NVTX 3, a library of headers that loads the tool that the environment names. */
#include "base/memory.h"
#include "machine/ranges/ranges.h"
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>

/* A range as it is shown: "matmul qkv", "forward chunk 1", "layer 17"; payload: a step or microbatch. Equal words
 * have the same pointer. name: can be empty; number, payload: -1 if none. */
typedef struct {
    const char *word, *name;
    int number;
    int64_t payload;
} range;

/* A registered text, in the list for the hash of its word. */
typedef struct label {
    range range;
    nvtxStringHandle_t handle;
    struct label *next;
} label;

enum { LISTS = 256, MAX_DEPTH = 4 };
static label *labels[LISTS];
static range stack[MAX_DEPTH]; /* open ranges, from the outermost */
static int depth;
static nvtxDomainHandle_t domain; /* NULL: no tool listens */

static bool same_text(const range *a, const range *b)
{
    return a->word == b->word && a->number == b->number && strcmp(a->name, b->name) == 0;
}

static nvtxStringHandle_t label_of(const range *r)
{
    label **at = &labels[(uintptr_t)r->word / 4 % LISTS];
    while (*at && !same_text(&(*at)->range, r)) at = &(*at)->next;
    if (*at) return (*at)->handle;
    char text[128];
    const char *format = r->number >= 0 ? (r->name[0] ? "%s %s %d" : "%s%s %d") : r->name[0] ? "%s %s" : "%s";
    snprintf(text, sizeof text, format, r->word, r->name, r->number);
    *at = allocate(1, sizeof **at, "the name of a range");
    **at = (label){ { r->word, strdup(r->name), r->number, -1 }, nvtxDomainRegisterStringA(domain, text), NULL };
    return (*at)->handle;
}

static nvtxEventAttributes_t event_of(const range *r)
{
    nvtxEventAttributes_t e = { .version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE };
    e.messageType = NVTX_MESSAGE_TYPE_REGISTERED, e.message.registered = label_of(r);
    if (r->payload >= 0) e.payloadType = NVTX_PAYLOAD_TYPE_INT64, e.payload.llValue = r->payload;
    return e;
}

/* Writes the ranges of an operation, outermost first. Returns their number, 0 without a tool. */
static int ranges_of(const op *o, range to[MAX_DEPTH])
{
    static bool created;
    const origin *at = &o->origin;
    int outer = at->step < 0 ? 0 : at->layer < 0 ? 2 : 3;
    if (!created) created = true, domain = nvtxDomainCreateA("xgsw");
    if (!domain) return 0;
    to[0] = (range){ "step", "", -1, at->step };
    to[1] = (range){ phase_name(at->phase), at->chunk < 0 ? "" : "chunk", at->chunk, at->microbatch };
    to[2] = (range){ "layer", "", at->layer, -1 };
    to[outer] = (range){ op_kind_name(o->kind), at->name ? at->name : "", -1, -1 };
    return outer + 1;
}

static void close_above(int kept)
{
    for (; depth > kept; depth--) nvtxDomainRangePop(domain);
}

void ranges_open(const op *o, bool on_paper)
{
    range wanted[MAX_DEPTH];
    int kept = 0, count = ranges_of(o, wanted);
    for (int i = 0; on_paper && i < count; i++) label_of(&wanted[i]);
    if (on_paper) return;
    while (kept < depth && same_text(&wanted[kept], &stack[kept]) && wanted[kept].payload == stack[kept].payload)
        kept++;
    close_above(kept);
    for (; depth < count; depth++) {
        nvtxEventAttributes_t event = event_of(&wanted[depth]);
        nvtxDomainRangePushEx(domain, &event);
        stack[depth] = wanted[depth];
    }
}

void ranges_close(void) { close_above(depth > 0 ? depth - 1 : 0); }
void ranges_leave(void) { close_above(0); }

static uint64_t begin(const range *r)
{
    nvtxEventAttributes_t event = event_of(r);
    return nvtxDomainRangeStartEx(domain, &event);
}

uint64_t ranges_begin(const op *o)
{
    range wanted[MAX_DEPTH];
    int count = ranges_of(o, wanted);
    if (count) wanted[count - 1].payload = o->origin.step;
    return count ? begin(&wanted[count - 1]) : 0;
}

void ranges_end(uint64_t begun)
{
    if (domain) nvtxDomainRangeEnd(domain, begun);
}

void ranges_capture(bool on)
{
    static uint64_t begun;
    if (on && domain) begun = begin(&(range){ "profile", "", -1, -1 });
    else ranges_end(begun);
}
