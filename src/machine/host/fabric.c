/* The host fabric. Every transfer is a set of non-blocking MPI messages that the executor polls. Sums are computed
 * here, in rank order. The tag of a message contains its transfer's channel and sequence number.
 *
 * In a large group, a rank receives from at most WINDOW ranks and sends to as many at a time, so that requests and
 * scratch do not grow with the group. Sums receive in rank order: all ranks expect the first WINDOW ranks at the same
 * time, so all these messages arrive, then those of the next window: no deadlock. */
#include "base/fail.h"
#include "base/memory.h"
#include "machine/host/host.h"
#include <mpi.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 30, UNDIVIDED_BYTES = 1 << 14, WINDOW = 16 };

typedef struct {
    int peer, bytes;
} expectation; /* bytes that a receive expects; -1 for a send */

/* The receives or the sends of a transfer. Peers are taken one window at a time. */
typedef struct {
    bool sends, finished;
    int window, next; /* first peer of this window and of the next one, as numbered by peer_at */
    int requests, capacity;
    MPI_Request *request; /* [capacity], like the next two */
    MPI_Status *status;
    expectation *expected;
} messages;

/* all_reduce sums and then gathers, unless every rank sums everything. SCATTERS: all_to_all. */
typedef enum { SUMS, GATHERS, SCATTERS, EXCHANGES } transfer_stage;

/* The tensor that ranks divide. whole: every rank's part is the whole tensor. */
typedef struct {
    char *data;
    dtype type;
    int64_t elements;
    bool whole;
} divided_tensor;
typedef struct {
    int64_t first, count;
} part;

struct host_transfer {
    const op *op;
    const group *group;
    char *scratch;
    transfer_stage stage;
    int stages_done;
    divided_tensor divided;
    messages in, out;
};

static void check(int code, const op *o)
{
    char words[MPI_MAX_ERROR_STRING] = "", what[OP_TEXT];
    int length = 0;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, words, &length);
    FAIL("%s: %s", op_describe(o, what, sizeof what), words);
}

/* The first size is one message for each peer of a window. Parts that are sent in pieces need more. */
static void enlarge(messages *s)
{
    s->capacity = s->capacity ? 2 * s->capacity : WINDOW;
    s->request = reallocate(s->request, s->capacity, sizeof *s->request, "requests");
    s->status = reallocate(s->status, s->capacity, sizeof *s->status, "the status of requests");
    s->expected = reallocate(s->expected, s->capacity, sizeof *s->expected, "expected messages");
}

host_transfer *host_transfer_open(void)
{
    host_transfer *t = allocate(1, sizeof *t, "a transfer");
    t->out.sends = true;
    enlarge(&t->in);
    enlarge(&t->out);
    return t;
}

static void messages_close(messages *s)
{
    free(s->request);
    free(s->status);
    free(s->expected);
}

void host_transfer_close(host_transfer *t)
{
    messages_close(&t->in);
    messages_close(&t->out);
    free(t);
}

static MPI_Request *next_request(messages *s, expectation expected)
{
    if (s->requests == s->capacity) enlarge(s);
    s->expected[s->requests] = expected;
    return &s->request[s->requests++];
}

/* Returns a tag that differs between transfers and their stages. Every MPI supports tags below 32768. */
static int transfer_tag(const fabric_args *f, int stage)
{
    enum { TAGS = 32768, STAGES = 2 };
    uint64_t sequences = TAGS / (STAGES * CHANNELS);
    return (int)((f->sequence % sequences * CHANNELS + (uint64_t)f->group->channel) * STAGES) + stage;
}

static void post(host_transfer *t, messages *s, void *data, size_t bytes, int peer)
{
    const group *g = t->group;
    MPI_Comm comm = MPI_Comm_f2c((MPI_Fint)g->handle);
    int rank = g->handle_first + peer * g->handle_step, tag = transfer_tag(&t->op->args.fabric, t->stages_done);
    for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
        int piece = (int)(bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES);
        char *from = (char *)data + done;
        MPI_Request *request = next_request(s, (expectation){ peer, s->sends ? -1 : piece });
        check(s->sends ? MPI_Isend(from, piece, MPI_BYTE, rank, tag, comm, request)
                       : MPI_Irecv(from, piece, MPI_BYTE, rank, tag, comm, request),
              t->op);
    }
}

