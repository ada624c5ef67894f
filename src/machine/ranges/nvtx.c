/* Ranges by header-only NVTX 3, which loads the tool that the environment names. */
#include "base/memory.h"
#include "machine/ranges/ranges.h"
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>

/* A range as it is shown: "matmul qkv", "forward chunk 1", "layer 17"; payload: a step or microbatch. word: always the
 * same pointer for the same word. name can be empty; number, payload: -1 if none. */
typedef struct {
    const char *word, *name;
    int number;
    int64_t payload;
} range;

/* A registered text, in the list for the hash of its word. */
typedef struct label {
    range of;
    nvtxStringHandle_t handle;
    struct label *next;
} label;

enum { LISTS = 256, DEEPEST = 4 };
static label *labels[LISTS];
static range shown[DEEPEST]; /* open ranges, from the outermost */
static int depth;
static nvtxDomainHandle_t domain; /* NULL: no tool listens */

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

/* Writes the ranges of an operation, outermost first. Returns their number, 0 if there is no tool. Loads the tool. */
static int ranges_of(const op *o, range to[DEEPEST])
{
    static bool asked;
    const origin *at = &o->origin;
    int around = at->step < 0 ? 0 : at->layer < 0 ? 2 : 3;
    if (!asked) asked = true, domain = nvtxDomainCreateA("xgsw");
    if (!domain) return 0;
    to[0] = (range){ "step", "", -1, at->step };
    to[1] = (range){ phase_name(at->phase), at->chunk < 0 ? "" : "chunk", at->chunk, at->microbatch };
    to[2] = (range){ "layer", "", at->layer, -1 };
    to[around] = (range){ op_kind_name(o->kind), at->name ? at->name : "", -1, -1 };
    return around + 1;
}

static void close_to(int kept)
{
    for (; depth > kept; depth--) nvtxDomainRangePop(domain);
}

void ranges_open(const op *o, bool on_paper)
{
    range own[DEEPEST];
    int kept = 0, count = ranges_of(o, own);
    for (int i = 0; on_paper && i < count; i++) label_of(&own[i]);
    if (on_paper) return;
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

static uint64_t begin(const range *r)
{
    nvtxEventAttributes_t event = event_of(r);
    return nvtxDomainRangeStartEx(domain, &event);
}

uint64_t ranges_begin(const op *o)
{
    range own[DEEPEST];
    int count = ranges_of(o, own);
    if (count) own[count - 1].payload = o->origin.step;
    return count ? begin(&own[count - 1]) : 0;
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
