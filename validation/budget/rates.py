"""How fast a layer's products are by products.list, in pieces and whole; and the list of explained failures."""
from layouts import products

EXPLAINED = "validation/budget/explained.list"


def missing(prices, some):
    return sorted({p.key for p in some} - prices.keys())


def seconds(prices, some):
    return sum(1e-6 * prices[p.key] * p.times for p in some)


def rate(prices, some):
    """Flops a second of these products one after another."""
    return sum(p.flops for p in some) / seconds(prices, some)


def share_of_whole(prices, x, pieces, head=False):
    """The rate of products whose rows come in pieces, of the rate of the same products with all rows at once."""
    return rate(prices, products(x, pieces, head)) / rate(prices, products(x, 1, head))


def shapes(layouts):
    """{layouts that have the same products: one of them}, by their names."""
    groups = {}
    for x in layouts:
        groups.setdefault((x.workload, x.tensor, x.context, x.micro_batch, x.sequence), []).append(x)
    return {f"{some[0]}" + (f" to {some[-1].gpus}" if len(some) > 1 else ""): some[0] for some in groups.values()}


def explained(proof):
    """{name: reason} of the rows of explained.list that are about this proof."""
    with open(EXPLAINED, encoding="utf-8") as rows:
        parts = [[part.strip() for part in row.split("|")] for row in rows if "|" in row and not row.startswith("#")]
    return {name: reason for of, name, reason in parts if of == proof}


def verdict(tap, holds, name, reasons):
    """A test that holds, or fails for a reason that is listed; a listed one that holds is out of date."""
    if name in reasons and not holds:
        tap.say(f"explained: {name}: {reasons[name]}")
    tap.ok(holds != (name in reasons), name, "explained, but it holds: take it off the list" if holds else "")
