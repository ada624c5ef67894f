"""Makes a record of many ranks and cases from the first case of a small real record. Tiles its tables and adds noise,
one slow GPU and one slightly slow node. Nodes have eight GPUs, whose samples and names are invented."""

from dataclasses import asdict

import h5py
import numpy as np

import runs  # noqa: F401: lets Python find validate
from validate import formulas, machine, placement, rules, slow
from validate.record import read_record

GPUS, SLOW, NODE, SAMPLES = 8, 1.25, 1.056, 12
DEVICE = "NVIDIA H100 80GB HBM3"


def host(rank):
    return f"nid{100000 + rank // GPUS}"


def put_provenance(p, ranks):
    first = np.arange(ranks) // GPUS * GPUS
    p.update(hosts=[host(rank) for rank in range(ranks)], nodes=first, domains=first, device_name=[DEVICE] * ranks,
             environment=["OMP_NUM_THREADS=1"], written="2100-01-01T00:00:00Z",
             device_driver=["570.00"] * ranks, device_identity=[f"GPU-{rank:08x}-0000-test" for rank in range(ranks)],
             device_ecc=np.ones(ranks, int), device_memory=np.full(ranks, 8e10),
             device_multiprocessors=np.full(ranks, 132), device_serial=[f"16{rank:08d}" for rank in range(ranks)],
             device_bus=[f"00000000:{16 + rank % GPUS:02X}:00.0" for rank in range(ranks)],
             device_power_limit=np.full(ranks, 700.0), device_clock_limit=np.full(ranks, 1.98e9), switches=[""] * ranks)


