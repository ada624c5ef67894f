"""From what a deck gives a case to all its settings, by the rules of src/plan/deck and src/DEFINITIONS.md."""

import math

from validate import catalogue, formulas
from validate.catalogue import SHAPE, WORKLOADS
from validate.record import RULES_VERSION

LAYOUT = ("tensor", "pipeline", "context", "expert", "data", "shard", "chunks_per_stage")
UNIT = ("tensor", "context", "pipeline", "shard")          # ranks that one data rank spans
# Keys whose default is a rule; the others' is the table's.
RULED = ("tokens", "recompute", "sharding", "schedule", "strips", "transfer_sms", "learning_rate",
         "learning_rate_warmup", "micro_batch", "global_batch", *LAYOUT, *SHAPE)


def product(case, axes):
    return math.prod(case[axis] for axis in axes)


class Draft(dict):
    """Settings so far; `given`: those of the deck, which no rule replaces."""

    def __init__(self, workload, given, fallbacks):
        super().__init__(fallbacks, workload=workload, **given)
        self.given, self.w = given, WORKLOADS[workload]

    def rule(self, key, value):
        self.setdefault(key, value)

    def row(self, layers, ranks):
        """The recipe's, of that depth if it has such."""
        listed = layers if catalogue.rows_of(self["workload"], self["precision"], layers) else 0
        return catalogue.nearest_row(self["workload"], self["precision"], listed, ranks)


