#!/usr/bin/python3
"""Plants faults in operations of small cases on four ranks; every one must end FAILED, or be harmless for a written
reason: then every number of the run is the healthy case's; or, for a written reason, stay below the limits of BF16:
then the same fault in FP32 ends FAILED. Every kind of operation that a deck's fault can name, and that a step submits,
has a row. In FP8 faults are planted in what makes, moves and scales codes.

    faults/table.t         of first, middle and last execution of every operation one, in one precision, by turns; of
                           each operation of the families one kind of fault, of the other layouts every eleventh; of
                           FP8 what FP8_NAMED lists, and every fortieth
    faults/table.t long    all of them in both precisions, and in FP8

Prints TAP, and as comments the table: planted, caught, harmless, smallest residual of the caught ones (16 is the
limit)."""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

sys.dont_write_bytecode = True
from harmless import SAME, HARMLESS, HIDDEN  # noqa: E402

TOP = Path(__file__).resolve().parent.parent.parent
XGSW = os.environ.get("XGSW", "./xgsw")
LIMIT, RANKS = 16, 4
BLOCK = 500                             # cases a run
PRECISIONS = ["fp32", "bf16"]

# Executions of a step on every rank of DP2 x TP2 with sharded optimizer: check model, 2 layers, 2 microbatches. (Even
# ranks have a fifth square_sum, of the gains.)
COUNT = {
    "matmul": 54, "embedding_forward": 2, "embedding_backward": 2, "norm_forward": 10, "norm_backward": 10,
    "rope_forward": 4, "rope_backward": 4, "attention_forward": 4, "attention_backward": 4, "swiglu_forward": 4,
    "swiglu_backward": 4, "cross_entropy": 4, "adamw": 5, "all_gather": 37, "reduce_scatter": 5, "all_reduce": 3,
    "all_to_all": 20, "fill": 1, "copy": 1, "sum": 1, "sum_parts": 20, "tokens": 2, "step_begin": 1, "square_sum": 4,
    "step_clip": 1,
}
COUNT_BF16 = {**COUNT, "copy": 2}      # the gains' gradients, which FP32 sums where they are; the report
KINDS = ["drop", "stale", "scale", "repeat"]
FLIPPED = ["matmul", "adamw", "all_gather", "reduce_scatter", "all_to_all", "sum_parts", "copy", "sum",
           "step_begin", "step_clip"]
GRID = "tensor = 2\nsharding = optimizer\noverlap = off"
STRIPS2, STRIPS4 = "tensor = 2\nsharding = optimizer\nstrips = 2", "tensor = 4\nstrips = 2"
# The recipe of 70b defers the head's weight gradient. Stages of PP4: embedding, layer, layer, head; 4 microbatches.
PP4 = "pipeline = 4"
PP2TP2 = "pipeline = 2\nchunks_per_stage = 2\ntensor = 2"
CP2DP2, NARROW = "context = 2\nsharding = optimizer", "context = 2\nsharding = optimizer\ncontext_gradients = bf16"
NEMOTRON = "tensor = 2\ndata = 2\nsharding = optimizer"
SHARD = "shard = 2\ndata = 2\nsharding = none"
GPT3, STAGES = "data = 2\ntensor = 2\nsharding = optimizer", "pipeline = 2\ndata = 2\nsharding = optimizer"
GROK, GROK_CONTEXT = "expert = 2\ntensor = 2\nsharding = optimizer", "expert = 2\ncontext = 2\nsharding = optimizer"
GROK_PARTS, GROK_COPIES = "expert = 2\nsharding = optimizer", "expert = 2\nsharding = none\ncapacity = none"
LLAMA2 = "shard = 2\ndata = 2\nsharding = optimizer"
FP8_SHARDS = LLAMA2 + "\nfp8_scale = exact"
WORKLOAD = {PP4: "llama3.1-70b", PP2TP2: "llama3.1-70b", NEMOTRON: "nemotron4-340b", GPT3: "gpt3-175b",
            STAGES: "gpt3-175b", GROK: "grok1-314b", GROK_CONTEXT: "grok1-314b", GROK_PARTS: "grok1-314b",
            GROK_COPIES: "grok1-314b", LLAMA2: "llama2-70b", FP8_SHARDS: "llama2-70b"}

