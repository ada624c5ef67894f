/* The queues of one trainer, and the order between them. */
#pragma once
#include "machine/fabric.h"

typedef struct {
    machine *machine;
    queue *compute;         /* kernels and products */
    queue *tensor;          /* transfers of the tensor axis */
    queue *context;         /* transfers of the context axis */
    queue *gradient;        /* gradients reduced and weights gathered over data x shard x context */
} lanes;

lanes lanes_open(machine *m);
/* What `to` submits next waits for all that `from` has submitted. */
void lane_follow(queue *to, const queue *from);
