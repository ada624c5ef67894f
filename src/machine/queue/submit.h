/* Submission of operations as the constructors of machine/op/ return them. */
#pragma once
#include "base/fail.h"
#include "machine/op/fabric.h"
#include "machine/op/kernels.h"
#include "machine/queue/machine.h"

/* Submits the operation under that name, which must outlive the queue. Ends the program if op.error is set. */
static inline mark submit(queue *q, const char *name, op o)
{
    char text[OP_TEXT];
    o.origin = machine_origin_now(queue_machine(q));
    o.origin.name = name;
    if (o.error) FAIL("%s: %s", op_describe(&o, text, sizeof text), o.error);
    return op_submit(q, &o);
}
