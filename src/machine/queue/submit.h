/* Operations on their way to a queue: what fillers made is named and handed over. */
#pragma once
#include "base/fail.h"
#include "machine/op/fabric.h"
#include "machine/op/kernels.h"
#include "machine/queue/machine.h"

/* Queues the operation under that name, which must outlive the queue. Ends the program if something is lacking. */
static inline mark submit(queue *q, const char *name, op o)
{
    char text[OP_TEXT];
    o.origin = machine_origin_now(queue_machine(q));
    o.origin.name = name;
    if (o.lacks) FAIL("%s: %s", op_describe(&o, text, sizeof text), o.lacks);
    return op_submit(q, &o);
}
