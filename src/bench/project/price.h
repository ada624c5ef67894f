/* project/: the step time of a case on the machine that a sheet describes. The queues of the case run on the timeline
 * (machine/timeline/timeline.h) with a price, its duration, for each operation.
 *
 * The price of a product is the longest of three times: its flops at the sheet's rate, its bytes at the memory rate,
 * and whole waves of tiles on the multiprocessors that are not left to transfers. Attention: its flops at the rate of
 * attention. Other computing: its bytes at the memory rate. All start after the gap between two kernels. Transfers:
 * latency, then the bytes that a rank sends at the slowest rate of link, network and thread blocks. Copy engines do
 * all_gather and all_to_all within an NVLink domain.
 *
 * An operation that the sheet lists takes its listed time; with other dimensions, it takes the rate of the nearest
 * listed operations (listed.h). On a host a transfer occupies the rank's thread, as computing does. */
#pragma once
#include "machine/timeline/priced.h"
#include "plan/model/sm_shares.h"
#include "plan/sheet/sheet.h"

enum { USES_MEMORY, USES_NVLINK, USES_NETWORK };

/* Context of prices. missing: names of the kinds of operation that the sheet has no time for. */
enum { MISSING_TEXT = 200 };
typedef struct {
    const machine_sheet *sheet;
    const sm_shares *shares;
    char missing[MISSING_TEXT];
} pricing;

/* Returns the ranks in an NVLink domain, or HOST_DOMAIN: a host is one domain. */
enum { HOST_DOMAIN = 1 << 30 };
int sheet_domain(const machine_sheet *s);
/* Returns how many ranks of the group are in the domain of its first rank. */
int group_within(const group *g, int domain);
/* Returns the bytes of the first operand. */
double transfer_bytes(const op *o);
/* Returns the price of an operation. g: group of a transfer; NULL for computing. */
price price_of_op(pricing *p, const op *o, const group *g);
/* Returns the prices of all items of a rank's submissions, owned by the caller. */
price *prices_of(pricing *p, const preparation *work);
