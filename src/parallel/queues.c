/* Queues of a trainer. */
#include "parallel/queues.h"

queues queues_open(machine *m, bool overlap, bool weight_queue)
{
    static const char *const links[LINKS] = { "forward in", "forward out", "backward in", "backward out" };
    queues l = { .machine = m, .overlap = overlap };
    l.compute = machine_queue(m, "compute");
    l.weight = weight_queue ? machine_queue(m, "weight gradients") : l.compute;
    if (weight_queue) queue_yield(l.weight);
    l.tensor = machine_queue(m, "tensor");
    l.context = machine_queue(m, "context");
    l.gradient = machine_queue(m, "gradient");
    for (int i = 0; i < LINKS; i++) l.link[i] = machine_queue(m, links[i]);
    return l;
}

void queues_transfer(const queues *l, queue *q, const char *name, op o)
{
    queue_follow(q, l->compute);
    queue_wait(l->compute, submit(q, name, o));
}

mark queues_scatter_sum(const queues *l, queue *q, const char *name, group *g, scattered_sum x)
{
    queue_follow(q, l->compute);
    submit(q, name, all_to_all_op(g, x.parts, x.partial));
    mark done = submit(q, name, sum_parts_op(x.out, x.parts));
    queues_wait_unless_overlap(l, done);
    return done;
}

void queues_all_reduce(const queues *l, queue *q, const char *name, group *g, tensor x)
{
    if (g->size > 1) queues_transfer(l, q, name, all_reduce_op(g, x));
}

void queues_wait_unless_overlap(const queues *l, mark m)
{
    if (!l->overlap) queue_wait(l->compute, m);
}