# What the families and their axes have of their own: how often a step executes it on every rank, or which executions
# are meant. (embedding_forward of GPT-3 adds positions, its products biases; its norms have a bias, as nemotron's. The
# first adamw is the embedding's: a flip there is undone by the next step's, and no token may look its row up between.)
FAMILIES = [
    ("nemotron", NEMOTRON, {"norm_forward": 10, "norm_backward": 10, "squared_relu_forward": 4,
                            "squared_relu_backward": 4, "rope_forward": 4, "rope_backward": 4, "adamw": (2, 3, 5)}),
    ("gpt3", GPT3, {"embedding_forward": 2, "embedding_backward": 2, "norm_forward": 10, "norm_backward": 10,
                    "matmul": 54, "gelu_forward": 4, "gelu_backward": 4, "column_sums": 14, "adamw": 6}),
    ("positions", GPT3, {"column_sums": (7, 14), "fill": (1,), "all_reduce": (2,), "reduce_scatter": (7,)}),
    ("tie", GPT3, {"copy": (1,), "reduce_scatter": (1, 6)}),        # the sum; the gradients of the head, of the lookup
    ("tie of stages", STAGES, {"exchange": (5,), "copy": (1,), "adamw": (1,), "all_gather": (1,)}),
    ("grok", GROK, {"router_forward": 4, "router_backward": 4, "permute": 4, "unpermute_forward": 8,
                    "unpermute_backward": 4, "grouped_matmul": 24, "geglu_forward": 4, "geglu_backward": 4}),
    ("router", GROK, {"matmul": (3, 10, 11), "all_reduce": (1, 4)}),  # logits, its gradients; statistics of sequences
    ("to experts", GROK, {"all_to_all": (3, 5, 11, 13, 33, 35)}),
    ("rows of experts", GROK, {"all_gather": (2, 8, 9), "all_to_all": (4, 12), "sum_parts": (3, 7)}),
    ("report of experts", GROK, {"fill": (1, 2), "sum": (2,), "all_reduce": (10,)}),
    ("report of experts", GROK, {"copy": (2, 3)}, "fp32"),              # BF16 rounds three gradients of gains before
    ("report of experts", GROK, {"copy": (5, 6)}, "bf16"),
    ("experts of context", GROK_CONTEXT, {"all_reduce": (1, 4), "all_to_all": (1, 2, 21, 22)}),
    ("parts of experts", GROK_PARTS, {"reduce_scatter": (2, 5), "adamw": (7, 8), "all_gather": (7, 8)}),
    ("copies of experts", GROK_COPIES, {"all_reduce": (2, 5), "grouped_matmul": 24, "permute": 4}),
    ("shards", LLAMA2, {"all_gather": (2, 6, 12), "all_to_all": 8, "sum_parts": 8, "copy": 8, "reduce_scatter": 6,
                        "adamw": (2, 3, 5)}),
]

# FP8: what makes codes, transposes, gathers and scales them (what, section, {operation: executions}, kinds). Who makes
# codes adds to amaxes and to the numbers of values. Not counted are weights whose codes are made for each use. Rows
# that are gathered or transposed as codes are of one microbatch: of TP4's two, half of a gradient; of GRID's a quarter,
# as large as FP8's own noise, and found by the part along the gradient. Listed are executions found on whichever
# rank (how many are not: measured/calibration-host.txt). One code that is flipped is far less.
FP8_TP4 = "tensor = 4\noverlap = off"
FP8 = [
    ("codes", GRID, {"quantize": 8, "norm_forward": (1, 3, 6), "swiglu_forward": 4, "swiglu_backward": 4,
                     "rope_backward": 4}, KINDS),
    ("transposed weights", GRID, {"transpose": (17, 20, 24), "adamw": (2, 5)}, [*KINDS, "flip"]),
    ("gathered weights", GRID, {"all_gather": (33, 36)}, ["drop", "stale", "scale", "flip"]),
    ("transposed rows", FP8_TP4, {"transpose": (1, 4, 7, 10, 13, 16)}, ["drop", "stale"]),
    ("gathered rows", FP8_TP4, {"all_gather": (1, 3, 6, 9)}, ["drop", "stale"]),
    ("scales", GRID, {"fp8_scales": 1, "copy": (3,)}, [*KINDS, "flip"]),
    ("amaxes", GRID, {"all_reduce": (4,)}, KINDS),
    ("counts", GRID, {"all_reduce": (5,), "copy": (4,), "fill": (2,)}, KINDS),
    ("codes of shards", FP8_SHARDS, {"quantize": (7, 20), "fp8_scales": 1, "all_reduce": (4, 5)}, KINDS),
    ("weights of shards", FP8_SHARDS, {"quantize": (33, 48)}, ["stale"]),
    ("codes of experts", GROK, {"quantize": 12, "geglu_forward": 4, "geglu_backward": 4, "fp8_scales": 1,
                                "all_reduce": (11, 12)}, KINDS),
    ("transposed experts", GROK, {"transpose": (21, 24, 28), "adamw": (4, 6)}, [*KINDS, "flip"]),
    ("rows of TP2", GRID, {"transpose": (1, 2, 4, *range(7, 13), 15, 16)}, ["drop", "stale"]),
    ("rows of TP2", GRID, {"all_gather": (1, 8, 9, 11, 15, 17, 19, *range(24, 28), 30, 31)}, ["stale"]),
    ("weights of shards", FP8_SHARDS, {"quantize": (28, 37, 38, 43, 45, 47)}, ["stale"]),
]
# In every run of the table.
FP8_NAMED = [
    ("codes", ("stale", "quantize", 4, 1), GRID), ("codes", ("drop", "norm_forward", 1, 2), GRID),
    ("transposed weights", ("stale", "transpose", 20, 2), GRID),
    ("transposed rows", ("stale", "transpose", 7, 3), FP8_TP4), ("counts", ("stale", "all_reduce", 5, 2), GRID),
    *(("rows of TP2", ("stale", *row), GRID) for row in (("transpose", 13, 1), ("all_gather", 26, 2))),
    *(("of shards", ("stale", "quantize", nth, 0), FP8_SHARDS) for nth in (7, 40)),
    ("scales", ("stale", "fp8_scales", 1, 1), GRID), ("scales", ("flip", "fp8_scales", 1, 3), GRID),
    ("amaxes", ("drop", "all_reduce", 4, 0), GRID), ("amaxes", ("stale", "all_reduce", 4, 2), GRID),
    ("amaxes of microbatches", ("drop", "all_reduce", 29, 1), GRID + "\nfp8_scaling = current"),
    ("codes of experts", ("stale", "quantize", 6, 3), GROK),
]

