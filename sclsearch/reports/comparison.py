"""Comparison of the winners of several studies with that of the first, paired by replicate."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from sclsearch.canonical import shown
from sclsearch.errors import SclsearchError
from sclsearch.reports.confirmed import ConfirmedScore, confirmed_score_and_notes
from sclsearch.reports.lines import SeedLine
from sclsearch.reports.notes import OTHERS_UNTESTED, left_out
from sclsearch.reports.report import Report, finished_winner, tested_winner
from sclsearch.selection.rules import mean_std, parse_rule
from sclsearch.selection.significance import (
    Comparison,
    SearchScores,
    compare,
    holm,
    search_interval,
)
from sclsearch.spaces.space import learning_rate_warning
from sclsearch.tasks.metrics import METRICS

WINNERS = (
    "The test is about winners, not methods: two searches of one method may differ at p ≤ 0.05 in "
    "a quarter of cases."
)
"""Limit of a comparison of winners; benchmarks/significance.md has the measurement."""
SAME = 1.1
"""Ratio of seed runs up to which budgets count as equal."""
SAME_TIME = 2.0
"""The same of training times, which depend on what else the machines do."""
SHORT = 300.0
"""Training time in seconds up to which the start of the workers matters more than the budget."""
READ = {"unlabeled": "texts without labels", "paraphrases": "paraphrases"}


@dataclass(frozen=True, slots=True)
class ComparedStudy:
    """Winner of one study within a comparison of several studies.

    Attributes:
        study: The study's name.
        method: The method's name.
        number: Number of the winning configuration.
        repeats: True if the study repeats the winner of another study.
        values: Values of the searched hyperparameters, or of the fixed ones if none is searched.
        validation: Validation score of the winner under the study's rule.
        test_mean: Mean test score over the replicates that did not fail; None without test rows.
        test_std: Sample standard deviation of these scores; None for a single score.
        comparison: Paired test: its test scores minus those of the first study; None for the first,
            and without test rows.
        adjusted: P-value after Holm's correction for all studies; None for the first.
        seed_runs: Number of finished seed runs of the whole search.
        search_interval: 95 % interval of the difference, including the search; None for the first,
            or if a study has one configuration only.
        confirmed: The winner's score on fresh seeds; None if the storage has no `confirm` study.
    """

    study: str
    method: str
    number: int
    repeats: bool
    values: Mapping[str, Any]
    validation: float | None
    test_mean: float | None
    test_std: float | None
    comparison: Comparison | None
    adjusted: float | None
    seed_runs: int
    search_interval: tuple[float, float] | None = None
    confirmed: ConfirmedScore | None = None


@dataclass(frozen=True, slots=True)
class StudyComparison:
    """Comparison of studies of one task; the first study is the reference.

    Attributes:
        task: The task's name.
        metric: Name of the metric.
        seeds: Number of replicates used, the first of each study.
        studies: The studies, in the order of the arguments.
        notes: Differences between the studies, and other caveats.
        reports: Reports of the studies, in the same order.
    """

    task: str
    metric: str
    seeds: int
    studies: tuple[ComparedStudy, ...]
    notes: tuple[str, ...]
    reports: tuple[Report, ...]

    @property
    def tested(self) -> bool:
        """Return True if the studies have test rows."""
        return self.reports[0].has_test


def compare_studies(reports: Sequence[Report]) -> StudyComparison:
    """Return a paired comparison of the winners' test scores over all shared replicates.

    No replicate is selected by its score.

    Args:
        reports: Reports of two or more studies; the first is the reference.

    Raises:
        SclsearchError: The studies cannot be compared, or one has no winner, or has not tested it.
    """
    names = [report.study for report in reports]
    if len(reports) < 2 or len(set(names)) < len(names):
        raise SclsearchError(
            f"compare: needs two or more different studies, got {', '.join(names)}. "
            "`sclsearch ls studies` lists them."
        )
    base, seeds = reports[0], min(report.seeds for report in reports)
    for other in reports[1:]:
        _check(base, other, seeds)
    winners = [tested_winner(report) for report in reports]
    tests = [[seed.test for seed in winner.seeds[:seeds]] for winner in winners]
    comparisons: list[Comparison | None] = [None] * len(reports)
    adjusted: list[float | None] = [None] * len(reports)
    intervals: list[tuple[float, float] | None] = [None] * len(reports)
    if base.has_test:
        pairs = [
            compare(own, tests[0], _subsets(base, other, seeds), largest=METRICS[base.metric].span)
            for other, own in zip(reports[1:], tests[1:], strict=True)
        ]
        comparisons[1:] = pairs
        adjusted[1:] = holm([comparison.p for comparison in pairs])
        intervals[1:] = [
            _with_search(other, base, comparison, seeds)
            for other, comparison in zip(reports[1:], pairs, strict=True)
        ]
    confirmations = list(map(confirmed_score_and_notes, reports))
    found = zip(
        reports, winners, tests, comparisons, adjusted, intervals, confirmations, strict=True
    )
    return StudyComparison(
        task=base.task,
        metric=base.metric,
        seeds=seeds,
        studies=tuple(
            ComparedStudy(
                report.study,
                report.method,
                winner.number,
                report.repeats,
                winner.values,
                winner.score,
                *_mean_std([test for test in own if test is not None]),
                comparison,
                p,
                len(trained_seed_runs(report)),
                interval,
                confirmed,
            )
            for report, winner, own, comparison, p, interval, (confirmed, _) in found
        ),
        notes=(*_notes(reports, seeds), *chain.from_iterable(notes for _, notes in confirmations)),
        reports=tuple(reports),
    )


def _mean_std(tests: Sequence[float]) -> tuple[float | None, float | None]:
    return mean_std(tests) if tests else (None, None)


def trained_seed_runs(report: Report) -> list[SeedLine]:
    """Return the finished seed runs of all configurations of a study."""
    return [seed for line in report.configurations for seed in line.seeds]


def training_seconds(report: Report) -> float:
    """Return the training time of these seed runs together, in seconds."""
    return sum(seed_run.seconds for seed_run in trained_seed_runs(report))


def _with_search(
    own: Report, base: Report, comparison: Comparison, seeds: int
) -> tuple[float, float] | None:
    """Return the interval that includes both searches; None if configurations are not tested."""
    if any(line.untested for report in (own, base) for line in report.configurations):
        return None
    subsets = [*map(str, _subsets(base, own, seeds))]
    return search_interval(comparison, _scores(own), _scores(base), subsets)


def _scores(report: Report) -> SearchScores:
    """Return the scores of all configurations with a seed run, by loss, then by number."""
    places = {seed.replicate: place for place, seed in enumerate(finished_winner(report).seeds)}
    # The first of equal configurations is the winner, see `ConfigurationScore.rank`.
    lines = sorted(
        (one for one in report.configurations if one.seeds),
        key=lambda one: (math.inf if one.loss is None else one.loss, one.number),
    )
    minimum = METRICS[report.metric].minimum
    validation, test = np.full((2, len(lines), len(places)), np.nan)
    trained = np.zeros(test.shape, bool)
    for row, line in enumerate(lines):
        for seed in line.seeds:
            cell = row, places[seed.replicate]
            validation[cell] = minimum if seed.validation is None else seed.validation
            test[cell] = np.nan if seed.test is None else seed.test
            trained[cell] = True
    return SearchScores(validation, test, trained, parse_rule(report.rule).score)


def _check(base: Report, other: Report, seeds: int) -> None:
    for what, own, its in (
        ("task", base.task, other.task),
        ("rows", base.data, other.data),
        ("metric", base.metric, other.metric),
        ("test rows", _rows(base, "test", seeds), _rows(other, "test", seeds)),
    ):
        if own != its:
            raise SclsearchError(
                f"compare: {base.study} (task {base.task}, protocol {base.protocol}, "
                f"{base.metric}) and {other.study} (task {other.task}, protocol {other.protocol}, "
                f"{other.metric}) differ in their {what}. Train both on one --task with one "
                "--protocol."
            )


def _subsets(base: Report, other: Report, seeds: int) -> list[tuple[str, str]]:
    """Return the hashes of the training rows of each replicate, in both studies."""
    rows = zip(base.rows[:seeds], other.rows[:seeds], strict=True)
    return [(own["train"], its["train"]) for own, its in rows]


def _notes(reports: Sequence[Report], seeds: int) -> Iterator[str]:
    base = reports[0]
    yield from filter(None, [learning_rate_warning(_learning_rates(reports))])
    for other in reports[1:]:
        if _rows(base, "train", seeds) != _rows(other, "train", seeds):
            yield f"{other.study} is trained on other rows than {base.study}"
        elif base.drawn[:seeds] != other.drawn[:seeds]:
            yield f"{other.study} has other seeds than {base.study}: pairs share nothing but rows"
        yield from _read_beside(base, other, seeds)
        its, own = _terms(other, base), _terms(base, other)
        for what in its:
            if its[what] != own[what]:
                yield (
                    f"{what}: {its[what] or 'nothing'} in {other.study}, {own[what] or 'nothing'} "
                    f"in {base.study}"
                )
        yield from _spaces(base, other)
    if unequal := unequal_budgets(reports):
        yield f"unequal budgets: {', '.join(unequal)}; larger searches tend to win"
    for one in reports:
        yield from _of_one(one, seeds)


def _learning_rates(reports: Sequence[Report]) -> dict[str, object]:
    """Return the searched learning rates, or the fixed one, of each study that chose a winner."""
    return {
        one.study: one.space.get("learning_rate", finished_winner(one).fields["learning_rate"])
        for one in reports
        if not one.repeats
    }


def _spaces(base: Report, other: Report) -> Iterator[str]:
    """Yield a note on hyperparameters that both search, or both fix, with other values."""
    if base.repeats or other.repeats:
        return
    own, its = base.space, other.space
    by_hand = base.settings.keys() | other.settings.keys() | {"learning_rate"}
    names = own.keys() & its.keys() - by_hand
    differing = [
        name
        for name in sorted(names)
        if own[name] != its[name] and isinstance(own[name], dict) == isinstance(its[name], dict)
    ]
    if differing:
        yield f"search spaces of {other.study} and {base.study} differ in {', '.join(differing)}"


def unequal_budgets(reports: Sequence[Report]) -> list[str]:
    """Return the parts of the searches' budgets that are unequal; empty if no study searched."""
    if all(report.repeats for report in reports):
        return []
    return [
        name
        for name, ratio, sizes in (
            ("configurations", 1, [len(report.configurations) for report in reports]),
            ("seed runs", SAME, [len(trained_seed_runs(report)) for report in reports]),
            ("training time", SAME_TIME, [max(SHORT, training_seconds(one)) for one in reports]),
        )
        if max(sizes) > ratio * min(sizes)
    ]


