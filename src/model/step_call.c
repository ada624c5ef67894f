/* The workspace of steps, their operands and their parameters. */
#include "model/step_call.h"

static void open_gradients(workspace *w, arena *a)
{
    const family *f = w->family;
    for (int i = SLOT_INPUT + 1; i < f->slots; i++)
        if (f->slot[i].gradient == i) w->gradient[i] = tensor_taken(a, ACTIVATIONS, f->slot[i].shape(&w->extents));
}

static void open_kinds(workspace *w, arena *a)
{
    for (int i = 0; i < w->family->layer.count; i++) {
        const step_kind *kind = w->family->layer.step[i].kind;
        if (kind->open) kind->open(w, a);
    }
}

static const layer_step *last_gathering(const step_list *l)
{
    const layer_step *s = l->step + l->count - 1;
    while (s > l->step && !s->kind->gathers) s--;
    return s;
}

void workspace_open(workspace *w, arena *a)
{
    const rank_extents *n = &w->extents;
    const layer_step *last = last_gathering(&w->family->layer);
    tensor whole = tensor_3d(NULL, n->type, n->positions, n->batch, n->hidden);
    recomputing runs = recomputing_of(w->family, w->given->recompute, fp8_mode_of(w->given) == FP8_ENCODES);
    w->again = runs.again;
    w->still_gathered = w->again >> (last - w->family->layer.step) & 1u ? last : NULL;
    open_gradients(w, a);
    open_kinds(w, a);
    fp8_open(&w->fp8, w->given, w->family, n, runs.kept_as_rows, a);
    scattered_sum imitated = imitation_open(&w->tensor, whole, a);
    w->partial = imitated.partial, w->parts = imitated.parts;
    if (w->tensor.ranks->size == 1) return;
    tensor *buffer[] = { &w->gathered, &w->d_gathered, &w->partial, &w->parts };
    for (int i = 0; i < 4; i++) *buffer[i] = tensor_taken(a, ACTIVATIONS, whole);
}

void workspace_protect(workspace *w, tensor x, mark until)
{
    int at = w->next_late_read;
    w->next_late_read = (at + 1) % LATE_READS;
    queue_wait(w->queues.compute, w->late_read[at].until);
    w->late_read[at].data = x.data;
    w->late_read[at].scale = x.scale;
    w->late_read[at].until = until;
}

void workspace_await(const workspace *w, queue *q, tensor x)
{
    for (int i = 0; tensor_present(&x) && i < LATE_READS; i++)
        if (w->late_read[i].data == x.data || w->late_read[i].scale == x.data) queue_wait(q, w->late_read[i].until);
}

scattered_sum workspace_sum(const workspace *w, tensor out)
{
    return (scattered_sum){ .partial = w->partial, .parts = w->parts, .out = out };
}

static tensor gradient(const step_call *c, int slot)
{
    int buffer = c->work->family->slot[slot].gradient;
    if (buffer == GRADIENT_IN_PLACE) return c->slot[slot];
    return buffer == SLOT_INPUT ? c->dx : c->work->gradient[buffer];
}

tensor step_read(const step_call *c, int place) { return c->slot[c->step->reads[place]]; }
tensor step_made(const step_call *c, int place) { return c->slot[c->step->makes[place]]; }
tensor step_d_read(const step_call *c, int place) { return gradient(c, c->step->reads[place]); }
tensor step_d_made(const step_call *c, int place) { return gradient(c, c->step->makes[place]); }

int step_row(const step_call *c, param_rows rows)
{
    return param_row(c->work->params, rows.first, c->layer) + (int)c->part * rows.count;
}

column_runs step_runs(const step_call *c, weight_use use, int64_t columns)
{
    column_runs r = { .count = 1, .columns = { columns } };
    if (use == USE_FORWARD) return r;
    const param *p = &c->work->params->row[param_row(c->work->params, c->step->weight.first, c->layer)];
    for (r.count = 0; r.count < c->step->weight.count; r.count++) r.columns[r.count] = p[r.count].part.rows;
    return r;
}

tensor step_borrow(const step_call *c, param_rows rows, weight_use use)
{
    if (rows.count == 0) return tensor_none();
    return weight_borrow(c->work->params, step_row(c, rows), rows.count, use, c->work->queues.compute);
}

void step_return(const step_call *c, param_rows rows, weight_use use)
{
    if (rows.count) weight_return(c->work->params, step_row(c, rows), rows.count, use, c->work->queues.compute);
}

contribution step_contribute(const step_call *c, param_rows rows, queue *q)
{
    param_table *t = c->work->params;
    if (rows.count == 0) return (contribution){ tensor_none(), WRITE };
    int row = step_row(c, rows);
    access_mode access = param_contribute(t, row, rows.count, q);
    return (contribution){ param_gradient(t, row, rows.count), access };
}

void step_contributed(const step_call *c, param_rows rows, queue *q)
{
    if (rows.count) param_contributed(c->work->params, step_row(c, rows), rows.count, q);
}
