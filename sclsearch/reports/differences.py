"""Differences of two configurations under a rule, with intervals for other seeds and rows."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from sclsearch.randomness import stream
from sclsearch.selection.rules import Rule, parse_rule, reported_test, score
from sclsearch.selection.significance import ALPHA, FEWEST_PAIRS, Ends
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import DamagedError
from sclsearch.tasks.metrics import METRICS, confusion

if TYPE_CHECKING:
    from sclsearch.reports.report import ConfigurationLine, Report
    from sclsearch.study.state import SearchState

SEED_DRAWS, ROW_DRAWS = 1000, 200
"""Bootstrap samples of the seeds, and of the rows."""
Split = Literal["test", "validation"]
Rows = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""True and predicted classes or scores of a seed's rows, `[rows]` each."""
RowsOf = Mapping[int, Rows]
"""Rows of a configuration by replicate."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Score of a configuration minus that of another one under the same rule."""

    difference: float
    interval: Ends | None  # 95 %, for other seeds; None for fewer than three pairs
    n: int  # seeds, or their training subsets
    for_rows: bool  # whether the interval is also for other rows, which needs stored predictions

    @property
    def reliable(self) -> bool:
        """True if 0 is outside the interval."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]


@dataclass(frozen=True, slots=True)
class AgainstBaseline:
    """Lead of the winner over a baseline."""

    name: str
    lead: Difference
    split: str  # `test`, `fold`, or `validation` if the winner has not been tested


@dataclass(frozen=True, slots=True)
class ScoredSeed:
    """Scores of a seed run, None for a failed or missing one, and rows of the compared split."""

    validation: float | None = None
    test: float | None = None
    rows: Rows | None = None  # None if they are not stored


Seeds = Sequence[ScoredSeed]
"""Seed runs of a configuration by replicate."""
Pairs = Sequence[Sequence[ScoredSeed]]
"""Seed runs of two configurations, one pair for each replicate."""


def scored_seeds(line: "ConfigurationLine", replicates: Sequence[int], rows: RowsOf) -> Seeds:
    """Return the scores of a configuration on some replicates, with its rows by replicate."""
    found = {
        seed.replicate: ScoredSeed(seed.validation, seed.test, rows.get(seed.replicate))
        for seed in line.seeds
        if seed.failure is None
    }
    return [found.get(number, ScoredSeed()) for number in replicates]


def difference(
    ours: Seeds,
    theirs: Seeds,
    rule: Rule,
    metric: str,
    split: Split,
    digests: Sequence[Mapping[str, str]],
) -> Difference | None:
    """Return our score minus theirs under a rule; None if one has no score.

    The variance is that over seeds plus that over rows, each from bootstrap samples to which the
    rule is applied. Seeds with the same training rows are drawn together, and seeds with the same
    rows of the split draw the same ones. The interval is Student's, with the degrees of freedom of
    Satterthwaite (1946, Biometrics Bulletin 2:110-114). `digests` has for each replicate the
    SHA-256 of its rows by their use.
    """
    from scipy.special import stdtrit

    lowest, span = METRICS[metric].minimum, METRICS[metric].span

    def gap(pairs: Pairs) -> float | None:
        a, b = (_score(line, rule, split, lowest) for line in zip(*pairs, strict=True))
        return None if a is None or b is None else a - b

    pairs = [*zip(ours, theirs, strict=True)]
    value, groups = gap(pairs), _together(digests)
    if value is None:
        return None
    finished = [None not in (a.validation, b.validation) for a, b in pairs]
    known = sum(any(finished[seed] for seed in group) for group in groups)
    for_rows = all(one.rows or one.validation is None for one in (*ours, *theirs))
    if known < FEWEST_PAIRS:
        return Difference(value, None, known, for_rows)
    draw, others = stream(0, "difference"), len(groups) - 1
    samples = draw.integers(len(groups), size=(SEED_DRAWS, len(groups)))
    drawn = ([pairs[seed] for group in one for seed in groups[group]] for one in samples)
    of_seeds, of_rows = _variance(map(gap, drawn)) * len(groups) / others, 0.0
    if for_rows:
        own = [one[split] for one in digests]
        of_rows = _variance(map(gap, _resampled(pairs, own, metric, split, draw)))
    variance = of_seeds + of_rows
    freedom = others * (variance / of_seeds) ** 2 if of_seeds else math.inf
    half = float(stdtrit(freedom, 1 - ALPHA / 2)) * math.sqrt(variance)
    if for_rows:  # equal predictions of a few rows do not exclude a difference of one row
        half = max(half, (1 + 1e-9) / min(len(one.rows[0]) for one in ours if one.rows))
    interval = max(value - half, -span), min(value + half, span)
    return Difference(value, interval, known, for_rows)


def _score(seeds: Seeds, rule: Rule, split: Split, lowest: float) -> float | None:
    """Return the validation score, or the mean test score of the reported seeds."""
    validation = [one.validation for one in seeds]
    if split == "validation":
        return score(rule, validation, lowest)
    return reported_test(rule, validation, [one.test for one in seeds])[1]


def _together(digests: Sequence[Mapping[str, str]]) -> list[list[int]]:
    """Return the seeds by training rows, or each alone if all have the same."""
    groups: dict[str, list[int]] = {}
    for seed, rows in enumerate(digests):
        groups.setdefault(rows["train"], []).append(seed)
    return [*groups.values()] if len(groups) > 1 else [[seed] for seed in range(len(digests))]


def _variance(samples: Iterable[float | None]) -> float:
    known = [one for one in samples if one is not None]
    return float(np.var(known, ddof=1)) if len(known) > 1 else 0.0


def _resampled(
    pairs: Pairs, digests: Sequence[str], metric: str, split: Split, draw: np.random.Generator
) -> Iterator[Pairs]:
    """Yield the pairs with their scores on bootstrap samples of the rows."""
    sizes = {
        digest: len(seed.rows[0])
        for line in zip(*pairs, strict=True)
        for seed, digest in zip(line, digests, strict=True)
        if seed.rows
    }
    for _ in range(ROW_DRAWS):
        drawn = {digest: draw.integers(size, size=size) for digest, size in sizes.items()}
        yield [
            [_rescored(seed, metric, split, drawn.get(digest)) for seed in pair]
            for pair, digest in zip(pairs, digests, strict=True)
        ]


def _rescored(seed: ScoredSeed, metric: str, split: Split, drawn: Any) -> ScoredSeed:
    """Return a seed with its score on drawn rows; a failed one has none."""
    if seed.rows is None:
        return seed
    y, predicted = (part[drawn] for part in seed.rows)
    found = METRICS[metric]
    if found.needs == "classes":
        classes = max(2, 1 + int(max(y.max(), predicted.max())))
        value = found.function(confusion(y, predicted.astype(np.int64), classes))
    else:
        value = found.function(predicted, y)
    return replace(seed, test=value) if split == "test" else replace(seed, validation=value)


def rows_of(report: "Report", line: "ConfigurationLine", split: Split) -> RowsOf:
    """Return the stored true and predicted classes or scores of a configuration, by replicate.

    There are none for metrics that need probabilities.
    """
    if METRICS[report.metric].needs == "probabilities":
        return {}
    store, found = RunStore(report.storage), dict[int, Rows]()
    with suppress(DamagedError):
        runs = store.get_all([seed.key for seed in line.seeds])
        pairs = zip(line.seeds, runs, strict=True)
        known = {seed.replicate: run for seed, run in pairs if run is not None and run.rows}
        results = store.rows([*known.values()])
        for (number, run), rows in zip(known.items(), results, strict=True):
            if rows is not None and split in rows.labels and split in run.predictions:
                found[number] = rows.labels[split], np.array(run.predictions[split])
    return found


def with_leads(report: "Report", state: "SearchState", stored: Mapping[int, Any]) -> "Report":
    """Return the report with the winner's leads over the next configuration and the baselines.

    `stored` has the evaluations and predictions of each baseline by replicate.
    """
    from sclsearch.reports.report import best_line

    winner = report.winner
    if winner is None:
        return report
    replicates = [seed.replicate for seed in winner.seeds]  # without damaged ones
    rule, runs = parse_rule(report.rule), state.runs_of(winner.number).values()

    def lead(
        line: "ConfigurationLine", split: Split, own: RowsOf, its: RowsOf
    ) -> Difference | None:
        """Return the lead over a configuration; its interval reaches one row to each side."""
        ours, theirs = scored_seeds(winner, replicates, own), scored_seeds(line, replicates, its)
        found = difference(ours, theirs, rule, report.metric, split, report.rows)
        if found is None or found.interval is None or found.for_rows:
            return found
        counts = [run.counted.get(split, {}).get("confusion") for run in runs]
        row = (1 + 1e-9) / min((float(np.sum(one)) for one in counts if one), default=math.inf)
        low, high = found.interval
        wide = min(low, found.difference - row), max(high, found.difference + row)
        return replace(found, interval=wide)

    over_next = None
    if following := best_line([line for line in report.configurations if line is not winner]):
        own, its = (rows_of(report, line, "validation") for line in (winner, following))
        over_next = lead(following, "validation", own, its)
    split: Split = "validation" if winner.test_mean is None else "test"
    pairs = zip(replicates, report.rows, strict=True)
    digests = {number: rows.get(split, "") for number, rows in pairs}
    own, against = rows_of(report, winner, split), list[AgainstBaseline]()
    for line in report.baselines:
        its = _rows_of_baseline(line.origin, own, stored, split, digests)
        found = lead(line, split, own, its) if len(line.seeds) == len(replicates) else None
        if found is not None:
            name = report.tested_on if split == "test" else split
            against.append(AgainstBaseline(line.origin, found, name))
    return replace(report, against=tuple(against), over_next=over_next)


def _rows_of_baseline(
    name: str, own: RowsOf, stored: Mapping[int, Any], split: Split, digests: Mapping[int, str]
) -> RowsOf:
    """Return the stored rows of a baseline; the winner's rows have their true classes."""
    labels = {digests[number]: y for number, (y, _) in own.items()}
    return {
        number: (labels[digests[number]], np.array(one[name]["predictions"][split]))
        for number, one in stored.items()
        if digests.get(number) in labels and name in one
    }
