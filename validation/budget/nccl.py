"""Thread blocks (CTAs) and bytes a second that NCCL 2.28 gives a transfer: own arithmetic after what its documentation
and planning say. The groups are configured as in machine/cuda/transfers/thread_blocks.c; NCCL_* variables are not set.

- Copy engines move all_gather and all_to_all, without CTAs, in one NVLink domain, from memory that is registered as a
  symmetric window, under CTAPolicy zero. Reductions, and groups across nodes, take kernels.
- A collective's ring has as many CTAs as maxCTAs allows, fewer while it has under 32 KiB (512 threads x 64 bytes) each.
- A send or receive is given as many CTAs as leave each rank of the communicator one, at least 1; twice as many while a
  part is larger than 32 chunks of 512 KiB (NVLink) or one of 128 KiB (network), up to as many as a peer may have: over
  the network 400 Gb/s in parts of 14 GB/s, rounded up to a power of two."""
from layouts import NODE
from machine import of

COLLECTIVE_CTAS, LINK_CTAS = 16, 8      # where products leave transfers no multiprocessors
LEFT, LINKS = 16, 4                     # the default of transfer_sms with tensor > 1; of a pipeline's stage
THREADS, BYTES_A_THREAD = 512, 64
NVLINK_PART, NETWORK_PART = 32 * 512 * 1024, 128 * 1024
NETWORK_CTAS = 4                        # of one peer: 50 / 14, rounded up


def granted(x):
    """(maxCTAs of a link, of any other group) of a layout."""
    links, groups = LINKS * (x.pipeline > 1), 1 + (x.tensor > 1) + (x.context > 1)
    if x.tensor == 1:
        return LINK_CTAS, COLLECTIVE_CTAS
    link = power_of_two(LEFT // 4 // links) if links else LINK_CTAS
    return link, power_of_two((LEFT - links * link) // groups)


def power_of_two(most):
    return 1 << max(most, 1).bit_length() - 1


class Group:
    """Ranks that lie `stride` apart, with at most so many CTAs."""

    def __init__(self, ranks, stride, most=COLLECTIVE_CTAS):
        self.ranks, self.stride, self.most = ranks, stride, most
        self.of_node = max(1, min(ranks, NODE // stride))
        self.nodes = -(-ranks // self.of_node)

    @property
    def link(self):
        """Bytes a second, each way and GPU: a group's ring leaves a node over the network cards of its ranks there."""
        return of("nvlink") if self.nodes == 1 else min(of("nvlink"), self.of_node * of("network"))


def collective_ctas(group, whole):
    """Of a ring that moves a whole of so many bytes."""
    return max(1, min(group.most, whole // (THREADS * BYTES_A_THREAD)))


def link_ctas(group, part):
    """Of a send or receive of so many bytes, all ranks at once."""
    channels = group.most
    most = channels if group.nodes == 1 else min(channels, NETWORK_CTAS)
    largest = NVLINK_PART if group.nodes == 1 else NETWORK_PART
    ctas = most
    while ctas * group.ranks > channels and ctas > 1:
        ctas //= 2
    while part / ctas > largest and ctas <= most // 2:
        ctas *= 2
    return ctas


def kernel_seconds(group, ctas, sent):
    latency = of("latency") * (1 if group.nodes == 1 else 2)
    return latency + sent / min(group.link, ctas * of("thread block"))


def collective(group, whole, reduces):
    """(bytes that leave each GPU, way, CTAs, seconds) of a gather or a sum over ranks, of a whole of so many bytes."""
    sent = whole * (group.ranks - 1) / group.ranks
    if group.nodes == 1 and not reduces:
        return sent, "copy engines", 0, of("copy latency") + sent / group.link
    ctas = collective_ctas(group, whole)
    return sent, "ring", ctas, kernel_seconds(group, ctas, sent)


def exchange(group, whole):
    """The same of an all-to-all: each rank has `whole` bytes, an equal part for every rank. Across nodes what is for
    other nodes leaves through the rank's own card."""
    sent = whole * (group.ranks - 1) / group.ranks
    if group.nodes == 1:
        return sent, "copy engines", 0, of("copy latency") + sent / group.link
    ctas = min(group.most, link_ctas(group, whole / group.ranks) * (group.ranks - 1))
    outside = whole * (group.ranks - group.of_node) / group.ranks / of("network")
    return sent, "sends", ctas, max(kernel_seconds(group, ctas, sent), 2 * of("latency") + outside)


def send(group, part):
    """The same of one message to a neighbour."""
    ctas = link_ctas(group, part)
    return part, "send", ctas, kernel_seconds(group, ctas, part)
