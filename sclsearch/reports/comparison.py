"""Comparison of the winners of several studies, paired by replicate."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from sclsearch.canonical import counted, shown
from sclsearch.errors import SclsearchError
from sclsearch.protocols.variants import NEW_REPLICATES
from sclsearch.reports.differences import ScoredSeed, Seeds, difference, rows_of, scored_seeds
from sclsearch.reports.encoder_costs import encoder_name
from sclsearch.reports.notes import OTHERS_UNTESTED, Note, damage
from sclsearch.reports.report import (
    Report,
    finished_winner,
    report,
    tested_winner,
)
from sclsearch.selection.rules import MEAN, mean_std, parse_rule
from sclsearch.selection.significance import (
    ALPHA,
    Comparison,
    Ends,
    SearchScores,
    compare,
    holm,
    search_interval,
)
from sclsearch.spaces.space import learning_rate_warning
from sclsearch.store.studies import StudyRecord, StudyStore, study_names
from sclsearch.tasks.metrics import METRICS

if TYPE_CHECKING:
    import pandas as pd

WINNERS = (
    "This compares the winners, not the methods: the winners of two searches with one method "
    "differ with p ≤ 0.05 in 20 to 36 % of simulations."
)
"""Limit of a comparison of winners; benchmarks/significance.md has the measurement."""
PAIR_COLUMNS = (
    *("better", "other", "difference", "low", "high", "p", "adjusted", "seeds", "clear"),
    *("better_mean", "better_std", "other_mean", "other_std"),
)
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


@dataclass(frozen=True, slots=True)
class ComparedStudy:
    """Winner of one study within a comparison of several studies.

    Attributes:
        number: Number of the winning configuration.
        test_mean: Mean test score over the replicates that did not fail; None without test rows.
        test_std: Sample standard deviation of these scores; None for a single score.
        seed_runs: Number of finished seed runs of the whole search.
        confirmed: The winner's score on new seeds; None if the storage has no `confirm` study.
    """

    study: str
    method: str
    model: str
    number: int
    repeats: bool
    values: Mapping[str, Any]
    validation: float | None
    test_mean: float | None
    test_std: float | None
    seed_runs: int
    confirmed: ConfirmedScore | None = None


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

    `reports` are those of the studies, in the same order. `pairs` has every pair of them, those
    with the best study first.
    """

    task: str
    metric: str
    seeds: int
    studies: tuple[ComparedStudy, ...]
    notes: tuple[Note, ...]
    reports: tuple[Report, ...]
    pairs: tuple[Pair, ...]

    @property
    def tested(self) -> bool:
        return self.reports[0].has_test

    @property
    def of_encoders(self) -> bool:
        """True if the studies have one method, and each has another encoder."""
        return _of_encoders(self.reports)

    @property
    def ranked(self) -> list[ComparedStudy]:
        """The studies by their score: mean test score, or validation score without test rows."""
        return sorted(self.studies, key=lambda one: -_mean(one))

    def pair(self, better: ComparedStudy, other: ComparedStudy) -> Pair:
        """Return the test of two studies in the order of `ranked`."""
        names = better.study, other.study
        return next(one for one in self.pairs if (one.better, one.other) == names)

    def report_of(self, one: ComparedStudy) -> Report:
        return self.reports[self.studies.index(one)]

    def frame(self) -> "pd.DataFrame":
        """Return one row per pair of studies: its test, and mean and deviation of both scores."""
        import pandas as pd

        scores = {one.study: (one.test_mean, one.test_std) for one in self.studies}
        rows = [
            (
                *(pair.better, pair.other, one.difference, *(one.interval or (None, None))),
                *(one.p, pair.adjusted, one.n, pair.clear),
                *(*scores[pair.better], *scores[pair.other]),
            )
            for pair, one in ((pair, pair.comparison) for pair in self.pairs)
        ]
        return pd.DataFrame(rows, columns=list(PAIR_COLUMNS))

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON, with the summary's sentences."""
        from sclsearch.reports.summary import summarize_comparison

        reports = [one.as_dict() for one in self.reports]
        found = asdict(replace(self, reports=()))
        return {**found, "reports": reports, "summary": asdict(summarize_comparison(self))}

    def __repr__(self) -> str:
        from sclsearch.reports.summary import summarize_comparison

        names = ", ".join(one.study for one in self.studies)
        return "\n".join((f"<Comparison of {names}>", *summarize_comparison(self).lines))

    def _repr_html_(self) -> str:
        from sclsearch.reports.comparison_tables import comparison_html

        return comparison_html(self)


