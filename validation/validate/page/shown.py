"""A record and a case as the page shows them: names of ranks, verdicts and reasons, expected speed."""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from operator import itemgetter

import numpy as np

from validate import reference, slow, views
from validate.findings import Findings
from validate.html import percent


@dataclass
class Run:
    """A record, and its contradictions in the whole file and in each case by name."""

    record: object
    whole: list
    of_case: dict
    name: str
    path: str
    sha256: str
    clean: object    # the Cleaner that hides private texts
    grids: dict = field(default_factory=dict)    # number of ranks -> grid of its maps

    @cached_property
    def places(self):
        return views.places(self.record)


@dataclass
class Shown:
    """A case of a run. Its label is "case 3", or "record 2, case 3" if there are several records."""

    run: Run
    case: object
    label: str

    def __post_init__(self):
        self.settings, self.values = self.case.settings, self.case.values
        self.findings = self.run.of_case[self.case.name]
        self.anchor = self.label.replace(", ", "-").replace(" ", "-")
        self.unit = "GPU" if self.settings["backend"] == "cuda" else "process"
        self.expected = self.settings["expected_tokens_per_second"]    # NaN: none
        self.timed = self.case.ran and len(views.measured(self.case)) > 0
        self.tokens = views.speed(self.case)[0] if self.timed else np.nan    # results/tokens_per_second, if recorded

    @property
    def title(self):
        s = self.settings
        units = {"GPU": "GPUs"}.get(self.unit, "processes") if s["ranks"] > 1 else self.unit
        size = "" if s["size"] == "full" else f", {s['size']}"
        return (f"{self.label.capitalize()}: {s['workload']}{size} {s['precision']}, {s['ranks']} {units}, "
                f"{views.layout(self.case)}")

    def device(self, rank):
        """Returns the index of a GPU or process on its node, and the bus of a GPU if it is known."""
        bus = self.run.record.provenance.get("device_bus", ())
        known = self.unit == "GPU" and rank < len(bus) and bus[rank]
        return f"{self.unit} {self.run.places[rank][1]}" + (f", bus {bus[rank]}" if known else "")

    def rank(self, rank):
        host, place = self.run.places[rank]
        return f"rank {rank}, {host} {self.unit} {place}"

    def with_unit(self, sentence, rank):
        """Adds the host and GPU of the rank to a sentence about it."""
        if rank < 0:
            return sentence
        host, device = self.run.places[rank][0], self.device(rank)
        named = sentence.replace(f"rank {rank} on {host}", f"rank {rank} on {host} {device}", 1)
        return named if named != sentence else f"{sentence} (rank {rank}, {host} {device})"

    @cached_property
    def by_rank(self):
        """Returns whether the record has seconds of each rank. A record made from a journal has none."""
        return self.timed and not self.case.recovered

    @cached_property
    def excess(self):
        """Excess of each rank's own computing over its peers'. NaN: too few steps, no peers, or shared cores."""
        return self.values["ranks/excess"] if self.by_rank else np.full(self.settings["ranks"], np.nan)

    @cached_property
    def outliers(self):
        """Ranks that compute longer than the run rules allow; the slowest comes first."""
        if not self.by_rank:
            return []
        sure = self.excess - slow.ERRORS * self.values["ranks/excess_error"]
        return [int(rank) for rank in np.argsort(-self.excess, kind="stable") if sure[rank] > slow.LIMIT]

    @cached_property
    def published(self):
        """Tokens/s of the published cell that the case may be compared with; NaN if there is none."""
        row = self.by_rank and reference.compare(self.case, reference.read_cells(reference.CELLS), None, Findings())[0]
        return self.case["results/tokens_per_step"] / row["step_seconds"] if row else np.nan

    @property
    def badges(self):
        s, ran = self.settings, self.settings["verdict"] != "SKIPPED"
        words = (s["verdict"], s["validity"] * ran, s["acceptance"])
        return ["RECORD CONTRADICTS ITSELF"] * bool(self.findings) + [word for word in words if word]

    @property
    def word(self):
        """The word that the case contributes to the whole. A skipped case counts only if a speed was expected of it."""
        s = self.settings
        words = {"FAILED": "FAILED", "INTERRUPTED": "INCOMPLETE"}
        other = "NOTHING TRAINED" if s["verdict"] == "SKIPPED" else s["validity"]
        missed = "NOT ACCEPTED" if s["acceptance"] == "NOT ACCEPTED" else other
        return "RECORD CONTRADICTS ITSELF" if self.findings else words.get(s["verdict"], missed)

    @property
    def expectation(self):
        asked = f"{100 * (1 - self.settings['tolerance']):.4g} %"
        return f"{percent(self.tokens / self.expected)} of the expected tokens/s, {asked} asked"

    @cached_property
    def reasons(self):
        """Sentences on what is wrong, in this order: contradictions, faults, slow ranks, speed, other rules."""
        s, found = self.settings, [(0, sentence) for sentence in self.findings]
        for kind in ("fail", "invalid"):
            told = (self.values.get(f"results/{kind}_{part}", ()) for part in ("reasons", "ranks"))
            for sentence, rank in zip_longest(*told, fillvalue=-1):
                place = 1 if kind == "fail" else {"interrupted": 1, "outlier": 2}.get(sentence.split()[0], 4)
                if sentence != "failed":
                    found.append((place, self.with_unit(sentence, rank)))
        if self.tokens < (1 - s["tolerance"]) * self.expected:
            found.append((3, self.expectation))
        elif s["not_accepted"] and (s["validity"] == "VALID" or s["skipped"]):
            found.append((3, s["not_accepted"]))
        if s["skipped"] and not s["not_accepted"]:    # not_accepted names the skip, too
            found.append((5, f"skipped: {s['skipped']}"))
        return [sentence for _, sentence in sorted(found, key=itemgetter(0))]
