"""Differences of two configurations under a rule, with intervals for other seeds and rows."""

import math
from collections.abc import Iterator, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Difference:
    """Score of a configuration minus that of another one under the same rule.

    Attributes:
        difference: The difference.
        interval: Its 95 % interval for other seeds and, if `for_rows`, also for other rows; None
            for fewer than three pairs.
        n: Number of seeds, or of their training subsets.
        for_rows: True if the interval is also for other rows, which needs stored predictions.
    """

    difference: float
    interval: Ends | None
    n: int
    for_rows: bool

    @property
    def reliable(self) -> bool:
        """True if 0 is outside the interval."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]


@dataclass(frozen=True, slots=True)
class AgainstBaseline:
    """Lead of the winner over a baseline.

    The scores are of test rows, or of validation rows if the winner has not been tested.
    """

    name: str
    lead: Difference
    split: Split


@dataclass(frozen=True, slots=True)
class ScoredSeed:
    """Scores of a seed run, None for a failed or missing one, and its rows of the compared split.

    `rows` are None if they are not stored.
    """

    validation: float | None = None
    test: float | None = None
    rows: Rows | None = None


Seeds = Sequence[ScoredSeed]
"""Seed runs of a configuration by replicate."""


def scored_seeds(
    line: "ConfigurationLine", replicates: Sequence[int], rows: Mapping[int, Rows]
) -> Seeds:
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
    Satterthwaite (1946, Biometrics Bulletin 2:110-114).

    Args:
        ours: The configuration.
        theirs: The other one.
        rule: Rule of both scores.
        metric: Name of the metric.
        split: Rows that are scored.
        digests: For each replicate the SHA-256 of its rows by their use.
    """
    lowest = METRICS[metric].minimum

    def gap(a: Seeds, b: Seeds) -> float | None:
        scores = [_score(one, rule, split, lowest) for one in (a, b)]
        return None if scores[0] is None or scores[1] is None else scores[0] - scores[1]

    value = gap(ours, theirs)
    if value is None:
        return None
    groups = _together(digests)
    both = [
        all(seed.validation is not None for seed in pair) for pair in zip(ours, theirs, strict=True)
    ]
    known = sum(any(both[seed] for seed in group) for group in groups)
    for_rows = all(one.rows or one.validation is None for one in (*ours, *theirs))
    if known < FEWEST_PAIRS:
        return Difference(value, None, known, for_rows)
    draw = stream(0, "difference")
    samples = []
    for chosen in draw.integers(len(groups), size=(SEED_DRAWS, len(groups))):
        seeds = [seed for group in chosen for seed in groups[group]]
        samples.append(gap([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]))
    of_seeds, of_rows = _variance(samples) * len(groups) / (len(groups) - 1), 0.0
    if for_rows:
        own = [one[split] for one in digests]
        resampled = (_rescored(own, (ours, theirs), metric, split, draw) for _ in range(ROW_DRAWS))
        of_rows = _variance([gap(a, b) for a, b in resampled])
    half = _quantile(of_seeds, of_rows, len(groups) - 1) * math.sqrt(of_seeds + of_rows)
    span = METRICS[metric].span
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


def _variance(samples: Sequence[float | None]) -> float:
    known = [one for one in samples if one is not None]
    return float(np.var(known, ddof=1)) if len(known) > 1 else 0.0


def _quantile(of_seeds: float, of_rows: float, freedom: int) -> float:
    """Return Student's quantile for the sum of two variances; that over rows is well known."""
    from scipy.special import ndtri, stdtrit

    if not of_seeds:
        return float(ndtri(1 - ALPHA / 2))
    return float(stdtrit(freedom * ((of_seeds + of_rows) / of_seeds) ** 2, 1 - ALPHA / 2))


def _rescored(
    digests: Sequence[str],
    lines: Sequence[Seeds],
    metric: str,
    split: Split,
    draw: np.random.Generator,
) -> Iterator[Seeds]:
    """Yield each configuration's scores on one bootstrap sample of the rows."""
    drawn: dict[str, npt.NDArray[np.int64]] = {}
    for line in lines:
        scored = list[ScoredSeed]()
        for seed, digest in zip(line, digests, strict=True):
            if seed.rows is None:
                scored.append(seed)
                continue
            count = len(seed.rows[0])
            if digest not in drawn:
                drawn[digest] = draw.integers(count, size=count)
            value = _value(metric, *(part[drawn[digest]] for part in seed.rows))
            test = split == "test"
            scored.append(replace(seed, test=value) if test else replace(seed, validation=value))
        yield scored


def _value(metric: str, y: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> float:
    """Return the value of a metric of predicted classes or scores."""
    found = METRICS[metric]
    if found.needs == "scores":
        return found.function(predicted, y)
    classes = max(2, 1 + int(max(y.max(), predicted.max())))
    return found.function(confusion(y, predicted.astype(np.int64), classes))


def rows_of(report: "Report", line: "ConfigurationLine", split: Split) -> dict[int, Rows]:
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
    winner = report.winner
    if winner is None:
        return report
    others = (line for line in report.configurations if line is not winner)
    following = next((line for line in others if line.score is not None and line.reported), None)
    over_next = None
    if following is not None:
        rows = rows_of(report, following, "validation")
        own = rows_of(report, winner, "validation")
        over_next = _lead(report, state, following, "validation", own, rows)
    split: Split = "validation" if winner.test_mean is None else "test"
    own, against = rows_of(report, winner, split), []
    for line in report.baselines:
        rows = _rows_of_baseline(report, line.origin, own, stored, split)
        complete = len(line.seeds) == len(winner.seeds)
        lead = _lead(report, state, line, split, own, rows) if complete else None
        if lead is not None:
            against.append(AgainstBaseline(line.origin, lead, split))
    return replace(report, against=tuple(against), over_next=over_next)


def _lead(
    report: "Report",
    state: "SearchState",
    line: "ConfigurationLine",
    split: Split,
    own: Mapping[int, Rows],
    its: Mapping[int, Rows],
) -> Difference | None:
    """Return the winner's lead over a configuration; its interval reaches one row to each side."""
    winner = report.winner
    assert winner is not None
    replicates = [seed.replicate for seed in winner.seeds]  # without damaged ones
    found = difference(
        scored_seeds(winner, replicates, own),
        scored_seeds(line, replicates, its),
        parse_rule(report.rule),
        report.metric,
        split,
        report.rows,
    )
    runs = state.runs_of(winner.number).values()
    confusions = [run.counted.get(split, {}).get("confusion") for run in runs]
    rows = min((sum(map(sum, one)) for one in confusions if one), default=0)
    if found is None or found.interval is None or not rows:
        return found
    row, (low, high) = (1 + 1e-9) / rows, found.interval
    wide = min(low, found.difference - row), max(high, found.difference + row)
    return replace(found, interval=wide)


def _rows_of_baseline(
    report: "Report", name: str, own: Mapping[int, Rows], stored: Mapping[int, Any], split: Split
) -> dict[int, Rows]:
    """Return the stored rows of a baseline; the winner's rows have their true classes."""
    winner = report.winner
    assert winner is not None
    pairs = zip(winner.seeds, report.rows, strict=True)
    digests = {seed.replicate: rows.get(split, "") for seed, rows in pairs}
    labels = {digests[number]: y for number, (y, _) in own.items()}
    return {
        number: (labels[digests[number]], np.array(one[name]["predictions"][split]))
        for number, one in stored.items()
        if digests.get(number) in labels and name in one
    }