/* MPI reports success for a message that is shorter than expected. */
static void check_received(const host_transfer *t, const messages *s, int i)
{
    int bytes;
    char what[OP_TEXT];
    if (s->expected[i].bytes < 0) return;
    check(MPI_Get_count(&s->status[i], MPI_BYTE, &bytes), t->op);
    if (bytes != s->expected[i].bytes)
        FAIL("%s: rank %d of the group sent %d bytes, not %d", op_describe(t->op, what, sizeof what),
             s->expected[i].peer, bytes, s->expected[i].bytes);
}

/* Returns whether all messages of this window are complete. */
static bool messages_done(const host_transfer *t, messages *s)
{
    if (s->requests == 0) return true;
    int done = 0, code = MPI_Testall(s->requests, s->request, &done, s->status);
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < s->requests; i++)
        if (s->status[i].MPI_ERROR != MPI_ERR_PENDING) check(s->status[i].MPI_ERROR, t->op);
    check(code, t->op);
    for (int i = 0; done && i < s->requests; i++) check_received(t, s, i);
    if (done) s->requests = 0;
    return done != 0;
}

/* Parts are as equal as possible; the first is the longest. */
static part part_of(const divided_tensor *d, int ranks, int rank)
{
    if (d->whole) return (part){ 0, d->elements };
    int64_t share = (d->elements + ranks - 1) / ranks, first = share * rank, end = first + share;
    if (first > d->elements) first = d->elements;
    if (end > d->elements) end = d->elements;
    return (part){ first, end - first };
}

static part own_part(const host_transfer *t) { return part_of(&t->divided, t->group->size, t->group->rank); }

static char *part_data(const divided_tensor *d, part p) { return d->data + (size_t)p.first * dtype_bytes(d->type); }
static size_t part_bytes(const divided_tensor *d, part p) { return (size_t)p.count * dtype_bytes(d->type); }
static size_t slot_bytes(const divided_tensor *d, int ranks) { return part_bytes(d, part_of(d, ranks, 0)); }

/* The running sum of earlier windows is in front of the slots. */
static size_t running_sum_bytes(const divided_tensor *d, int ranks)
{
    return ranks > WINDOW ? (size_t)part_of(d, ranks, 0).count * dtype_bytes(rank_sum_type(d->type)) : 0;
}

static char *slots(const host_transfer *t) { return t->scratch + running_sum_bytes(&t->divided, t->group->size); }

/* Returns the i-th peer. Sums receive in rank order; all others begin at the own rank and go around. */
static int peer_at(const host_transfer *t, const messages *s, int i)
{
    const group *g = t->group;
    if (s->sends) return (g->rank + i) % g->size;
    return t->stage == SUMS ? i : (g->rank + g->size - i) % g->size;
}

/* Returns where a part from another rank arrives in an all_to_all. */
static char *arrived_data(const host_transfer *t, part p)
{
    return (char *)t->op->operand[0].tensor.data + (size_t)p.first * dtype_bytes(t->divided.type);
}

static void post_peer(host_transfer *t, messages *s, int peer)
{
    const divided_tensor *d = &t->divided;
    part own = own_part(t), other = part_of(d, t->group->size, peer);
    if (t->stage == SUMS && !s->sends)
        post(t, s, slots(t) + (size_t)(peer - s->window) * slot_bytes(d, t->group->size), part_bytes(d, own), peer);
    else if (t->stage == SCATTERS && !s->sends) post(t, s, arrived_data(t, other), part_bytes(d, other), peer);
    else if ((t->stage == GATHERS) == s->sends) post(t, s, part_data(d, own), part_bytes(d, own), peer);
    else post(t, s, part_data(d, other), part_bytes(d, other), peer);
}

static void post_window(host_transfer *t, messages *s)
{
    int remaining = t->group->size - s->next, end = s->next + (remaining < WINDOW ? remaining : WINDOW);
    s->window = s->next;
    for (; s->next < end; s->next++) {
        int peer = peer_at(t, s, s->next);
        if (peer != t->group->rank) post_peer(t, s, peer);
    }
}