def _of_encoders(reports: Sequence[Report]) -> bool:
    methods, models = {one.method for one in reports}, {encoder_name(one) for one in reports}
    return len(methods) == 1 and len(models) == len(reports)


def _mean(one: ComparedStudy) -> float:
    return (one.validation if one.test_mean is None else one.test_mean) or 0.0


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
    studies, notes = [], []
    for one in reports:
        winner = tested_winner(one)
        confirmed, found = confirmed_score_and_notes(one)
        notes += found
        scores = [seed.test for seed in winner.seeds[:seeds] if seed.test is not None]
        mean, std = mean_std(scores) if scores else (None, None)
        studies.append(
            ComparedStudy(
                study=one.study,
                method=one.method,
                model=encoder_name(one),
                number=winner.number,
                repeats=one.repeats,
                values=winner.values,
                validation=winner.score,
                test_mean=mean,
                test_std=std,
                seed_runs=len(one.seed_runs),
                confirmed=confirmed,
            )
        )
    ranked = sorted(range(len(reports)), key=lambda place: -_mean(studies[place]))
    return StudyComparison(
        task=base.task,
        metric=base.metric,
        seeds=seeds,
        studies=tuple(studies),
        notes=(*_notes(reports, seeds), *notes),
        reports=tuple(reports),
        pairs=_pairs([reports[place] for place in ranked], seeds),
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
                "--protocol."
            )


def _subsets(base: Report, other: Report, seeds: int) -> list[tuple[str, str]]:
    rows = zip(base.rows[:seeds], other.rows[:seeds], strict=True)
    return [(own["train"], its["train"]) for own, its in rows]


def _notes(reports: Sequence[Report], seeds: int) -> Iterator[Note]:
    base, others, encoders = reports[0], reports[1:], _of_encoders(reports)
    if not encoders:  # a practical space has learning rates for its encoder
        # Searched learning rates, or the fixed one, of each study that chose a winner.
        rates = {
            one.study: one.space.get("learning_rate", finished_winner(one).fields["learning_rate"])
            for one in reports
            if not one.repeats
        }
        yield from (Note(text, "warning") for text in [learning_rate_warning(rates)] if text)
    for other in others:
        # A study that repeats a winner has its protocol's rule.
        expected = {"encoder": encoders, "rule": base.repeats or other.repeats}
        own, its = (_inputs(one, seeds) for one in (base, other))
        texts = _differing({n: v for n, v in own.items() if not expected.get(n)}, its, base, other)
        yield from (Note(text, "warning") for text in texts)
    if unequal := unequal_budgets(reports):
        text = f"unequal budgets: {', '.join(unequal)}; larger searches tend to win. "
        yield Note(f"{text}Give all searches the budget of the largest", "warning")
    if base.has_test and not base.tests_apart:
        yield Note("the compared scores are of the rows that chose the winners")
    for other in others:
        yield from map(Note, _chosen(base, other))
    for one in reports:
        yield from (note.about(one.study) for note in damage(one))
        yield from map(Note, _of_one(one, seeds))


def _inputs(one: Report, seeds: int) -> dict[str, Any]:
    """Return what a fair comparison keeps equal: texts, or lists of what a reader cannot read."""
    unlabeled, paraphrases = (_rows(one, kind, seeds) for kind in ("unlabeled", "paraphrases"))
    return {
        "training rows": _rows(one, "train", seeds),
        "seeds of initialization and order": one.drawn[:seeds],
        "texts without labels": [one.unlabeled_digest, *unlabeled] if any(unlabeled) else [],
        "paraphrases": paraphrases if any(paraphrases) else [],
        "encoder": one.model_place,
        "protocol": one.protocol,
        "rule": one.rule,
        "training examples": one.size or "all",
    }


