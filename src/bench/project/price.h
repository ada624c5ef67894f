/* project/: a case's step on a machine that a sheet describes, by running its queues on the timeline of
 * machine/timeline/timeline.h.
 *
 * Prices of operations. Products: the longest of their flops at the rate that power allows, their bytes at the rate of
 * memory, and whole waves of tiles on the multiprocessors that are not left to transfers. Attention: flops at its rate.
 * Other computing operations: the bytes that they read and write at the rate of memory, after the gap between two
 * kernels. Transfers: latency, then the bytes that leave a rank at the rate of the slowest of link, network and thread
 * blocks; what is gathered or exchanged within an NVLink domain is moved by copy engines.
 *
 * Operations that a sheet lists take their listed time; those with other dimensions take the rate of the nearest listed
 * ones (listed.h). On a host a transfer takes the rank's thread, as computing does. */
#pragma once
#include "machine/timeline/priced.h"
#include "plan/model/room.h"
#include "plan/sheet/sheet.h"

enum { USES_MEMORY, USES_NVLINK, USES_NETWORK };

/* What prices depend on beyond the operation. missing: names of operations that the sheet has no term for. */
enum { MISSING_TEXT = 200 };
typedef struct {
    const machine_sheet *sheet;
    const transfer_room *room;
    char missing[MISSING_TEXT];
} pricing;

/* Ranks of an NVLink domain; a host is one domain. */
enum { HOST_DOMAIN = 1 << 30 };
int sheet_domain(const machine_sheet *s);
/* Returns how many ranks of the group share the domain of its first. */
int group_within(const group *g, int domain);
/* Bytes of its first operand. */
double transfer_bytes(const op *o);
/* g: the transfer's group; NULL: it computes. */
price price_of_op(pricing *p, const op *o, const group *g);
/* Prices of all items of a rank's submissions; owned by the caller. */
price *prices_of(pricing *p, const preparation *work);