def spread(c, world):
    """data is what is left of the ranks, at least 1, unless it is given."""
    c.rule("data", max(1, world // product(c, UNIT)))
    c["ranks"] = product(c, UNIT) * c["data"]


def take_layout(c, world, recorded):
    """The keys', with 1 for those not given; without any, of size = full, the recipe's."""
    given = c["idle_asked"] = any(axis in c.given for axis in LAYOUT)
    row = c.row(c.given.get("layers", 0), world)
    if c["size"] == "auto":
        small = c["backend"] == "host" or row["ranks"] > world
        c["size"] = "small" if small else "full" if not given else recorded.get("size")
    by_recipe = not given and c["size"] == "full"
    for axis in LAYOUT:
        if axis != "data":
            c.rule(axis, row[axis] if by_recipe else 1)
    if by_recipe and row["ranks"] > world:
        c.update(data=row["data"], ranks=row["ranks"])
        c.too_few = f"the recipe's smallest layout needs {row['ranks']} ranks, there are {world}"
        return
    spread(c, world)
    span = c["data"] * c["context"]
    c.too_few = (f"needs {c['ranks']} ranks, there are {world}" if c["ranks"] > world
                 else f"expert {c['expert']} does not divide data x context, {span} with {world} ranks"
                 if "data" not in c.given and span % c["expert"] else "")


def check_shape(c):
    """The check model: as wide as the layout needs, and no wider."""
    tensor, slots = c["tensor"], 2 if c["pipeline"] > 1 else 0
    chunks = c["pipeline"] * c["chunks_per_stage"]
    one_head = c.w.full[3] == c.w.full[4]
    kv_heads = c.given.get("kv_heads", max(2, tensor))
    heads = kv_heads if one_head else 2 * kv_heads
    return (-(-(2 + slots) // chunks) * chunks - slots, 16 * c.given.get("heads", heads), 64 * tensor, heads, kv_heads,
            128 * tensor - 3, 64 * tensor * c["context"])


def full_shape(c):
    """Depth and sequence are those of the recipe's row for the ranks used."""
    depth = c.given.get("layers", 0)
    listed = depth if catalogue.rows_of(c["workload"], c["precision"], depth) else 0
    row = catalogue.find_row(c["workload"], c["precision"], listed, c["ranks"])
    layers, *width, sequence = c.w.full
    return (row["layers"], *width, row["sequence"]) if row else (layers, *width, sequence)


def take_shape(c):
    w, check = c.w, c["size"] == "check"
    shape = full_shape(c) if c["size"] == "full" else check_shape(c) if check else w.small
    positions = 2 * shape[-1] if check else w.position_rows
    if w.full[3] == w.full[4] and "heads" in c.given:
        c.rule("kv_heads", c["heads"])
    for key, value in zip(SHAPE, shape):
        c.rule(key, value)
    std = w.init_std if c["size"] == "full" else catalogue.init_std_of_width(w, c["hidden"])
    c.update(head_dim=c["hidden"] // c["heads"], padded_vocabulary=formulas.padded_vocabulary(c), init=w.init,
             init_std=std, output_init_std=std if w.init == "fan_in" else std / math.sqrt(2 * c["layers"]),
             rope_base=w.rope_base, rope_fraction=w.rope_fraction, rope_scaling=w.rope_scaling, norm_epsilon=1e-5,
             experts=max(4, c["expert"]) if check and w.experts else w.experts,
             active_experts=2 if w.experts else 0, balance=formulas.family(c).balance,
             position_rows=positions if w.position_rows else 0, linear_biases=w.biases, tied_embedding=w.tied,
             labels_next_token=w.next_labels)


def recipe_batch(c, row):
    grows = c["ranks"] >= c.w.batch_fixed_below
    return row["global_batch"] * c["ranks"] // row["ranks"] if grows else row["global_batch"]


def take_batch(c):
    """The recipe's rule where the layout is the recipe's, else the smallest batch that fills the layout."""
    row = c.row(c["layers"], c["ranks"])
    ruled = c["size"] == "full" and not any(
        axis in c.given for axis in ("tensor", "pipeline", "context", "expert", "chunks_per_stage"))
    c.rule("micro_batch", row["micro_batch"] if c["size"] == "full" else 1)
    wave = c["data"] * c["shard"] * c["micro_batch"]
    c.rule("global_batch", recipe_batch(c, row) if ruled else wave * max(2, c["pipeline"]))
    c["microbatches"] = c["global_batch"] // wave


def take_strips(c):
    """Up to four, of 1024 rows or more, that deal the positions evenly to the tensor ranks."""
    positions, tensor = c["sequence"] // c["context"], c["tensor"]
    strips = 4
    while strips > 1 and (positions * c["micro_batch"] // strips < 1024 or positions % (strips * tensor)):
        strips //= 2
    strips = c.given.get("strips", strips) if tensor > 1 else 1
    while strips > 1 and positions % (strips * tensor):
        strips -= 1
    c["strips"] = strips


def unsharded(c, sharding):
    return "none" if c["data"] * c["context"] == 1 else sharding


def by_chunks(c):
    return "interleaved" if c["chunks_per_stage"] > 1 else "1f1b"


def take_recipe(c):
    c.rule("tokens", c.w.tokens)
    c.rule("recompute", c.w.recompute)
    c.rule("sharding", unsharded(c, c.w.sharding))
    c.rule("transfer_sms", 16 if c["tensor"] > 1 else 0)
    c.rule("schedule", by_chunks(c))


def take_optimizer(c):
    """Below full size constant, 1e-3; a rate given replaces the largest, the smallest keeps its ratio to it."""
    w, full = c.w, c["size"] == "full"
    largest, smallest, warmup = w.rates if full else (1e-3, 1e-3, 0)
    constant = w.constant or not full
    warmup = (c["warmup"] + c["steps"]) // 10 if w.warmup_of_run and full else warmup
    if "learning_rate" in c.given:
        given = c.given["learning_rate"]
        largest, smallest = given, given if constant else smallest * (given / largest)
    c.rule("learning_rate", largest)
    c.rule("learning_rate_warmup", warmup)
    c.update(learning_rate_minimum=smallest, learning_rate_constant=constant, beta1=0.9, beta2=0.95, weight_decay=0.1,
             learning_rate_from_zero=w.from_zero and full, decays_vectors=w.decays_vectors, clip=w.clip,
             adam_epsilon=w.epsilon if full else 1e-8, metric_steps=formulas.family(c).metric_steps)


def recipe_gpus(c):
    """Of the recipe's row whose layout, batch and way of computing these are, data-parallel to its ranks; or 0."""
    row = c.row(c["layers"], c["ranks"])
    alike = all(c[key] == row[key] for key in ("precision", *LAYOUT, "layers", "sequence", "micro_batch")
                if key != "data") and c["global_batch"] == row["global_batch"] * c["ranks"] // row["ranks"]
    computes = (c["recompute"] == c.w.recompute and c["schedule"] == by_chunks(c) and c["capacity"] == "1"
                and unsharded(c, c["sharding"]) == unsharded(c, c.w.sharding) and c["overlap"] == "on")
    tokens = c["tokens"] in (c.w.tokens, c.w.recipe_tokens)
    whole = c["size"] == "full" and not own_width(c) and row["ranks"] <= c["ranks"]
    return row["ranks"] if whole and alike and computes and tokens else 0


def own_width(c):
    return any(c[key] != size for key, size in zip(SHAPE[1:6], c.w.full[1:6]))


def take_names(c):
    whole = c["size"] == "full" and not own_width(c)
    proxy = not whole or c["layers"] != c.w.full[0]
    what = f"{c['layers']}-layer proxy" if whole else "own shape" if c["size"] == "full" else c["size"]
    gpus = recipe_gpus(c)
    c.update(proxy=proxy, recipe_gpus=gpus, recipe_layout=gpus == c["ranks"],
             model_name=f"{c['workload']}, {what}" if proxy else c["workload"])


def batch_obstacle(c):
    """Only where data and batch both follow from the ranks at hand; otherwise the deck is refused."""
    data, wave = c["data"], c["data"] * c["shard"] * c["micro_batch"]
    if c.too_few or "data" in c.given or "global_batch" in c.given:
        return ""
    if c["global_batch"] < 1:
        return f"the recipe's batch for {c['ranks']} ranks is less than one sequence; give data or global_batch"
    if c["global_batch"] % wave:
        return (f"global_batch {c['global_batch']} is not a multiple of data {data} x shard {c['shard']} x "
                f"micro_batch {c['micro_batch']}; give data or global_batch")
    if c["schedule"] == "interleaved" and c["microbatches"] % c["pipeline"]:
        return (f"interleaved needs microbatches, here {c['microbatches']}, divisible by pipeline {c['pipeline']}; "
                "give data or global_batch")
    return ""


def settings(section, given, fallbacks, world, recorded):
    """All of a case. recorded: what the record says of it, asked only what auto took."""
    c = Draft(section.workload, given, {key: value for key, value in fallbacks.items() if key not in RULED})
    c["backend_reason"] = "" if c["backend"] == "auto" else "the deck says so"
    if c["backend"] == "auto":
        c["backend"] = recorded.get("backend")
    take_layout(c, world, recorded)
    take_recipe(c)
    take_shape(c)
    take_batch(c)
    take_strips(c)
    take_optimizer(c)
    take_names(c)
    c.update(deck_line=section.line, rules=RULES_VERSION, world_ranks=world, skipped=c.too_few or batch_obstacle(c))
    return c
