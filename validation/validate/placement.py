"""Derives from the nodes of ranks which axes of a case lie within a node and which span nodes (src/bench/launch)."""

import collections

from validate.machine import AXES


def groups(s):
    """Yields each axis of more than one rank, with the first rank of every rank's group."""
    stride = 1
    for axis in AXES:
        if s[axis] > 1:
            yield axis, [rank - rank // stride % s[axis] * stride for rank in range(s["ranks"])]
        stride *= s[axis]
    if s["expert"] > 1:
        tensor, span = s["tensor"], s["context"] * s["data"]
        yield "expert", [rank - rank // tensor % span % s["expert"] * tensor for rank in range(s["ranks"])]


def sentence(counts, within, across):
    least, most = min(counts), max(counts)
    ranks = f"{least} to {most}" if least < most else f"{most}"
    where = [", ".join(axes) + word for axes, word in ((within, " within a node"), (across, " across")) if axes]
    nodes = f"{len(counts)} node{'s' * (len(counts) > 1)} of {ranks} rank{'s' * (most > 1)}"
    return nodes + ("; " + ", ".join(where) if where else "")


def check(case, provenance, f):
    s, nodes = case.settings, list(provenance["nodes"])[: case.settings["ranks"]]
    counts = list(collections.Counter(nodes).values())
    crowd = max(collections.Counter(provenance["nodes"]).values())
    f.same("node_ranks", case["results/node_ranks"], crowd)
    f.demand(case["results/quota"] > 0, f"quota is {case['results/quota']}")
    spans = {axis: any(nodes[first] != node for first, node in zip(firsts, nodes)) for axis, firsts in groups(s)}
    within, across = ([axis for axis, apart in spans.items() if apart is wanted] for wanted in (False, True))
    for name, value in (("nodes", len(counts)), ("node_ranks_least", min(counts)), ("node_ranks_most", max(counts))):
        f.same(name, case["results/" + name], value)
    f.demand(case.flag("results/tensor_across") == ("tensor" in across), "tensor_across contradicts the nodes of ranks")
    domains = list(provenance["domains"]) if s["backend"] == "cuda" else nodes
    apart = any(domains[first] != domains[rank] for axis, firsts in groups(s) if axis == "tensor"
                for rank, first in enumerate(firsts))
    f.demand(case.flag("results/tensor_across_domains") == apart,
             "tensor_across_domains contradicts the ranks' domains")
    said, text = case["results/placement"], sentence(counts, within, across)
    text += "; tensor within an NVLink domain" if "tensor" in across and not apart else ""
    f.demand(said == text, f"placement is {said!r}, by the nodes of its ranks {text!r}")