# (what, (kind, operation, nth, rank), the rest of the section)
MORE = [
    ("adds", ("repeat", "matmul", 38, 1), GRID),                  # the head's gradient of the second microbatch
    ("other's part", ("flip", "reduce_scatter", 5, 0), GRID),
    ("unwait", ("unwait", "embedding_forward", 1, 3), STRIPS2),     # the gathered weights
    ("unwait", ("unwait", "norm_forward", 1, 0), GRID),
    ("unwait", ("unwait", "matmul", 1, 2), GRID),                 # the gathered activations
    ("unwait", ("unwait", "norm_forward", 10, 1), GRID),
    ("unwait", ("unwait", "norm_backward", 5, 2), GRID),
    ("unwait", ("unwait", "cross_entropy", 2, 0), GRID),
    ("unwait", ("unwait", "embedding_backward", 1, 3), GRID),
    ("unwait", ("unwait", "all_gather", 1, 0), GRID),
    ("unwait", ("unwait", "all_gather", 7, 0), GRID),             # the head's input, gathered again
    ("unwait", ("unwait", "all_gather", 37, 1), GRID),
    ("unwait", ("unwait", "reduce_scatter", 1, 2), GRID),
    ("unwait", ("unwait", "reduce_scatter", 5, 3), GRID),
    ("unwait", ("unwait", "all_to_all", 1, 1), GRID),
    ("unwait", ("unwait", "all_to_all", 12, 2), GRID),
    ("unwait", ("unwait", "all_reduce", 1, 0), GRID),
    ("unwait", ("unwait", "all_reduce", 2, 1), GRID),
    ("unwait", ("unwait", "all_gather", 31, 0), GRID),            # a layer's input, gathered again
    *(("bulk", ("unwait", operation, nth, nth % RANKS), GRID) for operation, nth in (
        ("matmul", 10), ("matmul", 46), ("matmul", 54), ("norm_backward", 6), ("fill", 1), ("adamw", 3), ("adamw", 5))),
    ("unwait", ("unwait", "sum", 1, 2), GRID),
    ("no waits", ("unwait", "rope_forward", 1, 0), GRID),
    ("no such rank", ("drop", "matmul", 1, 4), GRID),
    ("timed steps only", ("drop", "matmul", 60, 0), GRID + "\nlayers = 3"),
]
# Whole optimizer states: a replica that goes its own way must not hide behind the others; the gradients' all_reduce.
MORE += [("DP4", (kind, operation, nth, rank), "tensor = 1\nsharding = none") for kind, operation, nth, rank in [
    ("drop", "all_reduce", 1, 0), ("stale", "all_reduce", 3, 1), ("scale", "all_reduce", 2, 3),
    ("drop", "all_reduce", 6, 2), ("drop", "adamw", 1, 3), ("stale", "adamw", 5, 1), ("repeat", "adamw", 2, 0),
    ("scale", "matmul", 10, 2), ("flip", "adamw", 3, 3),
]]
MORE += [("TP4", (kind, operation, nth, rank), "tensor = 4\noverlap = off") for kind, operation, nth, rank in [
    ("drop", "all_gather", 3, 0), ("stale", "all_to_all", 5, 1), ("scale", "cross_entropy", 2, 3),
    ("drop", "all_reduce", 1, 2), ("stale", "all_gather", 6, 3), ("drop", "embedding_forward", 1, 1),
    ("scale", "all_reduce", 2, 1), ("stale", "adamw", 2, 2),
]]
MORE += [("recompute", (kind, operation, nth, rank), GRID + "\nrecompute = layer") for kind, operation, nth, rank in [
    ("drop", "swiglu_forward", 3, 0), ("stale", "attention_forward", 8, 1), ("scale", "norm_forward", 14, 2),
    ("drop", "all_gather", 9, 3),
]]
# The router is right by the logits that its product makes, and the reference's differ by more than the margin; the sum
# of the statistics over context ranks shows in the balance loss alone, hardly in the gradient.
MORE += [("routers", (kind, operation, nth, rank), GROK_CONTEXT)
         for kind, operation, nth, rank in (("drop", "matmul", 3, 1), ("drop", "all_reduce", 1, 0),
                                            ("stale", "all_reduce", 2, 3))]