def _differing(
    own: Mapping[str, Any], its: Mapping[str, Any], base: Report, other: Report
) -> Iterator[str]:
    for what in (name for name in own if own[name] != its[name]):
        values = [(one[what], report.study) for one, report in ((its, other), (own, base))]
        if all(isinstance(value, str) for value, _ in values):
            yield f"{what}: " + ", ".join(f"{text or 'nothing'} in {name}" for text, name in values)
        elif own[what] and its[what]:
            yield f"{other.study} has other {what} than {base.study}"
        else:
            yield f"only {other.study if its[what] else base.study} reads {what}"


def _chosen(base: Report, other: Report) -> Iterator[str]:
    """Yield differences in what the user chose to set by hand or to search."""
    if base.repeats or other.repeats:
        return
    shared = finished_winner(base).fields.keys() & finished_winner(other).fields.keys()
    own, its = (
        {
            "set by hand": ", ".join(
                f"{n}={shown(v)}" for n, v in one.settings.items() if n in shared
            )
        }
        for one in (base, other)
    )
    yield from _differing(own, its, base, other)
    by_hand = base.settings.keys() | other.settings.keys() | {"learning_rate"}
    spaces = {
        name: (base.space[name], other.space[name]) for name in base.space if name in other.space
    }
    searched = {
        name
        for name, (a, b) in spaces.items()
        if a != b and isinstance(a, dict) == isinstance(b, dict)
    }
    if names := sorted(searched - by_hand):
        yield f"search spaces of {other.study} and {base.study} differ in {', '.join(names)}"


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
    """Return the winner's score in the `confirm` study with the most seeds; None without one."""
    return confirmed_score_and_notes(chosen)[0]


def confirmed_score_and_notes(chosen: Report) -> tuple[ConfirmedScore | None, list[Note]]:
    """Return `confirmed_score` of a study, or notes on `confirm` studies that no longer count.

    A `confirm` study no longer counts if the continued search has another winner, or has trained
    the same seeds since.
    """
    record = StudyStore(chosen.storage, chosen.study).record()
    if record is None or record.repeats:
        return None, []
    own, scores, notes = finished_winner(chosen), list[ConfirmedScore](), list[Note]()
    keys = {seed.key for seed in own.seeds}
    for name in study_names(chosen.storage):
        with suppress(SclsearchError):  # a damaged study
            other = StudyStore(chosen.storage, name).record()
            if other is None or not other.origin.get("fresh") or not _same_inputs(record, other):
                continue
            fresh = report(chosen.storage, name)
            winner = fresh.winner
            if not winner or not winner.plain:
                continue
            same = [one.number for one in chosen.configurations if one.fields == winner.fields]
            if winner.fields != own.fields and same:
                configuration = f"#{same[0]} of {chosen.study}"
                text = f"the new seeds of {name} are of {configuration}, not of the winner"
                notes.append(Note(text))
            elif same and not keys.isdisjoint(one.key for one in winner.seeds):
                notes.append(Note(f"the seeds of {name} are not new: {chosen.study} has them too"))
            elif same:
                shared = share_rows(chosen, fresh)
                scores.append(ConfirmedScore(name, *winner.plain, winner.succeeded, shared))
    best = max(scores, key=lambda one: one.seeds, default=None)
    return best, [] if best else notes


def share_rows(chosen: Report, fresh: Report) -> bool:
    """Return True if new seeds read rows that chose: equal subsets, or other folds of all rows."""
    if chosen.record.origin.get("folds"):
        return True
    before, now = ({rows["train"] for rows in one.rows} for one in (chosen, fresh))
    return len(before) > 1 and now <= before


def _same_inputs(study: StudyRecord, fresh: StudyRecord) -> bool:
    own, its = (dict(one.training) for one in (study, fresh))
    if own.pop("numerics", "") != its.pop("numerics", ""):
        own["engine"] = its["engine"] = None  # devices have engine versions of their own
    same = all(study.identity[key] == fresh.identity[key] for key in ("task", "model", "size"))
    repeated = f"{study.identity['protocol']}, {NEW_REPLICATES}"
    return own == its and same and str(fresh.identity["protocol"]).startswith(repeated)
