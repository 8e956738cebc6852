"""Comparison of the winners of several studies, paired by replicate."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from sclsearch.canonical import counted, settings, shown
from sclsearch.errors import SclsearchError
from sclsearch.protocols.variants import NEW_REPLICATES
from sclsearch.reports.differences import ScoredSeed, Seeds, difference, rows_of, scored_seeds
from sclsearch.reports.notes import OTHERS_UNTESTED, Note, damage
from sclsearch.reports.report import (
    ConfigurationLine,
    Report,
    finished_winner,
    report,
    tested_winner,
)
from sclsearch.reports.words import with_spread
from sclsearch.selection.rules import DECIMALS, MEAN, mean_std, parse_rule
from sclsearch.selection.significance import (
    ALPHA,
    Comparison,
    Ends,
    SearchScores,
    compare,
    holm,
    in_points,
    search_interval,
)
from sclsearch.spaces.space import learning_rate_warning, searched_values
from sclsearch.store.studies import StudyRecord, StudyStore, study_names
from sclsearch.tasks.metrics import METRICS

if TYPE_CHECKING:
    import pandas as pd

WINNERS = (
    "This compares the winners, not the methods: the winners of two searches with one method "
    "differ with p ≤ 0.05 in 20 to 36 % of simulations."
)
"""Limit of a comparison of winners; benchmarks/significance.md has the measurement."""
SAME = 1.1
"""Ratio of seed runs up to which budgets count as equal."""
SAME_TIME = 2.0
"""The same of training times, which depend on what else the machines do."""
SHORT = 300.0
"""Training time in seconds up to which the start of the workers matters more than the budget."""


@dataclass(frozen=True, slots=True)
class ConfirmedScore:
    """Test score of a winner on new seeds, which did not choose it.

    `std` is None for a single score. `same_rows` is True if the seeds read the training rows of
    those that chose the winner, as on folds.
    """

    study: str
    mean: float
    std: float | None
    seeds: int
    same_rows: bool = False

    def __str__(self) -> str:
        return f"{with_spread(self.mean, self.std)} ({counted(self.seeds, 'seed')})"


@dataclass(frozen=True, slots=True)
class ComparedStudy:
    """Winner of one study within a comparison of several studies.

    Attributes:
        name: Method or, of one method, encoder of the study; its name if these are not unique.
        report: Report of the study.
        test_mean: Mean test score over the replicates that did not fail; None without test rows.
        test_std: Sample standard deviation of these scores; None for a single score.
        confirmed: The winner's score on new seeds; None if the storage has no `confirm` study.
    """

    name: str
    report: Report
    test_mean: float | None
    test_std: float | None
    confirmed: ConfirmedScore | None

    @property
    def study(self) -> str:
        return self.report.study

    @property
    def winner(self) -> ConfigurationLine:
        return finished_winner(self.report)

    @property
    def score(self) -> float:
        """Mean test score, or validation score without test rows."""
        return (self.winner.score if self.test_mean is None else self.test_mean) or 0.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Test of two studies' winners: the better mean test score minus the other one."""

    better: str
    other: str
    comparison: Comparison
    """Its interval is for other seeds and, with stored predictions, for other test rows."""
    adjusted: float
    """P-value after Holm's correction for all pairs of the studies."""
    search_interval: Ends | None = None
    """95 % interval that includes the search; None if a study has one configuration only."""

    @property
    def clear(self) -> bool:
        """True if the better mean is better by pairs, and neither test nor interval doubts it."""
        one = self.comparison
        sure = self.adjusted <= ALPHA and (one.reliable or not one.for_rows)
        return sure and one.difference > 0


