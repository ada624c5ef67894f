"""Checks the provenance: every value has its form, and values that appear twice agree."""

import datetime
import hashlib
import os
import re
import shlex

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
HASH = r"[0-9a-f]{64}"
TEXTS = {
    "started": TIME, "written": TIME, "build_date": TIME, "deck_sha256": HASH,
    "binary_sha256": HASH, "git_commit": r"[0-9a-f]{40}|unknown|n/a", "build_compiler": r".*\d+\.\d+.*",
    "build_flags": r".*-DBUILD_DEBUG=[01].*", "build_mpi": r".+", "mpi_library": r".+",
    "hdf5_library": r"HDF5 \d+\.\d+\.\d+", "products_library": r".+", "cuda_library": r".+", "command_line": r".+",
    "deck_name": r".+", "deck": r"(?s).+", "processor": r".+", "kernel": r"\w+ \S+ \w+|n/a",
}
PER_RANK = [f"device_{name}" for name in ("bus", "clock_limit", "driver", "ecc", "identity", "memory", "name", "serial",
                                          "multiprocessors", "power_limit")]
VARIABLE = r"(?s)(OMPI_|UCX_|OMP_|SLURM_|NCCL_|LD_|CUDA_|MPICH_|DNNL_|XGSW_)[^=]*=.*"
LIBRARY = r"\S+ [0-9a-f]+.*|\S+ .+"
BUS = r"([0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F])?"
LIMITS = {"threads": (1, 1024), "processors": (1, 1 << 20)}


def moment(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")


def check_forms(p, f):
    for name, form in TEXTS.items():
        f.demand(isinstance(p.get(name), str) and re.fullmatch(form, p[name]), f"provenance/{name} is {p.get(name)!r}")
    for name in ("debug", "dirty"):
        f.demand(isinstance(p.get(name), bool), f"provenance/{name} is {p.get(name)!r}")
    for name, (least, most) in LIMITS.items():
        f.demand(isinstance(p.get(name), int) and least <= p[name] <= most, f"provenance/{name} is {p.get(name)!r}")
    for name, form in (("environment", VARIABLE), ("libraries", LIBRARY), ("preloaded", r"\S+"), ("hosts", r"\S+")):
        f.demand(all(re.fullmatch(form, word) for word in p[name]), f"provenance/{name} has a word of another form")
        f.demand(name == "hosts" or len(set(p[name])) == len(p[name]), f"provenance/{name} has a word twice")


def check_ranks(p, f):
    """Requires a host and a node for each rank, and a device for every rank or for none."""
    ranks, nodes, hosts = len(p["hosts"]), list(p["nodes"]), p["hosts"]
    f.demand(ranks > 0 and len(nodes) == ranks, f"{ranks} hosts, {len(nodes)} nodes")
    f.demand(all(0 <= node <= rank and nodes[node] == node and hosts[node] == hosts[rank]
                 for rank, node in enumerate(nodes)), "nodes are not the lowest ranks of their hosts")
    for name in PER_RANK:
        f.demand(len(p[name]) == len(p["device_name"]) and len(p[name]) in (0, ranks),
                 f"provenance/{name} is of {len(p[name])} ranks, there are {ranks}")
    f.demand(all(name for name in p["device_name"]), "a device has no name")
    f.demand(all(n > 0 for n in p["device_multiprocessors"]) and all(n > 0 for n in p["device_memory"]),
             "a device has no multiprocessors or no memory")
    f.demand(not any(limit <= 0 for name in ("clock", "power") for limit in p[f"device_{name}_limit"]), "a limit is 0")
    f.demand(all(re.fullmatch(BUS, bus) for bus in p["device_bus"]), f"provenance/device_bus is {p['device_bus']}")
    same = list(zip(nodes, p["device_identity"], p["device_bus"], p["device_serial"]))
    f.demand(len(set(same)) == len({device[:2] for device in same}),
             "one device has several device_bus or device_serial")


def check_said_twice(p, record, f):
    digest = hashlib.sha256(record.deck).hexdigest()
    f.demand(digest == p.get("deck_sha256"), f"the deck's SHA-256 is {digest}, recorded {p.get('deck_sha256')}")
    # The emulator is a debug build with the flags of the product.
    f.demand(p["debug"] or "-DBUILD_DEBUG=1" not in p["build_flags"], "debug contradicts build_flags: a debug build?")
    f.demand(p["environment"] == sorted(p["environment"]), "provenance/environment is not sorted")
    variables = dict(word.split("=", 1) for word in p["environment"])
    above, _, node = variables.get("SLURM_TOPOLOGY_ADDR", "").rpartition(".")
    own, places = (above if node and p["hosts"][0].startswith(node) else "")[:255], list(zip(p["nodes"], p["switches"]))
    f.demand(len(places) == len(p["nodes"]) and len(set(places)) == len(set(p["nodes"])) and p["switches"][0] == own,
             f"provenance/switches begins with {p['switches'][:1]}, rank 0 is at {own!r}; or a node at several")
    world = variables.get("OMPI_COMM_WORLD_SIZE", str(len(p["hosts"])))
    f.demand(world == str(len(p["hosts"])), f"Open MPI started {world} ranks, {len(p['hosts'])} have hosts")
    words, name = shlex.split(p["command_line"]), os.path.basename(p["deck_name"])
    given = [word for before, word in zip(words, words[1:])
             if word[:1] != "-" and before not in ("--json", "--timeline")]
    f.demand(name in p["command_line"] or name == "gsw.dat" and not given, "the command line does not name the deck")


def check_times(p, record, f):
    """Requires that the cases ran one after another between the run's start and the last write, within a second."""
    build, begin, end = (moment(p[name]) for name in ("build_date", "started", "written"))
    f.demand(build <= begin <= end, f"built {p['build_date']}, started {p['started']}, written {p['written']}")
    spent, lasted = 0.0, (end - begin).total_seconds() + 1
    for case in record.cases:
        begun = case.values.get("results/begin_seconds", spent)
        f.demand(begun >= spent, f"begin_seconds of {case.name} are before the end of the case before it")
        spent = begun + case.values.get("results/total_seconds", 0.0)
    f.demand(spent <= lasted, f"the cases took {spent:.6g} s, the run {lasted:.6g}")


def check(record, f):
    for part in (check_forms, check_ranks):
        part(record.provenance, f)
    for part in (check_said_twice, check_times):
        part(record.provenance, record, f)
