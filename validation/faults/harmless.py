"""Planted faults that change no number, and those that only FP32's limits see, each with its reason (table.t)."""

LARGEST = "the largest of all ranks' amaxes, taken again, is the same"
SAME = "it writes, and adds to nothing: run twice it writes the same"
OLD = "redundant: what it sends is old, and its place was free before an earlier wait: no hazard, the same numbers " \
      "(units/train/waits)"
FREE = "redundant: it receives only, and its place was free before an earlier wait: no hazard, the same numbers"
BULK = "overlap = off makes it wait for a transfer that it does not touch; whoever reads what that brings waits " \
       "for it, too"
LATER = "it does not read the norm's sum, and the clip factor, which does, follows the loss's sum, a later transfer " \
        "of the same queue"
OTHERS = "in place, the middle element is the other rank's part, which is not used here"
ZERO = "it fills with zeros, which zero, written twice or times two, is"
HARMLESS = {  # (kind, operation): [(where or None for everywhere, executions or None for all, reason)]
    ("repeat", "all_reduce"): [({"amaxes"}, {4}, LARGEST), ({"codes of shards"}, {4}, LARGEST),
                               ({"codes of experts"}, {11}, LARGEST)],
    ("repeat", "step_clip"): [(None, None, "what it adds to the scalars, it writes")],
    ("repeat", "all_gather"): [(None, None, "of what it adds to, its own part stays: run twice it copies the same")],
    ("stale", "all_gather"): [({"rows of experts"}, {9}, "of the last layer: its forward left the same rows there")],
    ("drop", "fill"): [(None, None, ZERO)],
    ("scale", "fill"): [(None, None, ZERO)],
    ("flip", "copy"): [({"DP2xTP2"}, {("fp32", 1), ("bf16", 2)},
                        "in the report, the middle scalar is a correction of the moments, which nobody reads")],
    ("flip", "reduce_scatter"): [({"other's part"}, {5}, OTHERS), ({"DP2xTP2"}, {3}, OTHERS)],
    # the heads' input, gathered again; the gradients' sum over ranks
    ("unwait", "matmul"): [({"bulk"}, None, BULK)],
    ("unwait", "fill"): [({"bulk"}, None, BULK)],
    ("unwait", "adamw"): [({"bulk"}, None, BULK)],          # the weights of the bucket before, gathered
    ("unwait", "sum"): [({"unwait"}, None, LATER)],
    ("unwait", "all_gather"): [({"unwait"}, {7}, OLD)],
    ("unwait", "exchange"): [({"unwait in PP4"}, {2, 4, 6, 8}, FREE)],
}
# What BF16's limits do not see: the same fault in FP32 must be caught. (kind, operation): (where, reason)
COUNTS = "counts or probabilities of the balance loss, whose gradient is small, on a rank that does not report it"
HIDDEN = {
    ("flip", "squared_relu_forward"): ({"nemotron"}, "a zero, as half of them are, becomes 2, once in 16384 numbers"),
    ("flip", "all_reduce"): ({"router", "experts of context"}, COUNTS),
    ("scale", "all_reduce"): ({"router", "experts of context"}, COUNTS),
}
