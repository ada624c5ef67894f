"""What the catalogue fixes of each workload: sizes, model, optimizer; and the recipes' layouts.

Sources: shared/workloads.md's recipes as src/DEFINITIONS.md states them; cells.csv, and one row of a smoke test."""

import math
import os
from dataclasses import dataclass

from validate import reference

CELLS = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "reference", "cells.csv")
SHAPE = ("layers", "hidden", "ffn", "heads", "kv_heads", "vocabulary", "sequence")
# Measured nowhere, so cells.csv does not have it.
SMOKE = dict(workload="gpt3-52k", precision="bf16", ranks=8, sequence=1024, layers=8, tensor=2, pipeline=2, context=1,
             expert=1, data=2, shard=1, chunks_per_stage=1, micro_batch=8, global_batch=32)


@dataclass(frozen=True)
class Workload:
    full: tuple                         # in the order of SHAPE
    small: tuple
    init_std: float                     # of all weights; fan_in: before 1 / sqrt(fan-in)
    rates: tuple                        # largest, smallest, steps of the warm-up
    init: str = "std"
    tokens: str = "uniform"             # the default; recipe_tokens: the recipe's own
    recipe_tokens: str = ""
    recompute: str = "none"
    sharding: str = "optimizer"
    batch_fixed_below: int = 0          # ranks below which the recipe's batch does not grow with them
    warmup_of_run: bool = False         # a tenth of the run's steps
    constant: bool = False              # no cosine
    from_zero: bool = False             # the first step's rate is 0
    decays_vectors: bool = False
    epsilon: float = 1e-8
    clip: float = 1.0
    rope_base: float = 0.0
    rope_fraction: float = 0.0
    rope_scaling: bool = False
    experts: int = 0
    position_rows: int = 0
    biases: bool = False
    tied: bool = False
    next_labels: bool = True


def llama31(full, init_std, **more):
    return Workload(full, (8, 256, 1024, 8, 4, 4096, 256), init_std, (3e-4, 3e-5, 2000), epsilon=1e-5,
                    rope_base=500000.0, rope_fraction=1.0, next_labels=False, **more)


def gpt3(full, small, rates, positions, recompute, **more):
    return Workload(full, small, 1.0, rates, init="fan_in", recipe_tokens="zeros", recompute=recompute,
                    from_zero=True, decays_vectors=True, clip=0.0, position_rows=positions, biases=True, tied=True,
                    **more)


GPT3_52K = (8, 16, 64, 2, 2, 1024, 1024)
WORKLOADS = {
    "llama3.1-8b": llama31((32, 4096, 14336, 32, 8, 128256, 8192), 0.01),
    "llama3.1-70b": llama31((80, 8192, 28672, 64, 8, 128256, 8192), 0.008944),
    "llama3.1-405b": llama31((126, 16384, 53248, 128, 8, 128256, 8192), 0.02, rope_scaling=True),
    "llama2-70b": Workload((80, 8192, 28672, 64, 8, 32000, 4096), (8, 256, 1024, 8, 4, 4096, 256), 1.0,
                           (3e-5, 3e-6, 0), init="fan_in", recipe_tokens="zeros", recompute="attention_mlp",
                           sharding="none", warmup_of_run=True, from_zero=True, decays_vectors=True,
                           rope_base=10000.0, rope_fraction=1.0),
    "nemotron4-340b": Workload((96, 18432, 73728, 96, 8, 256000, 4096), (10, 256, 1024, 8, 4, 4096, 256), 0.0063,
                               (1e-4, 1e-5, 500), tokens="ramp", recompute="attention", rope_base=10000.0,
                               rope_fraction=0.5),
    "grok1-314b": Workload((64, 6144, 32768, 48, 8, 128256, 8192), (4, 256, 256, 8, 4, 4096, 256), 0.008,
                           (1.2e-4, 1.2e-4, 636), tokens="ramp", batch_fixed_below=512, constant=True, experts=8,
                           rope_base=1e6, rope_fraction=1.0),
    "gpt3-175b": gpt3((96, 12288, 49152, 96, 96, 50304, 2048), (8, 256, 1024, 8, 8, 4096, 256), (2e-5, 2e-5, 3180),
                      16384, "attention_elementwise", constant=True),
    "gpt3-52k": gpt3(GPT3_52K, GPT3_52K, (3e-5, 3e-6, 0), 2048, "layer", warmup_of_run=True),
}
ROWS = [*reference.read_cells(CELLS), SMOKE]


def rows_of(workload, precision, layers):
    """A recipe's rows, of a depth or of any (0); FP32, and FP8 where there are no such, go by those of BF16."""
    own = precision == "fp8" and any(row["workload"] == workload and row["precision"] == "fp8" for row in ROWS)
    listed = "fp8" if own else "bf16"
    return [row for row in ROWS if row["workload"] == workload and row["precision"] == listed
            and layers in (0, row["layers"])]


def find_row(workload, precision, layers, ranks):
    """The row of most ranks that needs no more than these; nothing where there is none."""
    return max((row for row in rows_of(workload, precision, layers) if row["ranks"] <= ranks),
               key=lambda row: row["ranks"], default=None)


def nearest_row(workload, precision, layers, ranks):
    """That, or else the row of fewest ranks."""
    return find_row(workload, precision, layers, ranks) or rows_of(workload, precision, layers)[0]


def init_std_of_width(w, hidden):
    """The recipe's for a model of another width: products of a normed row keep their spread."""
    return w.init_std if w.init == "fan_in" else w.init_std * math.sqrt(w.full[1] / hidden)