def _of_one(report: Report, seeds: int) -> Iterator[str]:
    yield from (f"{report.study}: {note}" for note in left_out(report.damaged))
    if not report.finished:
        yield f"{report.study} is unfinished: another configuration may still win"
    if report.stored_seeds > seeds:
        yield (
            f"{report.study} has {report.stored_seeds} seeds, of which the first {seeds} are here; "
            f"its budget counts {report.seeds}"
        )
    if any(line.untested for line in report.configurations):
        yield (f"no interval that includes the search, because in {report.study} {OTHERS_UNTESTED}")


def _read_beside(base: Report, other: Report, seeds: int) -> Iterator[str]:
    """Yield a note for unlabeled texts, and for paraphrases, if one study reads others or none."""
    for kind, name in READ.items():
        reads = [(report, _rows(report, kind, seeds)) for report in (base, other)]
        readers = [report.study for report, rows in reads if any(rows)]
        same = reads[0][1] == reads[1][1]
        if kind == "unlabeled":
            same = same and base.unlabeled_digest == other.unlabeled_digest
        if len(readers) == 1:
            yield f"{readers[0]} reads {name} too"
        elif not same:
            yield f"{other.study} reads other {name} than {base.study}"


def _terms(report: Report, other: Report) -> dict[str, str]:
    """Return the settings that comparable studies should share."""
    winner, its = finished_winner(report), finished_winner(other)
    shared = winner.fields.keys() & its.fields.keys()
    searches = len(report.configurations) > 1 and len(other.configurations) > 1
    searched = sorted(winner.values.keys() & shared) if searches else []
    by_hand = ", ".join(f"{n}={shown(v)}" for n, v in report.settings.items() if n in shared)
    # A study that repeats a winner has its protocol's rule and takes all fields from that winner.
    chosen = not (report.repeats or other.repeats)
    return {
        "encoder": report.model_place,
        "protocol": report.protocol,
        "rule": report.rule if chosen else "",
        "training examples": report.size or "all",
        "searched hyperparameters of both methods": ", ".join(searched),
        "set by hand": by_hand if chosen else "",
    }


def _rows(report: Report, kind: str, seeds: int) -> list[str]:
    return [rows.get(kind, "") for rows in report.rows[:seeds]]
