/* The ends of the network: batch and embedding, final norm, head and loss. Vocabulary rows are split over the tensor
 * axis. */
#include "machine/submit.h"
#include "model/stage.h"
#include "parallel/zigzag.h"

static group *tensor_group(stage *s) { return &s->mesh->axis[AXIS_TENSOR]; }
static end_state *state_of(stage *s, int64_t microbatch) { return &s->end[microbatch % s->ends]; }

void make_batch(stage *s, int64_t microbatch)
{
    static const stream_kind streams[] = {
        [TOKENS_UNIFORM] = STREAM_UNIFORM, [TOKENS_RAMP] = STREAM_RAMP, [TOKENS_ZEROS] = STREAM_ZEROS
    };
    const bench_case *c = s->given;
    end_state *m = state_of(s, microbatch);
    origin *o = machine_origin_now(s->queues.machine);
    zigzag z = zigzag_of(&s->mesh->axis[AXIS_CONTEXT], c->model.sequence);
    tokens_args args = { .stream = streams[c->tokens],
                         .labels_next = c->model.labels_next_token,
                         .seed = c->seed,
                         .vocabulary = (uint32_t)c->model.vocabulary,
                         .first_sample = (microbatch * s->data_ranks + s->data_rank) * c->micro_batch,
                         .first = z.first,
                         .skip = z.skip };
    o->phase = PHASE_BATCH;
    tokens(s->queues.compute, "tokens", s->scalars, m->tokens, m->labels, &args);
    o->phase = PHASE_FORWARD;
}

void embed_forward(stage *s, int64_t microbatch, tensor x)
{
    group *g = tensor_group(s);
    param_table *t = &s->params;
    weight_ready(t, t->embedding, s->queues.compute);
    embedding_forward(s->queues.compute, "embedding", state_of(s, microbatch)->tokens, param_weight(t, t->embedding, 1),
                      g->size == 1 ? x : s->embedded, t->row[t->embedding].first_row);
    if (g->size == 1) return;
    queue_follow(s->queues.tensor, s->queues.compute);
    queue_wait(s->queues.compute, reduce_scatter(s->queues.tensor, "embedding", g, x, s->embedded));
}

void embed_backward(stage *s, int64_t microbatch)
{
    param_table *t = &s->params;
    tensor d = sequence_gather(&s->queues, "d_embedding", tensor_group(s), s->dx, s->d_gathered);
    access_mode how = param_contribute(t, t->embedding, 1);
    embedding_backward(s->queues.compute, "embedding_gradient", state_of(s, microbatch)->tokens, d,
                       param_gradient(t, t->embedding, 1), how, t->row[t->embedding].first_row);
    param_contributed(t, t->embedding, 1);
}

/* x_in, y_in: residual stream and the output to add to it (y_in absent: nothing). */
static void final_norm(stage *s, int64_t microbatch, tensor x_in, tensor y_in)
{
    end_state *m = state_of(s, microbatch);
    param_table *t = &s->params;
    bool adds = tensor_present(&y_in);
    m->x = adds ? m->sum : x_in;
    weight_ready(t, t->final_norm, s->queues.compute);
    norm_forward(s->queues.compute, "final_norm",
                 (norm_forward_operands){ .x = tensor_rows(x_in),
                                          .delta = adds ? tensor_rows(y_in) : tensor_none(),
                                          .gain = param_weight(t, t->final_norm, 1),
                                          .sum = adds ? tensor_rows(m->x) : tensor_none(),
                                          .out = tensor_rows(m->normed),
                                          .rstd = m->rstd },
                 (float)s->given->model.norm_epsilon);
}

/* Loss of the microbatch's sequences and, in place of the logits, their gradient. */
static void loss(stage *s, int64_t microbatch)
{
    const bench_case *c = s->given;
    group *g = tensor_group(s);
    int64_t held = s->params.row[s->params.head].first_row, b = c->micro_batch;
    cross_entropy_operands o = { .logits = state_of(s, microbatch)->logits,
                                 .labels = state_of(s, microbatch)->labels,
                                 .partial = s->loss_part,
                                 .loss = tensor_slice(s->loss, 0, microbatch * b, b),
                                 .first = held,
                                 .valid = c->model.vocabulary,
                                 .gradient_scale =
                                     (float)(1.0 / ((double)c->global_batch * (double)c->model.sequence)) };
    cross_entropy_partial(s->queues.compute, "loss", &o);
    tensor part = tensor_4d(s->loss_part.data, F32, 1, s->loss_part.dim[0], b, 3);
    o.partial = sequence_gather(&s->queues, "loss", g, part, s->loss_parts);
    cross_entropy_finish(s->queues.compute, "loss", &o);
}

void head_forward(stage *s, int64_t microbatch, tensor x_in, tensor y_in)
{
    param_table *t = &s->params;
    final_norm(s, microbatch, x_in, y_in);
    weight_ready(t, t->head, s->queues.compute);
    gather_matmul(&s->queues, "head", tensor_group(s),
                  (gathered_product){ .part = state_of(s, microbatch)->normed,
                                      .w = tensor_transposed(param_weight(t, t->head, 1)),
                                      .whole = s->gathered,
                                      .y = state_of(s, microbatch)->logits });
    loss(s, microbatch);
}

static void final_norm_backward(stage *s, int64_t microbatch)
{
    end_state *m = state_of(s, microbatch);
    param_table *t = &s->params;
    access_mode how = param_contribute(t, t->final_norm, 1);
    norm_backward(s->queues.compute, "d_final_norm",
                  (norm_backward_operands){ .d_out = tensor_rows(s->dn),
                                            .x = tensor_rows(m->x),
                                            .rstd = m->rstd,
                                            .gain = param_weight(t, t->final_norm, 1),
                                            .dx = tensor_rows(s->dx),
                                            .gain_gradient = param_gradient(t, t->final_norm, 1),
                                            .dx_access = WRITE,
                                            .gain_access = how });
    param_contributed(t, t->final_norm, 1);
}

/* The head's input, asked for when all that was to be computed before is done. */
static gathering head_input(stage *s, int64_t microbatch)
{
    return sequence_gather_begin(&s->queues, "final_norm", tensor_group(s), state_of(s, microbatch)->normed,
                                 s->gathered, queue_mark(s->queues.compute));
}

static void add_head_gradient(stage *s, int64_t microbatch, gathering x)
{
    param_table *t = &s->params;
    tensor d_logits = tensor_transposed(tensor_rows(state_of(s, microbatch)->logits));
    access_mode how = param_contribute(t, t->head, 1);
    matmul(s->queues.compute, "head_gradient", param_gradient(t, t->head, 1), how, d_logits,
           tensor_rows(sequence_gather_end(&s->queues, x)));
    param_contributed(t, t->head, 1);
}

void head_weight_gradient(stage *s, int64_t microbatch) { add_head_gradient(s, microbatch, head_input(s, microbatch)); }

void head_backward(stage *s, int64_t microbatch)
{
    bool defers = schedule_defers(s->given, microbatch);
    gathering x = { 0 };
    if (!defers) x = head_input(s, microbatch);
    matmul_scatter(&s->queues, "d_head", tensor_group(s),
                   (scattered_product){ .a = tensor_rows(state_of(s, microbatch)->logits),
                                        .w = param_weight(&s->params, s->params.head, 1),
                                        .partial = s->partial,
                                        .out = s->dn });
    if (!defers) add_head_gradient(s, microbatch, x);
    final_norm_backward(s, microbatch);
}