# Context: of each layer and microbatch 2 copies, gathers and attention_forward; backward as many, 2 all_to_all and
# sum_parts. Of two attention_backward the second adds to the gradients of keys.
MORE += [("CP2xDP2", (kind, operation, nth, rank), CP2DP2) for kind, operation, nth, rank in [
    ("drop", "all_gather", 3, 0), ("stale", "all_gather", 8, 1), ("scale", "all_gather", 9, 2),
    ("flip", "all_gather", 7, 3), ("drop", "all_gather", 11, 3),
    ("scale", "all_to_all", 1, 1), ("drop", "all_to_all", 2, 0), ("stale", "all_to_all", 8, 3),
    ("drop", "sum_parts", 1, 1), ("repeat", "sum_parts", 3, 2), ("stale", "sum_parts", 8, 0),
    ("drop", "attention_forward", 2, 1), ("stale", "attention_forward", 8, 0), ("scale", "attention_forward", 1, 2),
    ("drop", "attention_backward", 1, 3), ("repeat", "attention_backward", 2, 0), ("scale", "attention_backward", 8, 1),
    ("unwait", "attention_forward", 1, 0), ("unwait", "attention_forward", 4, 1), ("unwait", "all_gather", 7, 2),
    ("unwait", "all_to_all", 1, 1), ("unwait", "rope_backward", 2, 3), ("drop", "fill", 2, 1), ("scale", "fill", 1, 1),
]]
# Weights as shards. Gathered are of the first microbatch the embedding, two layers and the head, which backward still
# finds there, of the second the embedding and the head; then the gains. Sums of a microbatch's 4 gradients, head first:
# an all_to_all, a sum_parts and a copy each.
MORE += [("S2xDP2", (kind, operation, nth, rank), SHARD) for kind, operation, nth, rank in [
    ("drop", "all_gather", 1, 0), ("stale", "all_gather", 2, 1), ("scale", "all_gather", 3, 2),
    ("flip", "all_gather", 4, 3), ("drop", "all_gather", 6, 1), ("stale", "all_gather", 5, 2),
    ("repeat", "all_gather", 3, 0), ("scale", "all_gather", 7, 3), ("drop", "all_gather", 7, 2),
    ("drop", "all_to_all", 1, 1), ("stale", "all_to_all", 3, 0), ("scale", "all_to_all", 6, 3),
    ("flip", "all_to_all", 5, 2), ("repeat", "all_to_all", 7, 1), ("drop", "all_to_all", 8, 0),
    ("drop", "sum_parts", 2, 1), ("stale", "sum_parts", 7, 0), ("scale", "sum_parts", 8, 3),
    ("flip", "sum_parts", 4, 2), ("repeat", "sum_parts", 6, 0),
    ("drop", "copy", 1, 3), ("stale", "copy", 8, 2), ("scale", "copy", 6, 1), ("repeat", "copy", 7, 0),
    ("flip", "copy", 3, 1),
    ("drop", "reduce_scatter", 1, 0), ("stale", "reduce_scatter", 1, 3), ("scale", "reduce_scatter", 1, 1),
    ("drop", "all_reduce", 1, 2), ("stale", "all_reduce", 4, 0), ("scale", "all_reduce", 5, 1),
    ("drop", "adamw", 4, 1), ("stale", "adamw", 5, 2),
    ("unwait", "embedding_forward", 1, 0), ("unwait", "matmul", 9, 1), ("unwait", "all_gather", 4, 2),
    ("unwait", "all_to_all", 1, 3), ("unwait", "all_to_all", 7, 0)]]