@dataclass(frozen=True, slots=True)
class StudyComparison:
    """Comparison of studies of one task over their first `seeds`.

    `pairs` has every pair of the studies, those with the best study first.
    """

    task: str
    metric: str
    seeds: int
    studies: tuple[ComparedStudy, ...]
    notes: tuple[Note, ...]
    pairs: tuple[Pair, ...]

    @property
    def reports(self) -> list[Report]:
        return [one.report for one in self.studies]

    @property
    def tested(self) -> bool:
        return self.reports[0].has_test

    @property
    def tested_on(self) -> str:
        return self.reports[0].tested_on

    @property
    def of_encoders(self) -> bool:
        """True if the studies have one method, and each has another encoder."""
        return _of_encoders(self.reports)

    @property
    def ranked(self) -> list[ComparedStudy]:
        """The studies by their score: mean test score, or validation score without test rows."""
        return sorted(self.studies, key=lambda one: -one.score)

    @property
    def tied(self) -> list[ComparedStudy]:
        """The studies that the best one is not clearly better than."""
        best, *others = self.ranked
        return [one for one in others if not (self.tested and self.pair(best, one).clear)]

    @property
    def clearly_best(self) -> ComparedStudy | None:
        """The study that is clearly better than all others; None without one."""
        return None if self.tied else self.ranked[0]

    def pair(self, better: ComparedStudy, other: ComparedStudy) -> Pair:
        """Return the test of two studies in the order of `ranked`."""
        names = better.study, other.study
        return next(one for one in self.pairs if (one.better, one.other) == names)

    def frame(self) -> "pd.DataFrame":
        """Return one row per pair of studies: its test, in points of the metric (hundredths)."""
        import pandas as pd

        rows = [
            {
                "better": pair.better,
                "other": pair.other,
                "difference (points)": 100 * one.difference,
                **{
                    f"{end} (points)": bound and 100 * bound
                    for end, bound in zip(("low", "high"), one.interval or (None,) * 2, strict=True)
                },
                "p": one.p,
                "p (Holm)": pair.adjusted,
                "seeds": one.n,
                "clear": pair.clear,
            }
            for pair, one in ((pair, pair.comparison) for pair in self.pairs)
        ]
        return pd.DataFrame(rows)

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON, with the summary's sentences."""
        from sclsearch.reports.summary import summarize_comparison

        names = ("study", "test_mean", "test_std")
        return {
            **asdict(replace(self, studies=())),
            "studies": [
                {name: getattr(one, name) for name in names}
                | {"confirmed": one.confirmed and asdict(one.confirmed)}
                for one in self.studies
            ],
            "reports": [one.as_dict() for one in self.reports],
            "summary": asdict(summarize_comparison(self)),
        }

    def __repr__(self) -> str:
        from sclsearch.reports.summary import summarize_comparison

        names = ", ".join(one.study for one in self.studies)
        return "\n".join((f"<Comparison of {names}>", *summarize_comparison(self).lines))


def _of_encoders(reports: Sequence[Report]) -> bool:
    methods, models = {one.method for one in reports}, {one.encoder for one in reports}
    return len(methods) == 1 and len(models) == len(reports)


def compare_studies(reports: Sequence[Report]) -> StudyComparison:
    """Return a paired comparison of the winners' test scores over all shared replicates.

    No replicate is selected by its score.

    Raises:
        SclsearchError: The studies cannot be compared, or one has no winner, or has not tested it.
    """
    names = [one.study for one in reports]
    if len(reports) < 2 or len(set(names)) < len(names):
        raise SclsearchError(
            f"compare: needs two or more different studies, got {', '.join(names)}. "
            "`sclsearch ls studies` lists them."
        )
    base, seeds = reports[0], min(one.seeds for one in reports)
    for other in reports[1:]:
        _check(base, other, seeds)
    studies, methods = [], [one.method for one in reports]
    for one in reports:
        winner = tested_winner(one)
        scores = [seed.test for seed in winner.seeds[:seeds] if seed.test is not None]
        mean, std = mean_std(scores) if scores else (None, None)
        mean = None if mean is None else round(mean, DECIMALS)  # equal means are equal
        name = one.method if methods.count(one.method) == 1 else one.study
        name = one.encoder if _of_encoders(reports) else name
        studies.append(ComparedStudy(name, one, mean, std, confirmed_score(one)))
    ranked = sorted(studies, key=lambda one: -one.score)
    notes, pairs = _notes(reports, seeds), _pairs([one.report for one in ranked], seeds)
    return StudyComparison(
        base.task, base.metric, seeds, tuple(studies), notes=tuple(notes), pairs=pairs
    )


def _pairs(reports: Sequence[Report], seeds: int) -> tuple[Pair, ...]:
    """Return the tests of all pairs of reports, in the order of their scores."""
    if not reports[0].has_test:
        return ()
    scored = []
    for one in reports:
        winner = finished_winner(one)
        replicates = [seed.replicate for seed in winner.seeds][:seeds]
        scored.append((one, scored_seeds(winner, replicates, rows_of(one, winner, "test"))))
    pairs = [*combinations(scored, 2)]
    found = [_difference(a, b, own, its) for (a, own), (b, its) in pairs]
    adjusted = holm([one.p for one in found])
    return tuple(
        Pair(a.study, b.study, one, p, _with_search(a, b, one, seeds))
        for ((a, _), (b, _)), one, p in zip(pairs, found, adjusted, strict=True)
    )