def put_tables(v, s, slow_rank, slow_node, random):
    """Gives each rank its own computing with noise. The others wait for the slowest in the sum of gradients."""
    shape = len(v["steps/step"]), s["ranks"]
    tables = {name: np.resize(np.median(v["ranks/" + name], axis=0), shape) for name in slow.TABLES}
    waits = sum(tables["exposed_" + axis] for axis in slow.EXPOSED)
    own = np.full(shape, 2 * np.mean(waits)) * random.normal(1, 0.004, shape) * random.normal(1, 0.004, s["ranks"])
    own[:, slow_rank] *= SLOW
    own[:, slow_node * GPUS : (slow_node + 1) * GPUS] *= NODE
    own[len(own) // 2, -3] *= 2.4
    busy = own + waits
    longest = busy.max(axis=1, keepdims=True)
    tables["exposed_gradient"] += longest - busy
    tables.update(computing_seconds=own, run_delay_seconds=0 * own, rank_seconds=1.02 * longest + 0 * own)
    v.update({"ranks/" + name: table for name, table in tables.items()})
    v["ranks/rank"], v["steps/step_seconds"] = np.arange(s["ranks"]), 1.02 * longest[:, 0]
    for name in ("computing_flops", "computing_bytes"):
        v["ranks/" + name] = np.full(s["ranks"], v["ranks/" + name][0])
    paces = slow.paces(own[s["warmup"] :], [list(range(s["ranks"]))])
    v.update(zip(("ranks/peers", "ranks/excess", "ranks/excess_error"), paces))
    v["steps/begin_seconds"] = np.cumsum(v["steps/step_seconds"]) - v["steps/step_seconds"]
    put_sums(v, own[s["warmup"] :].sum(axis=0), v["steps/step_seconds"][s["warmup"] :].sum())


def put_sums(v, computed, window):
    """Copies rank 0's sums to all ranks. Scales those of phases and operations to each rank's computing time."""
    ranks = len(computed)
    for name in (path for path in v if path.startswith("rank_sums/") and path != "rank_sums/axis"):
        v[name] = np.resize(v[name], (ranks, *v[name].shape[1:]))
    part = v["rank_sums/phase_seconds"][0] / v["rank_sums/phase_seconds"][0].sum()
    kinds = np.isin(v["operations/name"], machine.TRANSFERS, invert=True)
    v["operations/seconds"][kinds] *= computed[0] / v["phases/seconds"].sum()
    v["phases/seconds"] = part * computed[0]
    v.update({"rank_sums/rank": np.arange(ranks), "rank_sums/phase_seconds": np.outer(computed, part),
              "rank_sums/idle_seconds": np.full(ranks, window)})
    for name in ("messages", "bytes", "seconds"):
        v[f"rank_sums/transfer_{name}"][:] = v[f"rank_sums/transfer_{name}"][0]


def put_samples(v, ranks, slow_rank, random, window):
    count = ranks * SAMPLES
    rank = np.repeat(np.arange(ranks), SAMPLES)
    values = {"rank": rank, "seconds": np.tile(np.linspace(0.01, 0.99, SAMPLES) * window, ranks),
              "clock": np.where(rank == slow_rank, 1.275e9, random.normal(1.74e9, 5e6, count)),
              "temperature": np.where(rank == slow_rank, 84.5, random.normal(64, 1.5, count)),
              "power": random.normal(640, 8, count), "clock_events": np.zeros(count, int)}
    for path in v:
        group, name = path.split("/")
        if group == "samples":
            known = name.removesuffix("_least").removesuffix("_most")
            v[path] = values.get(known, np.full(count, np.nan))
        elif group == "devices":
            v[path] = [""] * ranks if "throttled" in name else np.full(ranks, 1.74e9)


def judge(case, slow_rank, began):
    """Sets the results that follow from the tables. Names the slow rank, and expects a higher speed than the case has.
    Returns the time at which the case ended."""
    v, s, seconds = case.values, case.settings, case.measured
    tokens, nodes, results = s["sequence"] * s["global_batch"], s["ranks"] // GPUS, formulas.speed(s, DEVICE, seconds)
    results, within = asdict(results), ["tensor"] * (s["tensor"] > 1)
    excess, error = (100 * v["ranks/" + name][slow_rank] for name in ("excess", "excess_error"))
    results.update(
        tokens_per_step=tokens, device=DEVICE, begin_seconds=began, peak_source=formulas.peak_of(s, DEVICE)[1],
        clocks_unknown="", valid=False, spread=rules.spread_of(seconds),
        drift=rules.drift_of(seconds), idle_seconds=seconds.sum(), total_seconds=v["ranks/rank_seconds"].sum(axis=0)[0],
        node_ranks=GPUS, node_ranks_least=GPUS, node_ranks_most=GPUS, nodes=nodes,
        placement=placement.sentence([GPUS] * nodes, within, ["data"]), invalid_rules=["outlier"],
        invalid_ranks=np.array([slow_rank]), invalid_reasons=[
            f"outlier rank {slow_rank} on {host(slow_rank)}: computes {excess:.1f} % (+- {error:.1f} %) longer than "
            f"{s['ranks'] - 1} peers"])
    v.update({"results/" + name: value for name, value in results.items()})
    slow_ones = list(slow.slow_steps(case))
    v.update({"results/slow_steps": len(slow_ones), "results/slow_step_names": ", ".join(slow_ones)})
    expected = tokens / seconds.mean() / 0.909
    s.update(validity="NOT VALID", verdict="PASSED", acceptance="NOT ACCEPTED", not_accepted="too slow",
             expected_tokens_per_second=expected, expect=str(expected))
    return began + v["results/total_seconds"]


def stored(value):
    """Returns text in the form in which records store it."""
    texts = isinstance(value, str) or isinstance(value, list) and value and isinstance(value[0], str)
    return np.array(value).astype("S") if texts else value


def write(group, values, attributes, like):
    group.attrs.update({name: stored(value) for name, value in attributes.items()})
    for path, value in values.items():
        group[path] = stored(value) if len(np.shape(value)) == 0 or len(value) else like[path][()]
        group[path].attrs.update(like[path].attrs)
    like.visititems(lambda path, item: group.require_group(path).attrs.update(item.attrs)
                    if isinstance(item, h5py.Group) else None)


def multiply(source, target, ranks, cases, slow_rank, slow_node):
    random, small, began = np.random.default_rng(1), read_record(source), 0.0
    put_provenance(small.provenance, ranks)
    with h5py.File(source, "r") as old, h5py.File(target, "w") as file:
        file.attrs.update({**old.attrs, "cases_planned": cases, "passed": cases, "failed": 0, "skipped": 0})
        write(file.create_group("provenance"), small.provenance, {}, old["provenance"])
        for number in range(1, cases + 1):
            case = read_record(source).cases[0]
            v, s = case.values, case.settings
            grown = ranks // s["ranks"]
            s.update(case=number, ranks=ranks, world_ranks=ranks, data=s["data"] * grown, repeat=1, repeats=1,
                     global_batch=s["global_batch"] * grown, backend="cuda")
            put_tables(v, s, slow_rank, slow_node, random)
            put_samples(v, ranks, slow_rank, random, case.measured.sum())
            began = judge(case, slow_rank, began)
            write(file.create_group(f"case_{number:04d}"), v, s, old["case_0001"])