# Strips of the tensor axis: the first of a step, one of backward, the last.
MORE += [(f"strips of {t}", (kind, operation, nth, (at + turn) % RANKS), section)
         for t, section, counts in ((2, STRIPS2, (67, 40, 40)), (4, STRIPS4, (62, 40, 40)))
         for operation, count in zip(("all_gather", "all_to_all", "sum_parts"), counts)
         for turn, kind in enumerate(KINDS + ["flip"]) for at, nth in enumerate((6, count // 3, count))]
MORE += [(f"strips of {t}", ("unwait", operation, nth, nth % RANKS), section)
         for t, section in ((2, STRIPS2), (4, STRIPS4))
         for operation, nth in (("matmul", 2), ("all_to_all", 1), ("all_to_all", 20), ("norm_forward", 2),
                                ("norm_backward", 6))]
MORE += [("strips of 4", ("drop", "matmul", 80, 3), STRIPS4)]

# ---- more layouts ----
# A transfer of a link is one exchange of the receiver and one of the sender: (execution, rank) of both.
PASSED = {
    "activation": [((1, 1), (1, 0)), ((8, 1), (5, 0)), ((10, 2), (11, 1)), ((6, 3), (13, 2))],
    "gradient": [((4, 2), (3, 3)), ((6, 1), (7, 2)), ((14, 1), (16, 2)), ((8, 0), (16, 1))],
}
LAYOUTS = [(f"{passed} of PP4", (kind, "exchange", *ends[turn % 2]), PP4)
           for passed, transfers in PASSED.items() for ends in transfers for turn, kind in enumerate(KINDS)]
LAYOUTS += [(f"{passed} of PP4", ("flip", "exchange", *receiver), PP4)
            for passed, transfers in PASSED.items() for receiver, _ in transfers]
LAYOUTS += [("unwait in PP4", ("unwait", operation, nth, rank), PP4) for operation, nth, rank in [
    ("exchange", 8, 1), ("exchange", 10, 2), ("exchange", 14, 1), ("exchange", 5, 0), ("exchange", 16, 2),
    # a place is free; what is sent is ready
    ("exchange", 2, 3), ("exchange", 4, 1), ("exchange", 6, 2),
    # what arrived, or was sent
    ("norm_forward", 1, 1), ("norm_forward", 5, 2), ("tokens", 4, 3), ("matmul", 13, 1),
    ("tokens", 3, 0), ("embedding_backward", 1, 0), ("embedding_backward", 4, 0)]]
LAYOUTS += [("sends only", ("scale", "exchange", 1, 0), PP4), ("sends only", ("flip", "exchange", 3, 3), PP4)]
LAYOUTS += [("PP4", (kind, "add", nth, rank), PP4)
            for nth, rank in ((1, 1), (3, 2), (4, 1)) for kind in KINDS + ["flip"]]
# The last stage's 9th to 12th product are the deferred gradients of the head's weight; the later ones add to the first.
LAYOUTS += [("deferred, PP4", (kind, "matmul", nth, 3), PP4) for nth in (9, 10, 12) for kind in KINDS + ["flip"]]
LAYOUTS += [("PP4", (kind, operation, nth, rank), PP4) for kind, operation, nth, rank in [
    ("drop", "all_reduce", 1, 3), ("stale", "all_reduce", 2, 0), ("scale", "all_reduce", 1, 1),
    ("repeat", "all_reduce", 2, 2), ("drop", "adamw", 1, 0), ("stale", "embedding_backward", 4, 0),
    ("scale", "attention_backward", 4, 1), ("drop", "cross_entropy", 3, 3),
    ("drop", "square_sum", 1, 0), ("drop", "square_sum", 2, 3), ("scale", "sum", 1, 3), ("drop", "step_clip", 1, 1)]]
# Interleaved, over tensor ranks: the exchanges of links; the deferred gradients wait for a gather.
LAYOUTS += [("links of PP2xTP2", (kind, "exchange", nth, rank), PP2TP2) for kind, nth, rank in [
    ("drop", 1, 2), ("stale", 2, 0), ("scale", 4, 1), ("flip", 6, 3), ("drop", 8, 2), ("repeat", 9, 0),
    ("stale", 10, 3), ("scale", 10, 0), ("drop", 12, 2), ("flip", 8, 1), ("repeat", 12, 2),
    ("unwait", 10, 2), ("unwait", 9, 3), ("unwait", 12, 2)]]
LAYOUTS += [("deferred, PP2xTP2", (kind, operation, nth, rank), PP2TP2, *only)
            for kind, operation, nth, rank, *only in [
    ("drop", "matmul", 29, 2), ("repeat", "matmul", 30, 3), ("scale", "matmul", 30, 2), ("unwait", "matmul", 29, 3),
    ("unwait", "matmul", 30, 2),
    ("drop", "all_gather", 7, 3), ("stale", "all_gather", 8, 2), ("unwait", "all_gather", 7, 2),
    ("unwait", "all_gather", 8, 3)]]
LAYOUTS += [("PP2xTP2", (kind, "add", nth, rank), PP2TP2)
            for kind, nth, rank in [("drop", 1, 0), ("stale", 2, 2), ("scale", 1, 3)]]
LAYOUTS += [("CP2xDP2", ("flip", operation, nth, rank), CP2DP2) for operation, nth, rank in [
    ("sum_parts", 1, 2), ("all_to_all", 4, 1), ("attention_forward", 2, 3), ("attention_backward", 7, 0)]]
LAYOUTS += [("CP2xDP2", (kind, "sum_parts", nth, rank), CP2DP2) for kind, nth, rank in [
    ("drop", 4, 2), ("stale", 1, 1), ("scale", 4, 0), ("repeat", 1, 3)]]

# Copies of own pieces of keys and values, and of their gradients where they travel in BF16: of the first microbatch's
# second layer forward, and backward.
COPIES = {CP2DP2: {"first piece": 3, "second piece": 4, "first piece again": 7, "second piece again": 8},
          NARROW: {"second gradient": 7, "first gradient": 8}}
LAYOUTS += [(f"copy of {what}", (kind, "copy", nth, (nth + turn) % RANKS), section, "bf16")
            for section, copies in COPIES.items() for what, nth in copies.items()
            for turn, kind in enumerate(KINDS + ["flip"])]
MORE += [("square of the gains", (kind, "square_sum", 5, 0), GRID) for kind in KINDS]

NEVER = "the planted fault never struck"


def executions(count):
    return sorted({1, (count + 1) // 2, count})


def grid_faults(everything, precision):
    """Every operation: kind, operation, execution, rank; unless everything is asked for one of each, by turns."""
    for at, (operation, count) in enumerate((COUNT_BF16 if precision == "bf16" else COUNT).items()):
        for turn, kind in enumerate(KINDS + ["flip"] * (operation in FLIPPED)):
            nths = executions(count)
            due = [nths[(at + turn) // 2 % len(nths)]] * (PRECISIONS[(at + turn) % 2] == precision)
            for nth in nths if everything else due:
                yield kind, operation, nth, (at + turn + nth) % RANKS


def family_faults(everything, precision):
    """As of the grid, but one kind of fault of each operation by turns. The middle of what reduce_scatter leaves is the
    last rank's."""
    listed = [(what, section, operation, executed, kind, only or PRECISIONS) for what, section, operations, *only in
              FAMILIES for operation, executed in operations.items() for kind in KINDS + ["flip"]]
    for at, (what, section, operation, executed, kind, planted) in enumerate(listed):
        nths = executions(executed) if isinstance(executed, int) else executed
        due = at % 5 == at // 5 % 5 and planted[at // 5 % len(planted)] == precision
        for nth in nths if everything else [nths[at // 10 % len(nths)]] * due:
            if precision in planted and (everything or not is_hidden(precision, what, (kind, operation))):
                last = (kind, operation) == ("flip", "reduce_scatter")
                yield what, (kind, operation, nth, RANKS - 1 if last else (at + nth) % RANKS), section


def is_hidden(precision, what, fault):
    return precision == "bf16" and fault and what in HIDDEN.get(fault[:2], ((),))[0]


def layout_faults(everything, precision):
    """Those of LAYOUTS that are planted in this precision; every eleventh, by turns, unless everything is asked for."""
    for at, (what, fault, section, *only) in enumerate(LAYOUTS):
        planted = only or (PRECISIONS if everything else [PRECISIONS[at // 11 % 2]])
        if precision in planted and (everything or at % 11 == 0):
            yield what, fault, section


def fp8_faults(everything):
    """FP8_NAMED, and of the rows of FP8 every fortieth, unless everything is asked for."""
    yield from FP8_NAMED
    listed = [(what, section, operation, nth, kind) for what, section, operations, kinds in FP8
              for operation, executed in operations.items() for kind in kinds
              for nth in (executions(executed) if isinstance(executed, int) else executed)]
    for at, (what, section, operation, nth, kind) in enumerate(listed):
        if everything or at % 40 == 0:
            yield what, (kind, operation, nth, (at + nth) % RANKS), section


def planted_faults(everything, precision):
    if precision == "fp8":
        return [*fp8_faults(everything)]
    planted = [("DP2xTP2", fault, GRID) for fault in grid_faults(everything, precision)]
    planted += [row for at, row in enumerate(MORE) if everything or at % 4 == 2 * PRECISIONS.index(precision)]
    return planted + [*family_faults(everything, precision), *layout_faults(everything, precision)]


def cases(everything):
    """Of every precision and section one without a fault, which must pass."""
    for precision in [*PRECISIONS, "fp8"]:
        planted = planted_faults(everything, precision)
        planted += [("healthy", None, section) for section in dict.fromkeys(section for _, _, section in planted)]
        for what, fault, section in planted:
            yield SimpleNamespace(precision=precision, what=what, fault=fault, section=section)
    for operation, count in COUNT.items():
        yield SimpleNamespace(precision="fp32", what="never", fault=("drop", operation, count + 1, 1), section=GRID)


def run(deck_cases, folder):
    """The result lines of one run, and its exit status."""
    deck = folder / "faults.dat"
    text = ["planted faults", "", "size = check", "steps = 1", "backend = host", "record = none"]
    for c in deck_cases:
        text += [f"[{WORKLOAD.get(c.section, 'llama3.1-8b')}]", f"precision = {c.precision}", c.section]
        text += ["fault = " + " ".join(map(str, c.fault))] if c.fault else []
    deck.write_text("\n".join(text) + "\n")
    done = subprocess.run([TOP / "run/local", "-q", "-n", str(RANKS), "-x", XGSW, deck], cwd=TOP, text=True,
                          capture_output=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    lines = [json.loads(line[12:]) for line in done.stdout.splitlines() if line.startswith("XGSW_RESULT ")]
    if len(lines) != len(deck_cases):
        print(f"# {len(lines)} result lines of {len(deck_cases)} cases\n# " + done.stderr[-2000:].replace("\n", "\n# "))
    return lines, done.returncode


def scaled(result):
    value = result["check_model"]["residual"]
    return float("inf") if value is None else value


def harmless_reason(case, result):
    kind, operation, nth, _ = case.fault
    if kind == "repeat" and "added to" not in result["check_model"]["struck"]:
        return SAME
    return next((reason for where, nths, reason in HARMLESS.get((kind, operation), [])
                 if (where is None or case.what in where) and (nths is None or nth in nths
                                                               or (case.precision, nth) in nths)), None)


def numbers(result):
    """What a run computed, in the check and in the timed steps."""
    about_itself = ("seconds", "faults", "struck")
    return [{k: v for k, v in result[check].items() if k not in about_itself}
            for check in ("check_before", "check_after")] + [
        result[name] for name in ("fp8", "losses", "gradient_norms", "learning_rates", "balance_losses",
                                  "choices_dropped", "expert_loads_least", "expert_loads_most",
                                  "expert_loads_variation")]


def verdict(case, result, healthy):
    """"caught", "harmless" (the numbers are those of the healthy case) or what is wrong."""
    never = NEVER in str(result["fail_reasons"])
    if case.fault is None:
        return "healthy" if result["passed"] and result["faults"] == 0 else "a healthy case FAILED"
    if result["valid"]:
        return "VALID in spite of a planted fault"
    if case.what in ("never", "no such rank", "no waits", "sends only"):
        return "caught" if never and result["faults"] == 0 and not result["passed"] else "struck"
    if case.what == "timed steps only":
        return "caught" if not result["passed"] and result["faults"] > 0 and never else "passed"
    if never or result["faults"] == 0:
        return "never struck"
    if harmless_reason(case, result):
        if not result["passed"]:
            return "caught, though listed as harmless"
        return "harmless" if numbers(result) == numbers(healthy) else "listed as harmless, but numbers differ"
    if result["passed"] and is_hidden(case.precision, case.what, case.fault):
        return "hidden"
    return "passed" if result["passed"] else "caught"


def verdicts(planned, results):
    """(case, result, its verdict) of all; what BF16 hides FP32 must have caught."""
    healthy = {(c.precision, c.section): r for c, r in zip(planned, results) if c.fault is None}
    words = [verdict(c, r, healthy[c.precision, c.section]) for c, r in zip(planned, results)]
    caught = {(c.what, c.fault, c.section) for c, word in zip(planned, words) if word == "caught"}
    return [(c, r, "hidden, and not caught in FP32" if word == "hidden" and (c.what, c.fault, c.section) not in caught
             else word) for c, r, word in zip(planned, results, words)]


def test(number, passed, text):
    print("ok" if passed else "not ok", number, "-", text)
    return passed


def print_table(judged):
    heads = f"{'planted':>8}{'caught':>7}{'harmless':>9}"
    print(f"# {'':7}{'kind':8}{'operation':20}{'where':17}{heads}  smallest residual")
    rows = {}
    for case, result, word in judged:
        if case.fault:
            rows.setdefault((case.precision, case.fault[0], case.fault[1], case.what), []).append((result, word))
    for (precision, kind, operation, what), row in sorted(rows.items()):
        caught = [result for result, word in row if word == "caught"]
        by_check = [scaled(result) for result in caught if scaled(result) >= LIMIT]
        how = f"{min(by_check):.3g}" if by_check else ""
        if any(result["hazards"] for result in caught):
            how += "  hazards named"
        if any(NEVER in str(result["fail_reasons"]) for result in caught):
            how += "  said to have never struck"
        harmless = sum(word == 'harmless' for _, word in row)
        print(f"# {precision:7}{kind:8}{operation:20}{what:17}{len(row):8}{len(caught):7}{harmless:9}  {how}")
    for precision in [*PRECISIONS, "fp8"]:
        row = [scaled(r) for c, r, word in judged if c.precision == precision and word == "caught"
               and scaled(r) >= LIMIT]
        print(f"# {precision}: smallest residual of a fault caught by the check {min(row):.3g}, limit {LIMIT}")
    print(f"# harmless: repeat of what is added to nothing: {SAME}")
    for (kind, operation), (where, reason) in HIDDEN.items():
        print(f"# in BF16 below the limits, in FP32 caught: {kind} {operation} of {', '.join(sorted(where))}: {reason}")
    for (kind, operation), entries in HARMLESS.items():
        for where, nths, reason in entries:
            which, there = sorted(nths or ()) or '', ' of ' + ', '.join(sorted(where)) if where else ''
            print(f"# harmless: {kind} {operation} {which}{there}: {reason}")


def without_a_row(planned, results):
    """Kinds of operations that a deck's fault can name, or that a step of the cases submitted, in which no fault is
    planted. (What a planted scale or flip submits is no operation of the step.)"""
    keys = subprocess.run([TOP / "xgsw", "--keys"], cwd=TOP, text=True, capture_output=True).stdout
    named = keys.rpartition("Operations a fault can name:")[2].split()
    submitted = {kind for c, r in zip(planned, results) if not c.fault or c.fault[0] not in ("scale", "flip")
                 for kind in r["operations"]}
    planted = {c.fault[1] for c in planned if c.fault and c.what not in ("never", "no such rank", "no waits",
        "sends only")}
    return sorted((submitted | set(named)) - planted) if named else ["none is named by --keys"]


def main():
    planned = list(cases("XGSW_TEST_LONG" in os.environ))
    version = subprocess.run([str(TOP / "xgsw"), "--version"], cwd=TOP, text=True, capture_output=True).stdout
    print(f"# planted faults, host backend, {RANKS} ranks, {version.splitlines()[0]}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = [run(planned[at:at + BLOCK], folder) for at in range(0, len(planned), BLOCK)]
        results, statuses = [r for lines, _ in runs for r in lines], {status for _, status in runs}
        _, healthy = run([c for c in planned if c.fault is None], folder)
        _, one = run([c for c in planned if c.what == "DP2xTP2"][:1], folder)
        _, never = run([c for c in planned if c.what == "never"][:1], folder)
    if len(results) != len(planned):
        return 1
    judged = verdicts(planned, results)
    groups = sorted({(c.precision, c.fault[1] if c.fault else "healthy") for c in planned})
    print(f"1..{len(groups) + 2}")
    good = True
    for number, (precision, operation) in enumerate(groups, 1):
        mine = [(c, r, w) for c, r, w in judged if (c.precision, c.fault[1] if c.fault else "healthy") == (precision,
            operation)]
        wrong = [(c, r, w) for c, r, w in mine if w not in ("caught", "harmless", "hidden", "healthy")]
        good &= test(number, not wrong,
                     f"{precision} {operation}: {len(mine)} planted, {sum(w == 'caught' for *_, w in mine)} caught")
        for c, r, w in wrong:
            print(f"# {c.what}: {c.fault}: {w}; residual {scaled(r):.3g}, {r['faults']} faults, {r['hazards']} hazards")
    good &= test(len(groups) + 1, (statuses, healthy, one, never) == ({1}, 0, 1, 1),
                 "exit status 1 with faults, also one that never struck, and 0 without")
    missing = without_a_row(planned, results)
    good &= test(len(groups) + 2, not missing, "every kind of operation that a step submits has a row "
                 + " ".join(missing))
    of = Counter(word for *_, word in judged)
    print(f"# in all {sum(c.fault is not None for c in planned)} planted, {of['caught']} caught, {of['harmless']} "
          f"harmless, {of['hidden']} below BF16's limits")
    print_table(judged)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
