"""The content of the template page.html: a case in full, its links, and what ran."""

import os

import numpy as np
from matplotlib.ticker import MaxNLocator

from validate import slow, views
from validate.findings import count
from validate.html import drawing, number, percent, picture, scaled, whole
from validate.outcome import CHECK, THRESHOLD
from validate.page import drawings, maps
from validate.page.verdict import why_no_excess
from validate.record import Unreadable, read_links

# A rank below this part of the median speed of transfers is named.
SLOW_LINK = 0.95
FROM_HOST = "operations differ from the host's"
RAN = ("git_commit", "dirty", "build_date", "build_compiler", "build_flags", "build_mpi", "mpi_library", "cuda_library",
       "products_library", "hdf5_library", "processor", "processors", "threads", "kernel", "command_line", "deck_name",
       "started", "written", "binary_sha256")


def transfers(case):
    """Returns rows of (group and kind, messages, bytes of one, bytes/s) of rank 0, and sentences on slow ranks."""
    names = ("name", "messages", "bytes", "bytes_per_second")
    rows = [(name, messages, size / max(messages, 1), speed) for name, messages, size, speed in
            zip(*(case.values["transfer_kinds/" + name] for name in names))]
    return rows, list(slowest_links(case))


def slowest_links(case):
    """Names for each axis the rank that transfers most slowly, if the record has the sums of all ranks."""
    if "rank_sums/axis" not in case.values:
        return
    moved, spent = (case.values["rank_sums/transfer_" + part] for part in ("bytes", "seconds"))
    for axis, size, time in zip(case.values["rank_sums/axis"], moved.T, spent.T):
        ranks = np.flatnonzero(time > 0)
        if len(ranks) > 1 and size.any():
            speed = size[ranks] / time[ranks]
            slow, median = int(np.argmin(speed)), np.median(speed)
            if speed[slow] < SLOW_LINK * median:
                yield (f"{axis}, all kinds: {case.rank(ranks[slow])} is slowest, {scaled(speed[slow], 'B/s')}; the "
                       f"median rank has {scaled(median, 'B/s')}, waits included")


def checks(case):
    """Yields rows of (what was checked, how, passed); none if nothing was checked."""
    value = lambda name: case.values["results/" + name]
    if case.values[CHECK + "/done"]:
        parts = ", ".join(f"{name.replace('_', ' ')} {number(case.values[f'{CHECK}/{name}'])}"
                          for name in ("loss", "gradient_first", "weights"))
        yield "check model", f"residual {number(case.values[CHECK + '/residual'])}, limit {THRESHOLD:.0f} ({parts})", \
            case.values[CHECK + "/passed"]
    if value("replayed_products"):
        worst = value("replayed_worst_comparison")
        yield "replayed products", f"{whole(value('replayed_products'))} matrix products checked by sums, at most " \
            f"{percent(worst)} of what is allowed", worst <= 1
    for what, counted, what_differs, bad, worst in (
            ("replayed steps", "replayed_operations", FROM_HOST, "replayed_mismatches", "replayed_worst"),
            ("single operations", "shadowed_operations", FROM_HOST, "shadowed_mismatches", "shadowed_worst"),
            ("replayed transfers", "replayed_transfers", "kinds differ", "replayed_transfer_mismatches", None),
            ("sums over ranks", "conserved_comparisons", "totals differ", "conserved_mismatches", "conserved_worst"),
            ("equal weights", "replicas_compared", "copies of weights differ", "replica_mismatches", None)):
        if value(counted):
            most = f", at most {percent(value(worst))} of what is allowed" if worst else ""
            yield what, f"{whole(value(bad))} of {whole(value(counted))} {what_differs}{most}", not value(bad)


def slowest(case):
    """Yields the ten ranks that compute longest compared with their peers."""
    device = case.run.record.provenance
    of = lambda name, rank: device[name][rank] if rank < len(device.get(name, ())) else ""
    steps, clock = case.case.window, maps.of_samples(case, ("clock_least", "clock"), np.minimum, np.inf)
    warm = maps.of_samples(case, ("temperature_most", "temperature"), np.maximum, -np.inf)
    own, late, waits = (table[steps].mean(axis=0) for table in (
        views.own_computing(case.case), case.case["ranks/late_seconds"], sum(views.waits(case.case).values())))
    order = [rank for rank in np.argsort(-case.excess, kind="stable")[:10] if np.isfinite(case.excess[rank])]
    for rank in order:
        host, place = case.run.places[rank]
        yield {"name": f"rank {rank}", "host": host, "place": place, "excess": case.excess[rank],
               "error": case.values["ranks/excess_error"][rank], "own": own[rank], "waits": waits[rank],
               "late": late[rank], "clock": 1e-6 * clock[rank], "warm": warm[rank], "uuid": of("device_identity", rank),
               "bus": of("device_bus", rank), "serial": of("device_serial", rank)}


