/* The ranges, by header-only NVTX 3, which loads the tool that the environment names. */
#include "machine/ranges/ranges.h"
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>

/* What a range shows. what: a kind of operation, or one of these. number: a phase's chunk, a layer; -1: none. name: of
 * an operation, else empty. payload: the step of a step and of an execution, the microbatch of a phase; -1: none. */
enum { FIRST_PHASE = OP_KINDS, STEP = FIRST_PHASE + PHASES, LAYER, PROFILE, DEEPEST = 3 };
typedef struct {
    int what, number;
    const char *name;
    int64_t payload;
} range;

/* A registered name: an open hash table, in which more names than it holds share one entry. */
enum { LABELS = 8192, LABEL_TEXT = 64 };
typedef struct {
    int what, number;
    char name[LABEL_TEXT];
    nvtxStringHandle_t handle; /* NULL: the entry is free */
} label;

/* Process state, as the tool is. */
static nvtxDomainHandle_t domain;
static bool asked;
static label labels[LABELS];
static range shown[DEEPEST]; /* the open ranges of the last origin */
static int depth;

static bool listens(void)
{
    if (!asked) domain = nvtxDomainCreateA("xgsw");
    asked = true;
    return domain != NULL;
}

static void write_label(char text[2 * LABEL_TEXT], const range *r)
{
    enum { LENGTH = 2 * LABEL_TEXT };
    if (r->what < OP_KINDS) snprintf(text, LENGTH, "%s %.*s", op_kind_name((op_kind)r->what), LABEL_TEXT, r->name);
    else if (r->what == STEP) snprintf(text, LENGTH, "step");
    else if (r->what == LAYER) snprintf(text, LENGTH, "layer %d", r->number);
    else if (r->what == PROFILE) snprintf(text, LENGTH, "profile");
    else if (r->number < 0) snprintf(text, LENGTH, "%s", phase_name((phase)(r->what - FIRST_PHASE)));
    else snprintf(text, LENGTH, "%s, chunk %d", phase_name((phase)(r->what - FIRST_PHASE)), r->number);
}

static nvtxStringHandle_t fill_label(label *l, const range *r)
{
    char text[2 * LABEL_TEXT];
    write_label(text, r);
    l->what = r->what, l->number = r->number;
    snprintf(l->name, sizeof l->name, "%s", r->name);
    return l->handle = nvtxDomainRegisterStringA(domain, text);
}

static uint64_t hash_of(const range *r)
{
    uint64_t hash = (uint64_t)r->what << 32 | (uint32_t)r->number;
    for (const char *c = r->name; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001B3;
    return hash * 0x9E3779B97F4A7C15 >> 40;
}

static nvtxStringHandle_t label_of(const range *r)
{
    uint64_t first = hash_of(r);
    for (uint64_t i = 0; i < LABELS; i++) {
        label *l = &labels[(first + i) % LABELS];
        if (!l->handle) return fill_label(l, r);
        if (l->what == r->what && l->number == r->number && strncmp(l->name, r->name, LABEL_TEXT - 1) == 0)
            return l->handle;
    }
    return labels[first % LABELS].handle;
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

/* ---- what is shown of an operation ---- */

static range range_of(const op *o, int64_t payload)
{
    return (range){ (int)o->kind, -1, o->origin.name ? o->origin.name : "", payload };
}

static int depth_of(const origin *o) { return o->step < 0 ? 0 : o->layer < 0 ? DEEPEST - 1 : DEEPEST; }

/* The range around an operation at that depth, from the outermost, 0. */
static range range_around(const origin *o, int at)
{
    if (at == 0) return (range){ STEP, -1, "", o->step };
    if (at == 1) return (range){ FIRST_PHASE + (int)o->phase, o->chunk, "", o->microbatch };
    return (range){ LAYER, o->layer, "", -1 };
}

static bool is_same(const range *a, const range *b)
{
    return a->what == b->what && a->number == b->number && a->payload == b->payload;
}

static void push(const range *r)
{
    nvtxEventAttributes_t event = event_of(r);
    nvtxDomainRangePushEx(domain, &event);
}

static void close_to(int kept)
{
    for (; depth > kept; depth--) nvtxDomainRangePop(domain);
}

void ranges_name(const op *o)
{
    const range of = range_of(o, -1);
    if (!listens()) return;
    for (int at = 0; at < depth_of(&o->origin); at++) {
        const range around = range_around(&o->origin, at);
        label_of(&around);
    }
    label_of(&of);
}

/* Returns how many of the open ranges are around the operation, too. */
static int kept_for(const origin *o)
{
    int at = 0;
    for (; at < depth && at < depth_of(o); at++) {
        const range around = range_around(o, at);
        if (!is_same(&around, &shown[at])) break;
    }
    return at;
}

void ranges_open(const op *o)
{
    const range of = range_of(o, -1);
    if (!listens()) return;
    close_to(kept_for(&o->origin));
    for (; depth < depth_of(&o->origin); depth++) {
        shown[depth] = range_around(&o->origin, depth);
        push(&shown[depth]);
    }
    push(&of);
}

void ranges_close(void)
{
    if (listens()) nvtxDomainRangePop(domain);
}

void ranges_leave(void) { close_to(0); }

uint64_t ranges_begin(const op *o)
{
    const range of = range_of(o, o->origin.step);
    if (!listens()) return 0;
    nvtxEventAttributes_t event = event_of(&of);
    return nvtxDomainRangeStartEx(domain, &event);
}

void ranges_end(uint64_t begun)
{
    if (listens()) nvtxDomainRangeEnd(domain, begun);
}

void ranges_capture(bool on)
{
    static const range profile = { PROFILE, -1, "", -1 };
    static uint64_t captured;
    if (!listens()) return;
    nvtxEventAttributes_t event = event_of(&profile);
    if (on) captured = nvtxDomainRangeStartEx(domain, &event);
    else nvtxDomainRangeEnd(domain, captured);
}
