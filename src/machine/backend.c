/* What all backends share. */
#include "machine/backend.h"
#include "base/fail.h"
#include "machine/world.h"

const backend *backend_of(machine_kind kind) { return kind == MACHINE_CUDA ? cuda_backend() : host_backend(); }

void backend_check_scratch(const op *o, size_t needed, size_t given)
{
    char what[OP_TEXT];
    if (needed > given)
        FAIL("%s needs %zu bytes of scratch, its queue has %zu", op_describe(o, what, sizeof what), needed, given);
}

void backend_fail_never(const op *o, const dependency *w)
{
    char what[OP_TEXT];
    FAIL("%s waits for operation %llu of queue %d, which can never complete", op_describe(o, what, sizeof what),
         (unsigned long long)w->serial, w->queue);
}

void backend_fail_stalled(const op *o)
{
    char what[OP_TEXT];
    FAIL_STATUS(STATUS_HANG, "%s: no rank of this node has completed an operation for %.0f s",
                op_describe(o, what, sizeof what), world_stall_seconds());
}
