/* Runner of a layer's steps. */
#include "model/step_call.h"
#include "parallel/origin.h"

void step_forward(step_call *c)
{
    workspace *w = c->work;
    for (int i = 0; c->step->makes[i] != SLOT_NONE; i++) workspace_await(w, w->queues.compute, step_made(c, i));
    fp8_await_made(c);
    c->step->kind->forward(c);
    fp8_encode_made(c);
}

/* A norm writes the gradient of the sum that it makes; all other steps write the gradients of what they read. */
void step_backward(step_call *c)
{
    workspace *w = c->work;
    for (int i = 0; c->step->reads[i] != SLOT_NONE; i++) workspace_await(w, w->queues.compute, step_d_read(c, i));
    for (int i = 0; c->step->makes[i] != SLOT_NONE; i++) workspace_await(w, w->queues.compute, step_d_made(c, i));
    c->step->kind->backward(c);
}

residual layer_forward(workspace *w, int64_t layer, tensor *slot, residual in)
{
    const family *f = w->family;
    step_call c = { .work = w, .layer = layer, .slot = slot, .in = in };
    origin before = origin_layer(w->queues.machine, PHASE_FORWARD, layer);
    for (int i = 0; i < f->layer.count; i++) {
        c.step = &f->layer.step[i];
        step_forward(&c);
    }
    origin_restore(w->queues.machine, before);
    return (residual){ slot[f->sum], slot[f->delta] };
}

/* Computes what the policy dropped. The layer's input is on the tape, so the first norm has nothing to add. */
static void recompute(step_call *c)
{
    workspace *w = c->work;
    origin before = origin_phase(w->queues.machine, PHASE_RECOMPUTE);
    c->in = (residual){ .x = c->slot[SLOT_INPUT] };
    c->again = true;
    for (int i = 0; i < w->family->layer.count; i++) {
        c->step = &w->family->layer.step[i];
        if (w->again >> i & 1u) step_forward(c);
    }
    c->again = false;
    origin_restore(w->queues.machine, before);
}

static void prepare(step_call *c)
{
    const step_list *l = &c->work->family->layer;
    for (c->step = l->step; c->step < l->step + l->count; c->step++)
        if (c->step->kind->before_backward) c->step->kind->before_backward(c);
}

void layer_backward(workspace *w, int64_t layer, tensor *slot, tensor dx)
{
    step_call c = { .work = w, .layer = layer, .slot = slot, .dx = dx, .dx_access = UPDATE };
    origin before = origin_layer(w->queues.machine, PHASE_BACKWARD, layer);
    recompute(&c);
    prepare(&c);
    for (int i = w->family->layer.count - 1; i >= 0; i--) {
        c.step = &w->family->layer.step[i];
        step_backward(&c);
    }
    origin_restore(w->queues.machine, before);
}