def energy(case):
    method = case.values["results/energy_method"]
    if not method:
        right = "Ask the administrator for the right to read /sys/class/powercap/*/energy_uj, and run the deck again."
        return "Energy is not known: " + ("NVML has no counter of it." if case.unit == "GPU" else right)
    return (f"{scaled(case.values['results/energy'], 'J')} in the timed steps, "
            f"{scaled(case.values['results/energy_per_token'], 'J')} a token ({method}).")


def of_ranks(case):
    """Returns the pictures and tables that need the seconds of each rank."""
    ranks = case.settings["ranks"]
    grid = case.run.grids.setdefault(ranks, maps.Grid(case.run.places, case.run.record.provenance["nodes"][:ranks]))
    where, legend = drawings.where(case)
    rows, links = transfers(case)
    found = {"where": where, "legend": legend, "transfers": rows, "links": links, "checks": list(checks(case)),
             "energy": energy(case), "further": list(maps.further(case, grid)), "grid": grid, "map": None}
    if not np.isfinite(case.excess).any():
        return {**found, "no_excess": why_no_excess(case)}
    relative = views.relative_to_peers(views.own_computing(case.case), views.peers(case.case))
    picture_of_map, nodes = maps.excess(case, grid)
    return {**found, "map": picture_of_map, "nodes": nodes, "always": drawings.always(case, relative),
            "slowest": list(slowest(case))}


def in_full(case):
    """Returns what the template shows of a case. The template prints a sentence for a missing part."""
    found = {"case": case, "steps": None, "where": None}
    if case.timed:
        found.update(steps=drawings.steps(case), step_sentences=drawings.step_sentences(case))
    return {**found, **of_ranks(case)} if case.by_rank else found


def links_of(run):
    """Returns the pair matrix of the pre-flight and the ten slowest pairs, or None if there is no calibration file."""
    path = os.path.splitext(run.path)[0] + ".calibration.h5"
    try:
        hosts, pairs, times = read_links(path)
    except Unreadable:
        return None
    hosts = [run.clean.host(host) for host in hosts]
    order = {host: n for n, host in enumerate(dict.fromkeys(hosts))}
    node = np.array([order[host] for host in hosts])
    kind, total, excess = node[pairs[:, 0]] ^ node[pairs[:, 1]], times.sum(axis=1), np.full(len(pairs), np.nan)
    for alike in (kind == one for one in np.unique(kind)):
        if alike.sum() > 1:
            excess[alike] = total[alike] / slow.medians_of_others(total[None, alike])[0] - 1
    ends = pairs if len(hosts) <= 64 else node[pairs]
    return {**draw_links(hosts, ends, excess), "alone": int(np.isnan(excess).sum()),
            "worst": [(hosts[a], a, hosts[b], b, excess[n]) for n in np.argsort(-excess, kind="stable")[:10]
                      for a, b in (pairs[n],)]}


def draw_links(hosts, ends, excess):
    size = ends.max() + 1
    matrix = np.full((size, size), np.nan)
    np.fmax.at(matrix, (ends[:, 0], ends[:, 1]), excess)
    matrix = np.fmax(matrix, matrix.T)
    figure, axes = drawing(3.6, 3.8, left=0.4, top=0.2, right=0.2, bottom=0.4)
    shown = axes.imshow(np.ma.masked_invalid(matrix), cmap="Blues", vmin=0, vmax=0.5, interpolation="none")
    shown.set_clip_path(None)
    axes.tick_params(length=0, labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    what = "ranks" if len(hosts) <= 64 else "nodes"
    most = f"the slowest takes {percent(np.nanmax(excess))} longer than its kind" if not np.isnan(excess).all() else ""
    said = f"Matrix of pairs of {what}: {most or 'none can be compared'}."
    return {"picture": picture(figure, said), "what": what, "pairs": len(excess)}


def what_ran(run):
    """Returns names and values of the provenance. Never returns the environment."""
    p = run.record.provenance
    rows = [(name.replace("_", " "), p[name]) for name in RAN if name in p]
    hosts = list(dict.fromkeys(p["hosts"]))
    rows.append(("hosts", f"{count(len(hosts), 'host')}: {' '.join(hosts)}"))
    for name in ("libraries", "device_name", "device_driver", "switches"):
        if len(p.get(name, ())):
            rows.append((name.replace("_", " "), "; ".join(sorted(set(p[name])))))
    for name, unit in (("device_power_limit", "W"), ("device_clock_limit", "Hz")):
        if len(p.get(name, ())):
            rows.append((name.replace("_", " "), f"{scaled(np.min(p[name]), unit)} to {scaled(np.max(p[name]), unit)}"))
    return rows