static void start_messages(host_transfer *t, messages *s)
{
    s->next = s->requests = 0;
    s->finished = false;
    post_window(t, s);
}

static void start_stage(host_transfer *t, transfer_stage stage)
{
    t->stage = stage;
    start_messages(t, &t->in);
    start_messages(t, &t->out);
}

/* Adds the parts of the window's ranks, which may include the own part, to the sum of earlier windows. */
static void add_window(host_transfer *t, void *to, dtype to_type)
{
    const divided_tensor *d = &t->divided;
    const group *g = t->group;
    part own = own_part(t);
    bool has_own = g->rank >= t->in.window && g->rank < t->in.next;
    rank_parts parts = { slots(t), slot_bytes(d, g->size), t->in.next - t->in.window,
                         has_own ? g->rank - t->in.window : -1, part_data(d, own) };
    rank_sum(to, to_type, t->in.window ? t->scratch : NULL, &parts, d->type, own.count);
}

/* Returns true when the last window is complete. host_transfer_test adds the last window of a sum. */
static bool messages_advance(host_transfer *t, messages *s)
{
    while (!s->finished && messages_done(t, s)) {
        s->finished = s->next == t->group->size;
        if (s->finished) break;
        if (t->stage == SUMS && !s->sends) add_window(t, t->scratch, rank_sum_type(t->divided.type));
        post_window(t, s);
    }
    return s->finished;
}

static divided_tensor divided_tensor_of(const op *o)
{
    const tensor *x = &o->operand[o->kind == OP_ALL_TO_ALL].tensor;
    bool whole = o->kind == OP_ALL_REDUCE && tensor_span(x) <= UNDIVIDED_BYTES && o->args.fabric.group->size <= WINDOW;
    return (divided_tensor){ x->data, x->type, tensor_elements(x), whole };
}

static void start_exchange(host_transfer *t)
{
    const op *o = t->op;
    t->stage = EXCHANGES;
    t->in.next = t->out.next = t->group->size;
    t->in.requests = t->out.requests = 0;
    t->in.finished = t->out.finished = false;
    for (int i = 0; i < o->operands; i++)
        post(t, o->operand[i].access == READ ? &t->out : &t->in, o->operand[i].tensor.data,
             tensor_span(&o->operand[i].tensor), o->args.fabric.peer[i]);
}

size_t host_transfer_scratch(const op *o)
{
    int ranks = o->args.fabric.group->size;
    if ((o->kind != OP_REDUCE_SCATTER && o->kind != OP_ALL_REDUCE) || ranks == 1) return 0;
    divided_tensor d = divided_tensor_of(o);
    return running_sum_bytes(&d, ranks) + (size_t)(ranks < WINDOW ? ranks : WINDOW) * slot_bytes(&d, ranks);
}

void host_transfer_start(host_transfer *t, const op *o, void *scratch)
{
    t->op = o;
    t->group = o->args.fabric.group;
    t->scratch = scratch;
    t->stages_done = 0;
    if (o->kind == OP_EXCHANGE) {
        start_exchange(t);
        return;
    }
    t->divided = divided_tensor_of(o);
    part own = own_part(t);
    char *own_data = part_data(&t->divided, own);
    const tensor *from = &o->operand[1].tensor;
    if (o->kind == OP_ALL_GATHER && tensor_present(from)) memcpy(own_data, from->data, part_bytes(&t->divided, own));
    if (o->kind == OP_ALL_TO_ALL) memcpy(arrived_data(t, own), own_data, part_bytes(&t->divided, own));
    start_stage(t, o->kind == OP_ALL_GATHER ? GATHERS : o->kind == OP_ALL_TO_ALL ? SCATTERS : SUMS);
}

bool host_transfer_test(host_transfer *t)
{
    bool received = messages_advance(t, &t->in), sent = messages_advance(t, &t->out);
    if (!received || !sent) return false;
    if (t->stage != SUMS) return true;
    add_window(t, part_data(&t->divided, own_part(t)), t->divided.type);
    if (t->op->kind == OP_REDUCE_SCATTER || t->divided.whole) return true;
    t->stages_done = 1;
    start_stage(t, GATHERS);
    return false;
}
