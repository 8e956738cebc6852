"""Report of a study: ranking and test score of the winner under any rule, from stored runs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sclsearch.errors import RETRY, SclsearchError
from sclsearch.reports.frames import curve_frame, prediction_frame, seed_run_frame
from sclsearch.reports.lines import ConfigurationLine, SeedLine, best_line
from sclsearch.reports.notes import (
    left_out,
    not_shown,
    ranking_notes,
    seeds_lacking,
    untested_winner,
)
from sclsearch.reports.verdict import Verdict, verdict
from sclsearch.selection.race import Band
from sclsearch.selection.rules import Rule, parse_rule, reported_test
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.storage import Storage, storage_path
from sclsearch.store.studies import ConfigurationRecord, StudyRecord, StudyStore, existing_study
from sclsearch.study.state import SearchState, stored_state

if TYPE_CHECKING:
    import pandas as pd

DRAWN = ("initialization", "order")


@dataclass(frozen=True, slots=True)
class Report:
    """Ranking, winner and test scores of a study under a selection rule.

    Attributes:
        study: Name of the study.
        storage: Storage of the study: a folder or a URI.
        method: The method's name.
        method_place: Reference for a later lookup: its name, or `FILE.py:CLASS`.
        task: The task's name.
        model: The encoder's name.
        model_place: Name or folder from which the encoder can be loaded again.
        protocol: The protocol's name.
        size: Training set size; None for all training examples.
        metric: Name of the metric.
        rule: The selection rule.
        seeds: Number of replicates per configuration.
        data: SHA-256 of the task's texts and labels.
        unlabeled_digest: SHA-256 of the texts without a label; empty if no stage reads such texts.
        rows: For each replicate, SHA-256 of its rows by their use, for example `train`, `test`.
        drawn: For each replicate, its seeds of initialization and data order.
        repeats: True if the study repeats the winner of another study.
        settings: Hyperparameters set by hand, by name.
        baselines: Baseline classifiers under the same rule; `origin` is the name of each.
        configurations: Configurations, best first. Those that lack seeds follow.
        race: Band of the last start's race, as in `selection.race`; None without a race.
        finished: True if no configuration needs a further seed under that race.
        notes: Warnings and caveats about the scores.
        weights: Files with the winner's weights, by seed run key.
        stored_seeds: Number of replicates that the study has; `seeds` may be fewer.
        space: Parameter of each searched hyperparameter, and value of each fixed one, by name.
        damaged: Messages about damaged files of the study, which the ranking leaves out.
        space_note: Name of the search space and the reason for its choice; empty without a search.
        verdict: What is wrong with a useless winner; None if it is fine.
    """

    study: str
    storage: str
    method: str
    method_place: str
    task: str
    model: str
    model_place: str
    protocol: str
    size: str | None
    metric: str
    rule: str
    seeds: int
    data: str
    unlabeled_digest: str
    rows: tuple[Mapping[str, str], ...]
    drawn: tuple[Mapping[str, int], ...]
    repeats: bool
    settings: Mapping[str, Any]
    configurations: tuple[ConfigurationLine, ...]
    baselines: tuple[ConfigurationLine, ...]
    race: Band
    finished: bool
    notes: tuple[str, ...]
    weights: Mapping[str, str]
    stored_seeds: int = 0
    space: Mapping[str, Any] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()
    verdict: Verdict | None = None
    space_note: str = ""

    @property
    def winner(self) -> ConfigurationLine | None:
        """Return the best finished configuration of which a seed run succeeded; None without."""
        return best_line(self.configurations)

    @property
    def has_test(self) -> bool:
        """Return True if the study has test rows."""
        return all("test" in rows for rows in self.rows)

    @property
    def lead(self) -> float | None:
        """Return the winner's score minus the second configuration's; None without a second."""
        others = [line for line in self.configurations if line is not self.winner]
        best, second = self.winner, best_line(others)
        if best is None or second is None or best.score is None or second.score is None:
            return None
        return best.score - second.score

    @property
    def failures(self) -> list[str]:
        """Return cause and message of every failed seed run, if none succeeded; else no item."""
        found = [seed.failure for line in self.configurations for seed in line.seeds]
        failed = [failure for failure in found if failure is not None]
        return failed if len(failed) == len(found) else []

    def frame(self) -> "pd.DataFrame":
        """Return one row per stored seed run; see `frames.seed_run_frame` for the columns."""
        return seed_run_frame(self)

    def curves(self) -> "pd.DataFrame":
        """Return losses and validation metrics by update; see `frames.curve_frame`."""
        return curve_frame(self)

    def predictions(self) -> "pd.DataFrame":
        """Return the predictions for validation and test rows; see `frames.prediction_frame`."""
        return prediction_frame(self)

    def __repr__(self) -> str:
        """Return study, winner, validation score and test score as one line."""
        from sclsearch.reports.notebook import as_text

        return f"<Report {as_text(self)}>"

    def _repr_html_(self) -> str:
        """Return the ranking as HTML; notebooks call this method."""
        from sclsearch.reports.notebook import as_html

        return as_html(self)


def finished_winner(found: Report) -> ConfigurationLine:
    """Return the winner of a report.

    Raises:
        SclsearchError: No configuration is finished, or every seed run failed.
    """
    if found.winner is not None:
        return found.winner
    if found.failures:
        raise SclsearchError(
            f"{found.study}: no seed run succeeded. First failure: "
            f"{found.failures[0].rstrip('.')}. {RETRY}"
        )
    raise SclsearchError(f"{found.study}: no configuration is finished. Run `tune` again.")


def tested_winner(found: Report) -> ConfigurationLine:
    """Return the winner of a report, if all its successful seed runs have test scores.

    Raises:
        SclsearchError: There is no winner, or a seed run of it has not been tested.
    """
    winner = finished_winner(found)
    if winner.untested:
        fewer = f" --seeds {found.seeds}" if found.seeds < found.stored_seeds else ""
        raise SclsearchError(f"{found.study}: {untested_winner(winner, found.rule, fewer)}")
    return winner


def report(
    storage: Storage,
    name: str,
    rule: Rule | None = None,
    seeds: int | None = None,
    configs: int | None = None,
) -> Report:
    """Return the report of a study under a rule, from stored seed runs alone.

    Args:
        storage: Storage of the study.
        name: The study's name, or a prefix of it.
        rule: Selection rule that aggregates the seeds; None uses the study's rule.
        seeds: Number of replicates to use, from the first; None uses all.
        configs: Number of configurations to use, from the first; None uses all.

    Raises:
        SclsearchError: There is no such study, or it has too few seeds.
    """
    store, record = existing_study(storage, name)
    rule = parse_rule(str(record.origin["rule"])) if rule is None else rule
    replicates, faults = store.valid_replicates()
    stored_seeds = len(replicates)
    if seeds is not None and not 1 <= seeds <= len(replicates):
        raise SclsearchError(
            f"--seeds: must be between 1 and {len(replicates)}, the seeds of {store.name}, got "
            f"{seeds}. `sclsearch tune` trains further seeds."
        )
    replicates = replicates[:seeds]
    rule.check(len(replicates))
    configurations, more = store.valid_configurations()
    runs = RunStore(storage)
    band = store.race()
    shown = configurations[:configs]
    state, damaged = stored_state(runs, record, replicates, shown, rule, band)
    lines = sorted(_lines(state, _order(record)), key=_rank)
    baselines = _baseline_lines(store, state)
    winner = best_line(lines)
    reported = [winner.seeds[position].key for position in winner.reported] if winner else []
    damaged = [*faults, *more, *damaged]
    weights = {key: store.weights(key) for key in reported}
    found = Report(
        study=store.name,
        storage=str(storage_path(storage)),
        method=str(record.training["method"]),
        method_place=str(record.origin.get("method", record.training["method"])),
        task=record.identity["task"],
        model=record.identity["model"],
        model_place=str(record.origin.get("model", record.identity["model"])),
        protocol=record.identity["protocol"],
        size=record.identity["size"],
        metric=state.metric,
        rule=str(rule),
        seeds=len(replicates),
        data=str(record.training["data"]),
        unlabeled_digest=str(record.training.get("unlabeled_digest", "")),
        rows=tuple(replicate.rows for replicate in replicates),
        drawn=tuple(
            {name: seed for name, seed in replicate.seeds.items() if name in DRAWN}
            for replicate in replicates
        ),
        repeats=record.repeats,
        settings=record.origin.get("settings", {}),
        configurations=tuple(lines),
        baselines=tuple(baselines),
        race=band,
        finished=state.race.certain,
        notes=(),
        weights={key: str(place) for key, place in weights.items() if place.exists()},
        stored_seeds=stored_seeds,
        space=_space(record),
        damaged=tuple(damaged),
        space_note=record.origin.get("space", ""),
    )
    useless = verdict(found, state)
    notes = [
        *left_out(damaged),
        *not_shown(len(state.configurations), len(configurations)),
        *filter(None, [seeds_lacking(found)]),
        *ranking_notes(state, lines, () if useless else baselines),
    ]
    return replace(found, notes=tuple(dict.fromkeys(notes)), verdict=useless)


def _space(record: StudyRecord) -> dict[str, Any]:
    space = record.identity["space"]
    searched = {parameter["name"]: parameter for parameter in space["parameters"]}
    return {**space.get("fixed", {}), **searched}


def _order(record: StudyRecord) -> list[str]:
    """Return the searched hyperparameters in the order of the space; stored JSON sorts its keys.

    Without searched hyperparameters these are the fixed ones, or some of a restored configuration.
    """
    space, shown = record.identity["space"], record.origin.get("shown")
    fixed = list(space.get("fixed", ())) if shown is None else shown
    return [parameter["name"] for parameter in space["parameters"]] or fixed


def _lines(state: SearchState, order: Sequence[str]) -> Iterator[ConfigurationLine]:
    """Yield the line of each configuration; `order` names the hyperparameters that it shows."""
    for configuration in state.configurations:
        known = configuration.values or configuration.fields
        seeds = tuple(
            SeedLine(
                replicate=replicate,
                key=run.key,
                validation=run.validated(state.metric),
                test=run.tested(state.metric),
                failure=str(run.failure) if run.failure else None,
                seconds=run.seconds,
                untested=run.untested,
            )
            for replicate, run in state.runs_of(configuration.number).items()
        )
        reported, mean, std = reported_test(
            state.rule, [seed.validation for seed in seeds], [seed.test for seed in seeds]
        )
        score = state.scores.get(configuration.number)
        yield ConfigurationLine(
            number=configuration.number,
            origin=configuration.origin,
            values={name: known[name] for name in order if name in known},
            fields=configuration.fields,
            seeds=seeds,
            score=None if score is None else score.score,
            reported=reported,
            test_mean=mean,
            test_std=std,
            loss=score.loss if score is not None and math.isfinite(score.loss) else None,
        )


def _rank(line: ConfigurationLine) -> tuple[float, float, float, int]:
    """Return the sort key of a line: scores first, then the others by seeds and their mean.

    The order of scores is that of `ConfigurationScore.rank`.
    """
    if line.score is None:
        return 1 / (1 + len(line.seeds)), -(line.partial or 0.0), 0.0, line.number
    return 0.0, -line.score, math.inf if line.loss is None else line.loss, line.number


def _baseline_lines(store: StudyStore, state: SearchState) -> list[ConfigurationLine]:
    """Return a line for each stored baseline, scored like a configuration, simplest first."""
    stored = store.baselines()
    names = {name for found in stored.values() for name in found}
    ordered = sorted(names, key=lambda name: ("encoder" in name, name))
    runs = [
        (
            (number, replicate.number),
            SeedRun(
                "",
                {"rows": replicate.rows},
                {},
                evaluations=({"validation": one["validation"]},),
                test=one.get("test", {}),
            ),
        )
        for number, name in enumerate(ordered)
        for replicate in state.replicates
        if (one := stored.get(replicate.number, {}).get(name)) is not None
    ]
    records = [ConfigurationRecord(number, {}, {}, name) for number, name in enumerate(ordered)]
    scored = SearchState.from_records(state.record, state.replicates, records, runs, state.rule)
    return list(_lines(scored, ()))
