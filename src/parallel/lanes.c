/* Queues of a trainer. */
#include "parallel/lanes.h"

lanes lanes_open(machine *m, bool overlap)
{
    lanes l = { .machine = m, .overlap = overlap };
    l.compute = machine_queue(m, "compute");
    l.tensor = machine_queue(m, "tensor");
    l.context = machine_queue(m, "context");
    l.gradient = machine_queue(m, "gradient");
    if (overlap) l.tensor_back = machine_queue(m, "tensor back");
    return l;
}

void lane_follow(queue *to, const queue *from) { queue_wait(to, queue_mark(from)); }