def _difference(one: Report, other: Report, own: Seeds, its: Seeds) -> Comparison:
    """Return the test of the winners' test scores, those of `one` minus those of `other`."""
    subsets = _subsets(other, one, len(own))
    ours, theirs = ([seed.test for seed in line] for line in (own, its))
    found = compare(ours, theirs, subsets, largest=METRICS[one.metric].span)
    pairs = [
        (ScoredSeed(), ScoredSeed()) if None in (a.test, b.test) else (a, b)
        for a, b in zip(own, its, strict=True)
    ]
    digests = [
        {"train": str(subset), "test": rows}
        for subset, rows in zip(subsets, _rows(one, "test", len(own)), strict=True)
    ]
    ours_found, theirs_found = zip(*pairs, strict=True)
    wide = difference(ours_found, theirs_found, MEAN, one.metric, "test", digests)
    if wide is None or not wide.for_rows or wide.interval is None:
        return found
    return replace(found, interval=wide.interval, for_rows=True)


def _with_search(own: Report, base: Report, comparison: Comparison, seeds: int) -> Ends | None:
    for one in (own, base):  # under a rule with a margin a resample would choose as carefully
        if parse_rule(one.rule).margin or any(line.untested for line in one.configurations):
            return None
    subsets = [*map(str, _subsets(base, own, seeds))]
    return search_interval(comparison, _scores(own), _scores(base), subsets)


def _scores(found: Report) -> SearchScores:
    """Return the scores of all configurations with a seed run, by loss, then by number."""
    places = {seed.replicate: place for place, seed in enumerate(finished_winner(found).seeds)}
    # The first of equal configurations is the winner, see `ConfigurationScore.rank`.
    lines = sorted(
        (line for line in found.configurations if line.seeds),
        key=lambda line: (math.inf if line.loss is None else line.loss, line.number),
    )
    minimum = METRICS[found.metric].minimum
    validation, test = np.full((2, len(lines), len(places)), np.nan)
    trained = np.zeros(test.shape, bool)
    for row, line in enumerate(lines):
        for seed in line.seeds:
            cell = row, places[seed.replicate]
            validation[cell] = minimum if seed.validation is None else seed.validation
            test[cell] = np.nan if seed.test is None else seed.test
            trained[cell] = True
    return SearchScores(validation, test, trained, parse_rule(found.rule).score)


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
                "--protocol, and with the same --extra or none."
            )


def _subsets(base: Report, other: Report, seeds: int) -> list[tuple[str, str]]:
    rows = zip(base.rows[:seeds], other.rows[:seeds], strict=True)
    return [(own["train"], its["train"]) for own, its in rows]


def _notes(reports: Sequence[Report], seeds: int) -> Iterator[Note]:
    base, encoders = reports[0], _of_encoders(reports)
    if not encoders:  # a practical space has learning rates for its encoder
        # Searched learning rates, or the fixed one, of each study that chose a winner.
        rates = {
            one.study: one.space.get("learning_rate", finished_winner(one).fields["learning_rate"])
            for one in reports
            if not one.repeats
        }
        yield from (Note(text, "warning") for text in [learning_rate_warning(rates)] if text)
    for other in reports[1:]:
        texts = _differing(base, other, seeds, {"encoder"} if encoders else set())
        yield from (Note(text, "warning") for text in texts)
    if unequal := unequal_budgets(reports):
        text = f"unequal budgets: {', '.join(unequal)}; larger searches tend to win. "
        yield Note(f"{text}Give all searches the budget of the largest", "warning")
    if base.has_test and not base.tests_apart:
        yield Note("the compared scores are of the rows that chose the winners")
    for one in reports:
        yield from (note.about(one.study) for note in damage(one))
        yield from map(Note, _of_one(one, seeds))


def _differing(base: Report, other: Report, seeds: int, expected: set[str]) -> Iterator[str]:
    """Yield what a fair comparison keeps equal, and is not."""
    pair = own, its = [_inputs(one, seeds) for one in (base, other)]
    if base.repeats or other.repeats:
        expected = expected | {"rule"}  # that of the protocol
    else:
        shared = finished_winner(base).fields.keys() & finished_winner(other).fields.keys()
        by_hand = {*base.settings, *other.settings}
        # The learning rates of a search have a warning of their own.
        searched = (base.space.keys() & other.space.keys()) - by_hand - {"learning_rate"}
        for inputs, one in zip(pair, (base, other), strict=True):
            given = {name: value for name, value in one.settings.items() if name in shared}
            inputs["set by hand"] = settings(given)
            for name in sorted(searched):
                value = one.space[name]
                text = searched_values(value) if isinstance(value, dict) else f"only {shown(value)}"
                inputs[f"values of {name}"] = text
    for what in (name for name in own if own[name] != its[name] and name not in expected):
        ours, theirs = own[what], its[what]
        if isinstance(ours, str):
            values = ((theirs, other), (ours, base))
            each = (f"{value or 'nothing'} in {one.study}" for value, one in values)
            yield f"{what}: {', '.join(each)}"
        elif ours and theirs:
            yield f"{other.study} has other {what} than {base.study}"
        else:
            yield f"only {(other if theirs else base).study} reads {what}"


