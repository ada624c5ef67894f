/* Settings shared by all backends: device sharing, thread blocks of transfers; fatal errors. */
#include "machine/queue/backend.h"
#include "base/fail.h"

/* Process-wide state, because the devices belong to the process. */
static bool devices_are_shared, bits_repeat;
static transfer_blocks blocks = { 8, 16, 16 };

void machine_share_devices(bool yes) { devices_are_shared = yes; }
bool machine_shares_devices(void) { return devices_are_shared; }
void machine_repeat_bits(bool yes) { bits_repeat = yes; }
bool machine_repeats_bits(void) { return bits_repeat; }
void machine_set_blocks(transfer_blocks of_communicators) { blocks = of_communicators; }
/* Ranks that share a GPU run in turns (time slices). Transfers of one block need little of a turn. */
transfer_blocks machine_blocks(void) { return devices_are_shared ? (transfer_blocks){ 1, 1, 1 } : blocks; }

void backend_check_scratch(const op *o, size_t needed, size_t given)
{
    char what[OP_TEXT];
    if (needed > given)
        FAIL("%s needs %zu bytes of scratch, its queue has %zu", op_describe(o, what, sizeof what), needed, given);
}

void backend_fail_deadlock(const op *o, const dependency *w)
{
    char what[OP_TEXT];
    FAIL("%s waits for operation %llu of queue %d, which can never complete", op_describe(o, what, sizeof what),
         (unsigned long long)w->serial, w->queue);
}
