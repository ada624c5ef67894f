/* Thread blocks of transfers.
 *
 * Transfers that wait for each other across ranks must all be resident at once, one thread block of theirs to a
 * multiprocessor: links, groups with communicators of their own, and of those that take turns one. Where the deck gives
 * them multiprocessors they take no more than those, whether products leave these (train/measure.c) or not, when each
 * block takes one of a product's; else 4 x 8 + 3 x 16 of the 132 of an H100 (108 of an A100). Blocks
 * are powers of two, as NCCL rounds those of sends up, and no clusters: four blocks that start together on one part of
 * the GPU would wait until products leave that. */
#include "machine/cuda/transfers/thread_blocks.h"
#include "base/fail.h"
#include "machine/queue/kind.h"

enum { LINK_BLOCKS = 8, COLLECTIVE_BLOCKS = 16, MOST_BLOCKS = 32 };

static int power_of_two(int most)
{
    int n = 1;
    while (2 * n <= most && n < MOST_BLOCKS) n *= 2;
    return n;
}

/* Links have a quarter of the room. Ranks that share a GPU wait for each other's time slices: the less each has to do
 * in one, the better. */
thread_blocks thread_blocks_granted(void)
{
    machine_room room = machine_room_left();
    thread_blocks b = { LINK_BLOCKS, COLLECTIVE_BLOCKS };
    if (machine_shares_devices()) return (thread_blocks){ 1, 1 };
    if (room.multiprocessors == 0) return b;
    if (room.links) b.link = power_of_two(room.multiprocessors / 4 / room.links);
    b.collective = power_of_two((room.multiprocessors - room.links * b.link) / room.groups);
    if (room.links * b.link + room.groups * b.collective > room.multiprocessors)
        FAIL("transfers would take %d x %d + %d x %d of %d multiprocessors", room.links, b.link, room.groups,
             b.collective, room.multiprocessors);
    return b;
}
