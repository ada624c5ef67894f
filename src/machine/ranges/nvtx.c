/* The ranges, by header-only NVTX 3, which loads the tool that the environment names. */
#include "base/memory.h"
#include "machine/ranges/ranges.h"
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>

/* What a range shows: "matmul qkv", "forward chunk 1", "layer 17", and the step or microbatch as its payload. word
 * lasts as long as the process; name may be empty; number, payload -1: none. */
typedef struct {
    const char *word, *name;
    int number;
    int64_t payload;
} range;

/* A registered text, in the list of all that begin with its word. */
typedef struct label label;
struct label {
    range of;
    nvtxStringHandle_t handle;
    label *next;
};

enum { LISTS = 256, DEEPEST = 4 };
static label *labels[LISTS];
static range shown[DEEPEST]; /* the open ranges, from the outermost */
static int depth;
static nvtxDomainHandle_t domain;

/* Returns whether there is a tool. The first call loads it. */
static bool listens(void)
{
    static bool asked;
    if (!asked) domain = nvtxDomainCreateA("xgsw");
    asked = true;
    return domain != NULL;
}

static bool same_text(const range *a, const range *b)
{
    return a->word == b->word && a->number == b->number && strcmp(a->name, b->name) == 0;
}

static nvtxStringHandle_t label_of(const range *r)
{
    label **at = &labels[(uintptr_t)r->word / 4 % LISTS];
    while (*at && !same_text(&(*at)->of, r)) at = &(*at)->next;
    if (*at) return (*at)->handle;
    char text[128];
    const char *form = r->number >= 0 ? (r->name[0] ? "%s %s %d" : "%s%s %d") : r->name[0] ? "%s %s" : "%s";
    snprintf(text, sizeof text, form, r->word, r->name, r->number);
    *at = allocate(1, sizeof **at, "the name of a range");
    **at = (label){ .of = *r, .handle = nvtxDomainRegisterStringA(domain, text) };
    (*at)->of.name = strdup(r->name);
    return (*at)->handle;
}

static nvtxEventAttributes_t event_of(const range *r)
{
    return (nvtxEventAttributes_t){ .version = NVTX_VERSION,
                                    .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                    .payloadType = r->payload < 0 ? NVTX_PAYLOAD_UNKNOWN : NVTX_PAYLOAD_TYPE_INT64,
                                    .payload.llValue = r->payload,
                                    .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                                    .message.registered = label_of(r) };
}

static uint64_t start(const range *r)
{
    nvtxEventAttributes_t event = event_of(r);
    return nvtxDomainRangeStartEx(domain, &event);
}

/* Writes the ranges of an operation, from the outermost to its own. Returns how many there are: 0 without a tool. */
static int ranges_of(const op *o, range to[DEEPEST])
{
    const origin *at = &o->origin;
    int count = at->step < 0 ? 0 : at->layer < 0 ? 2 : 3;
    if (!listens()) return 0;
    to[0] = (range){ "step", "", -1, at->step };
    to[1] = (range){ phase_name(at->phase), at->chunk < 0 ? "" : "chunk", at->chunk, at->microbatch };
    to[2] = (range){ "layer", "", at->layer, -1 };
    to[count] = (range){ op_kind_name(o->kind), at->name ? at->name : "", -1, -1 };
    return count + 1;
}

static void close_to(int kept)
{
    for (; depth > kept; depth--) nvtxDomainRangePop(domain);
}

void ranges_name(const op *o)
{
    range own[DEEPEST];
    for (int i = ranges_of(o, own); i > 0; i--) label_of(&own[i - 1]);
}

void ranges_open(const op *o)
{
    range own[DEEPEST];
    int kept = 0, count = ranges_of(o, own);
    while (kept < depth && same_text(&own[kept], &shown[kept]) && own[kept].payload == shown[kept].payload) kept++;
    close_to(kept);
    for (; depth < count; depth++) {
        nvtxEventAttributes_t event = event_of(&own[depth]);
        nvtxDomainRangePushEx(domain, &event);
        shown[depth] = own[depth];
    }
}

void ranges_close(void) { close_to(depth > 0 ? depth - 1 : 0); }
void ranges_leave(void) { close_to(0); }

uint64_t ranges_begin(const op *o)
{
    range own[DEEPEST];
    int count = ranges_of(o, own);
    if (count) own[count - 1].payload = o->origin.step;
    return count ? start(&own[count - 1]) : 0;
}

void ranges_end(uint64_t begun)
{
    if (listens()) nvtxDomainRangeEnd(domain, begun);
}

void ranges_capture(bool on)
{
    static uint64_t begun;
    if (on && listens()) begun = start(&(range){ "profile", "", -1, -1 });
    else ranges_end(begun);
}
