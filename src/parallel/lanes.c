/* Queues of a trainer. */
#include "parallel/lanes.h"

lanes lanes_open(machine *m)
{
    return (lanes){ m, machine_queue(m, "compute"), machine_queue(m, "tensor"), machine_queue(m, "context"), machine_queue(m, "gradient") };
}

void lane_follow(queue *to, const queue *from) { queue_wait(to, queue_mark(from)); }
