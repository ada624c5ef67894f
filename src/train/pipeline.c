/* Submits the actions of a schedule and their transfers. With overlap, the input of an action is received during the
 * previous action, and each link has a separate queue, so that transfers run next to computation. A sender waits for a
 * send only when it needs the buffer again, because interleaved stages that waited for every send would deadlock. */
#include "parallel/origin.h"
#include "train/trainer.h"

/* The input of an action: an activation on the tape, or a gradient in this buffer. */
typedef struct {
    mark arrived;
    boundary_buffer *gradient;
} arrival;

static mark receive(trainer *t, mesh_link link, const char *name, tensor into)
{
    queue *q = t->queues.link[link];
    transfer one = { .send = false, .peer = 0, .tensor = into };
    return submit(q, name, exchange_op(&t->mesh->link[link], &one, 1));
}

static mark send(trainer *t, mesh_link link, const char *name, tensor from)
{
    queue *q = t->queues.link[link];
    transfer one = { .send = true, .peer = 1, .tensor = from };
    queue_follow(q, t->queues.compute);
    return submit(q, name, exchange_op(&t->mesh->link[link], &one, 1));
}

static void set_origin(trainer *t, const schedule_action *a)
{
    origin_microbatch(t->machine, a->verb == FORWARD ? PHASE_FORWARD : PHASE_BACKWARD, a->chunk, a->microbatch);
}

/* Submits the receive of action i's input. The tape's buffer is free after all earlier computation. */
static arrival receive_input(trainer *t, int64_t i)
{
    const schedule_action *a = &t->schedule.action[i];
    arrival r = { .gradient = NULL };
    if (i >= t->schedule.length || !tape_received(t->stage.chunk, a)) return r;
    set_origin(t, a);
    if (a->verb == FORWARD) {
        tape_take_input(&t->stage.tape, a->chunk, a->microbatch);
        queue_follow(t->queues.link[LINK_FORWARD_IN], t->queues.compute);
        r.arrived = receive(t, LINK_FORWARD_IN, "activation", tape_input(&t->stage.tape, a->chunk, a->microbatch));
    } else {
        r.gradient = boundary_next(&t->stage.gradients, t->queues.link[LINK_BACKWARD_IN]);
        if (!t->queues.overlap) queue_follow(t->queues.link[LINK_BACKWARD_IN], t->queues.compute);
        r.arrived = receive(t, LINK_BACKWARD_IN, "gradient", r.gradient->tensor);
    }
    return r;
}

/* Makes both queues wait, because the first reader is either a kernel or a gather over the tensor ranks. */
static void wait_for_input(trainer *t, const arrival *in)
{
    queue_wait(t->queues.compute, in->arrived);
    queue_wait(t->queues.tensor, in->arrived);
}

static void forward(trainer *t, const schedule_action *a, const arrival *in)
{
    const chunk_extent *e = &t->stage.chunk[a->chunk];
    queue *compute = t->queues.compute;
    wait_for_input(t, in);
    if (!tape_received(t->stage.chunk, a)) tape_take_input(&t->stage.tape, a->chunk, a->microbatch);
    if (e->has_loss) {
        stage_forward(&t->stage, a->chunk, a->microbatch, tensor_none());
        return;
    }
    boundary_buffer *out = boundary_next(&t->stage.outputs, compute);
    stage_forward(&t->stage, a->chunk, a->microbatch, out->tensor);
    out->last_use = send(t, LINK_FORWARD_OUT, "activation", out->tensor);
}

static void backward(trainer *t, const schedule_action *a, const arrival *in)
{
    queue *compute = t->queues.compute;
    boundary_buffer *b = in->gradient ? in->gradient : boundary_next(&t->stage.gradients, compute);
    wait_for_input(t, in);
    stage_backward(&t->stage, a->chunk, a->microbatch, b->tensor);
    b->last_use = t->stage.chunk[a->chunk].has_embedding ? queue_mark(compute)
                                                         : send(t, LINK_BACKWARD_OUT, "gradient", b->tensor);
}

/* The queue of received gradients waits for the previous step here: at the first gradient, the hazard checker may no
 * longer know the order of that step's operations. */
void pipeline_submit(trainer *t)
{
    const int ahead = t->queues.overlap ? 1 : 0;
    queue_follow(t->queues.link[LINK_BACKWARD_IN], t->queues.compute);
    arrival in[2] = { { .gradient = NULL } }; /* input of action i: in[i mod 2] */
    if (ahead) in[0] = receive_input(t, 0);
    for (int64_t i = 0; i < t->schedule.length; i++) {
        const schedule_action *a = &t->schedule.action[i];
        in[(i + ahead) % 2] = receive_input(t, i + ahead);
        set_origin(t, a);
        if (a->verb == FORWARD) forward(t, a, &in[i % 2]);
        else if (a->verb == BACKWARD) backward(t, a, &in[i % 2]);
        else stage_backward_weight(&t->stage, a->microbatch);
    }
}
