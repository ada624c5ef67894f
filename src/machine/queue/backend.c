/* What all backends share: what transfers have of the devices, and what ends a run. */
#include "machine/queue/backend.h"
#include "base/fail.h"

/* Process state, as the devices are. */
static bool devices_are_shared;
static machine_room room;

void machine_share_devices(bool yes) { devices_are_shared = yes; }
bool machine_shares_devices(void) { return devices_are_shared; }
void machine_leave_room(machine_room to_transfers) { room = to_transfers; }
machine_room machine_room_left(void) { return room; }

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
