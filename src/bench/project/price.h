/* project/: a case's step on a machine that a sheet describes, by running its queues on the timeline of
 * machine/timeline/timeline.h.
 *
 * Prices of operations. Products: the longest of their flops at the rate that power allows, their bytes at the rate of
 * memory, and the listed seconds or those of whole waves of tiles, on the multiprocessors that are not left to
 * transfers. Attention: flops at its rate. Other computing operations: the bytes that they read and write at the rate
 * of memory, after the gap between two kernels.
 * Transfers: latency, then the bytes that leave a rank at the rate of the slowest of link, network and thread blocks;
 * what is gathered or exchanged within an NVLink domain is moved by copy engines. */
#pragma once
#include "machine/timeline/priced.h"
#include "plan/model/room.h"
#include "plan/sheet/sheet.h"

enum { USES_MEMORY, USES_NVLINK, USES_NETWORK };

/* What prices depend on beyond the operation. */
typedef struct {
    const machine_sheet *sheet;
    const transfer_room *room;
} pricing;

/* g: the transfer's group; NULL: it computes. */
price price_of_op(const pricing *p, const op *o, const group *g);
/* Prices of all items of a rank's submissions; owned by the caller. */
price *prices_of(const pricing *p, const preparation *work);