def _inputs(one: Report, seeds: int) -> dict[str, Any]:
    """Return what a fair comparison keeps equal: texts, or lists of what a reader cannot read."""
    unlabeled, paraphrases = (_rows(one, kind, seeds) for kind in ("unlabeled", "paraphrases"))
    texts = one.record.training.get("unlabeled_digest")
    return {
        "training rows": _rows(one, "train", seeds),
        "seeds of initialization and order": one.drawn[:seeds],
        "texts without labels": [texts, *unlabeled] if any(unlabeled) else [],
        "paraphrases": paraphrases if any(paraphrases) else [],
        "encoder": one.model_place,
        "protocol": one.protocol,
        "rule": one.rule,
        "training examples": one.size or "all",
    }


def unequal_budgets(reports: Sequence[Report]) -> list[str]:
    """Return the parts of the searches' budgets that are unequal; empty if no study searched."""
    if all(one.repeats for one in reports):
        return []
    sizes: dict[str, tuple[float, Sequence[float]]] = {
        "configurations": (1, [len(one.configurations) for one in reports]),
        "seed runs": (SAME, [len(one.seed_runs) for one in reports]),
        "training time": (SAME_TIME, [max(SHORT, one.seconds) for one in reports]),
    }
    return [name for name, (ratio, each) in sizes.items() if max(each) > ratio * min(each)]


def _of_one(one: Report, seeds: int) -> Iterator[str]:
    if not one.finished:
        yield f"{one.study} is unfinished: another configuration may still win"
    if one.start_is_kept and one.over_next is not None:
        lead = in_points(-one.over_next.difference)
        yield (
            f"{one.study} keeps its start: the highest score is {lead} points above it, less than "
            "two standard errors"
        )
    if failed := finished_winner(one).failed:
        found = counted(failed, "seed")
        yield f"in {one.study} {found} of the winner failed: means and pairs leave failed seeds out"
    if one.stored_seeds > seeds:
        yield (
            f"{one.study} has {one.stored_seeds} seeds, of which the first {seeds} are here; "
            f"its budget counts {one.seeds}"
        )
    if any(line.untested for line in one.configurations):
        yield f"no interval that includes the search, because in {one.study} {OTHERS_UNTESTED}"


def _rows(one: Report, kind: str, seeds: int) -> list[str]:
    return [rows.get(kind, "") for rows in one.rows[:seeds]]


def confirmed_score(chosen: Report) -> ConfirmedScore | None:
    """Return the winner's score in the `confirm` study with the most seeds; None without one.

    A `confirm` study does not count if the continued search has another winner, or has trained the
    same seeds since.
    """
    own, scores = finished_winner(chosen), list[ConfirmedScore]()
    keys = {seed.key for seed in own.seeds}
    for name in [] if chosen.repeats else study_names(chosen.storage):
        with suppress(SclsearchError):  # a damaged study
            other = StudyStore(chosen.storage, name).record()
            if other is None or not other.origin.get("fresh") or not _same_inputs(chosen, other):
                continue
            fresh = report(chosen.storage, name)
            winner = fresh.winner
            if winner is None or winner.plain is None or winner.fields != own.fields:
                continue
            if keys.isdisjoint(seed.key for seed in winner.seeds):
                shared = share_rows(chosen, fresh)
                scores.append(ConfirmedScore(name, *winner.plain, winner.succeeded, shared))
    return max(scores, key=lambda one: one.seeds, default=None)


def share_rows(chosen: Report, fresh: Report) -> bool:
    """Return True if new seeds read rows that chose: equal subsets, or other folds of all rows."""
    if chosen.record.origin.get("folds"):
        return True
    before, now = ({rows["train"] for rows in one.rows} for one in (chosen, fresh))
    return len(before) > 1 and now <= before


def _same_inputs(chosen: Report, fresh: StudyRecord) -> bool:
    study = chosen.record
    own, its = (dict(one.training) for one in (study, fresh))
    if own.pop("numerics", "") != its.pop("numerics", ""):
        own["engine"] = its["engine"] = None  # devices have engine versions of their own
    same = all(study.identity[key] == fresh.identity[key] for key in ("task", "model", "size"))
    repeated = f"{study.identity['protocol']}, {NEW_REPLICATES}"
    return own == its and same and str(fresh.identity["protocol"]).startswith(repeated)
