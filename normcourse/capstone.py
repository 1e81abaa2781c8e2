"""The trial of lesson 08: its nets, its contenders, its runs, and the family of its comparisons.

Lessons 08 and 08a read the same records. What they call better, equal or open is decided here, in
one family, which says pair by pair what is compared.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from normcourse import measures, training
from normcourse.training.records import Run, TrainingRecord

NETS = {
    "mlp": "plain MLP",
    "cnn": "CNN",
    "residual": "residual MLP",
    "residual_sgd": "residual, SGD",
    "pre": "Pre-LN",
    "post": "Post-LN",
    "deep": "30 layers",
}
NAMES = {
    "none": "none",
    "batch_norm": "BN",
    "layer_norm": "LN",
    "rms_norm": "RMSNorm",
    "group_norm": "GN",
    "dyt": "DyT",
    "dyt_tuned": "DyT tuned",
    "dyisru": "DyISRU",
    "dyisru_tuned": "DyISRU tuned",
    "derf": "Derf",
    "dyt_sqrt_d": "DyT √D",
    "dyisru_sqrt_d": "DyISRU √D",
    "softcap": "softcap",
    "weight_norm": "WeightNorm",
    "skip_init": "SkipInit",
    "qk_norm": "QK-norm",
    "rms_norm_qk": "RMS + QK",
}
# The family: each pair is compared in every net where both ran. First what lesson 08 asks,
OWN_PAIRS = [
    ("batch_norm", "none"),
    ("layer_norm", "none"),
    ("dyt", "none"),
    ("batch_norm", "layer_norm"),
    ("batch_norm", "group_norm"),
    ("rms_norm", "layer_norm"),
    ("batch_norm", "skip_init"),
]
# then what side lesson 08a asks of the same runs.
SIDE_PAIRS = [
    ("layer_norm", "dyisru"),
    ("rms_norm", "dyisru"),
    ("dyisru", "dyt"),
    ("derf", "dyt"),
    ("dyt_tuned", "dyt"),
    ("dyisru_tuned", "dyt_tuned"),
    ("skip_init", "none"),
    ("layer_norm", "skip_init"),
    ("dyt_sqrt_d", "dyt"),
    ("dyt_sqrt_d", "none"),
]
PAIRS = OWN_PAIRS + SIDE_PAIRS
# Validation chose the published slope there: a run would be compared with itself.
ONE_RUN = {("dyt_tuned", "dyt", "residual"), ("dyt_tuned", "dyt", "residual_sgd")}


def _without(*names: str) -> list[tuple[str, str]]:
    return [pair for pair in PAIRS if not set(pair) & set(names)]


# How the family grew. Derf, SkipInit and the tuned slopes came after a look at results; DyT with
# sqrt(D) had run from the start, and was compared when all runs were known.
STAGES = {
    "before the look": _without("derf", "skip_init", "dyt_tuned", "dyisru_tuned", "dyt_sqrt_d"),
    "with what came later": _without("dyt_sqrt_d"),
    "with DyT √D, all": PAIRS,
}
LIKE_PRE_LN = ("none", "weight_norm", "skip_init", "qk_norm")  # without a norm Post-LN is Pre-LN
LEVEL = 0.05
MARGIN = 2  # points of test accuracy; fixed before the runs
HEAD = "seeds, mean, interval, p, Holm, BH"
# A mean such as 0.125 lies between two digits: this rounds it up on every machine.
UP = 1e-6

Pair = tuple[str, str]  # first, second
Key = tuple[str, str, str]  # first, second, net


def finals(record: TrainingRecord, contender: str) -> list[Run]:
    """The runs of one contender that judge, sorted by seed."""
    where = (contender, "final")
    runs = [run for run in record.runs if (run.norm, run.phase) == where]
    return sorted(runs, key=lambda run: run.seed)


def points(record: TrainingRecord, contender: str) -> Tensor:
    """Right test digits in percent (seeds,), one number for each run that judges."""
    total = record.settings.data.test
    right = [run.test_right for run in finals(record, contender)]
    return torch.tensor(right, dtype=torch.float64) * 100 / total


def report_starts(record: TrainingRecord) -> None:
    """Print the right test digits of each contender: the mean, the worst and the best start."""
    steps = record.settings.train["steps"]
    starts = len(record.settings.seeds)
    print(f"{steps} steps, {starts} starts: right test digits, mean (worst to best)")
    for name in record.settings.norms:
        right = points(record, name) + UP
        span = f"{right.min():.1f} to {right.max():.1f}"
        print(f"{NAMES[name]:13s}{right.mean():5.1f} % ({span})")


class Trial:
    """The records of all nets, and the words that follow from them.

    Attributes:
        records: {net: record}.
        family: {(first, second, net): first minus second, as measures.paired gives it}.
        holm, bh: {(first, second, net): p, corrected within the family}.
    """

    def __init__(self, folder: str | Path = "records") -> None:
        """Raises: RecordError (a record that is missing, damaged or incomplete)."""
        folder = Path(folder)
        self.records = {net: training.load_record(folder / f"capstone_{net}.json") for net in NETS}
        self._correct(dict(self._comparisons()))

    def only(self, pairs: Collection[Pair]) -> "Trial":
        """The same results, judged as if these pairs were the whole family."""
        smaller = copy.copy(self)
        kept = {key: found for key, found in self.family.items() if key[:2] in pairs}
        smaller._correct(kept)
        return smaller

    def unpaired(self) -> "Trial":
        """The same means and intervals; p, and so the words, as if no two shared a seed."""
        other = copy.copy(self)
        family = {}
        for (first, second, net), found in self.family.items():
            p = measures.welch(self.points(net, first), self.points(net, second))
            family[first, second, net] = found._replace(p=p)
        other._correct(family)
        return other

    def record(self, net: str, contender: str) -> TrainingRecord:
        """Where this contender's runs are: without a norm Post-LN is Pre-LN."""
        return self.records["pre" if net == "post" and contender in LIKE_PRE_LN else net]

    def finals(self, net: str, contender: str) -> list[Run]:
        """The runs that judge, sorted by seed."""
        return finals(self.record(net, contender), contender)

    def points(self, net: str, contender: str) -> Tensor:
        """Right test digits in percent (seeds,), one number for each run that judges."""
        return points(self.record(net, contender), contender)

    def gains(self, net: str) -> dict[str, measures.Paired]:
        """{contender: its results minus those of no norm}, for all that ran in this net."""
        none = self.points(net, "none")
        found = {name: self.points(net, name) for name in NAMES if name != "none"}
        return {name: measures.paired(right, none) for name, right in found.items() if len(right)}

    def near_best(self, net: str) -> tuple[str, list[str]]:
        """The best mean, and all others that are shown to be less than MARGIN points worse.

        Shown: the low end of "contender minus best" lies above -MARGIN, one interval each.
        """
        results = {name: self.points(net, name) for name in NAMES}
        ran = [name for name, right in results.items() if len(right)]
        best = max(ran, key=lambda name: results[name].mean())
        near = []
        for name in ran:
            found = measures.paired(results[name], results[best])
            if name != best and found.low > -MARGIN:
                near.append(name)
        return best, near

    def by_signs(self) -> dict[Key, float]:
        """{(first, second, net): p of measures.sign_flip}, not corrected, of the whole family."""
        return {
            (first, second, net): measures.sign_flip(
                self.points(net, first) - self.points(net, second)
            )
            for first, second, net in self.family
        }

    def disagreements(self) -> tuple[int, int]:
        """In how many choices of a rate two tuning seeds, each alone, differ; and of how many."""
        differ = []
        for record in self.records.values():
            for norm in record.settings.norms:
                rates = set()
                for seed in record.settings.tuning_seeds:
                    runs = [run for run in record.runs if run.seed == seed]
                    rates.add(training.tuned(record.settings, runs, norm).lr)
                differ.append(len(rates) > 1)
        return sum(differ), len(differ)

    def verdict(self, first: str, second: str, net: str) -> str:
        """better, worse (Holm); with a ? (Benjamini and Hochberg alone); equal; open."""
        key = (first, second, net)
        found = self.family[key]
        direction = "better" if found.mean > 0 else "worse"
        if self.holm[key] < LEVEL:
            return direction
        if self.bh[key] < LEVEL:
            return direction + "?"
        within = found.low > -MARGIN and found.high < MARGIN
        return "equal" if within else "open"

    def line(self, first: str, second: str, net: str) -> str:
        """Seeds, mean, interval, p, both corrected p, and the word."""
        key = (first, second, net)
        found = self.family[key]
        seeds = len(self.points(net, first))
        low = found.low + UP
        high = found.high + UP
        chances = " ".join(_small(p) for p in (found.p, self.holm[key], self.bh[key]))
        row = f"{seeds:2d} {found.mean + UP:6.2f} [{low:6.2f}, {high:6.2f}]"
        return f"{row} {chances} {self.verdict(*key)}"

    def report(self, first: str, second: str) -> None:
        """Print one line for each net where both ran."""
        print(f"{NAMES[first]} - {NAMES[second]}: {HEAD}")
        for net, name in NETS.items():
            if (first, second, net) in self.family:
                print(f"{name:14s}{self.line(first, second, net)}")

    def run(self, protocol: Mapping) -> TrainingRecord:
        """A record like that of the protocol's setting, of its contenders, rates and seeds alone.

        Args:
            protocol: what exercise 4 of lesson 08 has accepted.
        """
        record = self.records[protocol["setting"]]
        settings = replace(
            record.settings,
            norms={name: training.CONTENDERS[name].start for name in protocol["contenders"]},
            rates=protocol["rates"],
            tuning_seeds=protocol["tuning_seeds"],
            seeds=protocol["seeds"],
            slopes={},
            sweeps={},
        )
        return replace(record, settings=settings, runs=training.all_runs(settings))

    def _comparisons(self) -> Iterator[tuple[Key, measures.Paired]]:
        for first, second in PAIRS:
            for net in NETS:
                a = self.points(net, first)
                b = self.points(net, second)
                # without a norm in both it is Pre-LN's comparison
                known = net == "post" and {first, second} <= set(LIKE_PRE_LN)
                if len(a) and len(b) and not known and (first, second, net) not in ONE_RUN:
                    yield (first, second, net), measures.paired(a, b)

    def _correct(self, family: dict[Key, measures.Paired]) -> None:
        self.family = family
        p = torch.tensor([found.p for found in family.values()], dtype=torch.float64)
        self.holm = dict(zip(family, measures.holm(p).tolist(), strict=True))
        self.bh = dict(zip(family, measures.benjamini_hochberg(p).tolist(), strict=True))


def _small(p: float) -> str:
    return "<.001" if p < 0.001 else f"{p:.3f}"
