"""How fast a layer's products are by products.list, in pieces and whole; and the list of explained failures."""
import re
from fnmatch import fnmatchcase

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
        groups.setdefault((x.workload, x.precision, x.tensor, x.context, x.microbatch, x.sequence), []).append(x)
    return {f"{some[0]}" + (f" to {some[-1].gpus}" if len(some) > 1 else ""): some[0] for some in groups.values()}


class Explained:
    """The rows of explained.list about one proof: names with * for what varies, and why these fail."""

    def __init__(self, proof):
        with open(EXPLAINED, encoding="utf-8") as rows:
            text = "".join(row for row in rows if not row.startswith("#"))
        found = re.findall(r"^(\w+) \| (.+)\n((?: +.+\n)+)", text, re.M)
        self.reasons = {name: " ".join(reason.split()) for of, name, reason in found if of == proof}
        self.used = set()

    def holds(self, tap, good, name):
        """True if it is good, or fails for a reason that is listed; the reason is said once."""
        found = [] if good else [pattern for pattern in self.reasons if fnmatchcase(name, pattern)]
        for pattern in set(found) - self.used:
            tap.say(f"explained: {pattern}: {self.reasons[pattern]}")
        self.used |= set(found)
        return good or bool(found)

    def all_used(self, tap):
        unused = self.reasons.keys() - self.used
        tap.ok(not unused, "every explained row still fails", "\n".join(unused))
