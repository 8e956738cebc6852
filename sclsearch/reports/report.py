"""Report of a study: ranking and test score of the winner under any rule, from stored runs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sclsearch.errors import INCOMPLETE, RETRY, SclsearchError
from sclsearch.reports.differences import AgainstBaseline, Difference, with_leads
from sclsearch.reports.estimate import Estimate, estimate_from_folds
from sclsearch.selection.race import Band
from sclsearch.selection.rules import Rule, mean_std, parse_rule, reported_test
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.storage import Storage, storage_path
from sclsearch.store.studies import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyRecord,
    existing_study,
)
from sclsearch.study.state import SearchState, stored_state

if TYPE_CHECKING:
    import pandas as pd

    from sclsearch.reports.notes import Note, Verdict

DRAWN = ("initialization", "order")


@dataclass(frozen=True, slots=True)
class SeedLine:
    """Scores of one seed run of a configuration.

    A failed seed run has a `failure`, its cause and message, and no scores. An `untested` one has
    test rows, and its test score is still to come.
    """

    replicate: int
    key: str
    validation: float | None
    test: float | None
    failure: str | None
    seconds: float = 0.0  # of training, validation and test
    untested: bool = False


@dataclass(frozen=True, slots=True)
class ConfigurationLine:
    """Scores of one configuration, or of a baseline, under a selection rule.

    Attributes:
        number: Number of the configuration in its study.
        origin: `published`, `start`, `sampled` or `given`; for a baseline its name.
        values: Values of the searched hyperparameters, or of the fixed ones if none is searched.
        fields: Every hyperparameter of method and training.
        seeds: Finished seed runs.
        score: Score under the rule; None while seed runs are missing.
        reported: Indices into `seeds` of the reported seed runs, best validation score first.
        test_mean: Mean test score of the reported seed runs; None if there are none, or if one has
            not been tested.
        test_std: Sample standard deviation of these test scores; None for fewer than two.
        loss: Mean validation loss of the seeds that the score counts, which decides between equal
            scores; None if unknown.
    """

    number: int
    origin: str
    values: Mapping[str, Any]
    fields: Mapping[str, Any]
    seeds: tuple[SeedLine, ...]
    score: float | None
    reported: tuple[int, ...]
    test_mean: float | None
    test_std: float | None
    loss: float | None = None

    @property
    def plain(self) -> tuple[float, float | None] | None:
        """Mean and standard deviation of all test scores.

        None if no seed run succeeded, or if one has not been tested.
        """
        tests = [seed.test for seed in self.seeds if seed.test is not None]
        return mean_std(tests) if tests and not self.untested else None

    @property
    def validations(self) -> list[float]:
        return [seed.validation for seed in self.seeds if seed.validation is not None]

    @property
    def partial(self) -> float | None:
        return mean_std(self.validations)[0] if self.validations else None

    @property
    def untested(self) -> int:
        return sum(seed.untested for seed in self.seeds)

    @property
    def failed(self) -> int:
        return sum(seed.failure is not None for seed in self.seeds)

    @property
    def succeeded(self) -> int:
        return len(self.seeds) - self.failed


def best_line(lines: Sequence[ConfigurationLine]) -> ConfigurationLine | None:
    """Return the best finished configuration of which a seed run succeeded."""
    return next((line for line in lines if line.score is not None and line.reported), None)


@dataclass(frozen=True, slots=True)
class Report:
    """Ranking, winner and test scores of a study under a selection rule."""

    study: str
    storage: str
    record: StudyRecord = field(repr=False)
    """Stored record of the study."""
    method: str
    method_place: str
    """Reference for a later lookup: the method's name, or `FILE.py:CLASS`."""
    task: str
    model: str
    model_place: str
    """Name or folder from which the encoder can be loaded again."""
    protocol: str
    size: str | None
    """Training set size; None for all training examples."""
    metric: str
    rule: str
    seeds: int
    """Number of replicates per configuration."""
    configs: int
    """Number of configurations that the search asked for."""
    data: str
    """SHA-256 of the task's texts and labels."""
    rows: tuple[Mapping[str, str], ...]
    """For each replicate, SHA-256 of its rows by their use, for example `train`, `test`."""
    drawn: tuple[Mapping[str, int], ...]
    """For each replicate, its seeds of initialization and data order."""
    repeats: bool
    """True if the study repeats the winner of another study."""
    settings: Mapping[str, Any]
    """Hyperparameters set by hand, by name."""
    configurations: tuple[ConfigurationLine, ...]
    """Configurations: the winner, then the others by score, then those that lack seeds."""
    baselines: tuple[ConfigurationLine, ...]
    """Baseline classifiers under the same rule; `origin` is the name of each."""
    race: Band
    """Band of the last start's race, as in `selection.race`; None without a race."""
    finished: bool
    """True if the search has all its configurations, and none needs a further seed."""
    notes: "tuple[Note, ...]"
    """Warnings and caveats about the scores."""
    stored_seeds: int = 0
    """Number of replicates that the study has; `seeds` may be fewer."""
    space: Mapping[str, Any] = field(default_factory=dict)
    """Parameter of each searched hyperparameter, and value of each fixed one, by name."""
    damaged: tuple[str, ...] = ()
    """Messages about damaged files of the study, which the ranking leaves out."""
    against: tuple[AgainstBaseline, ...] = ()
    """Lead of the winner over each baseline."""
    over_next: Difference | None = None
    """Lead of the winner's validation score over that of the next configuration with all seeds."""
    verdict: "Verdict | None" = None
    """Fault of a useless winner; None if the winner is fine."""
    space_note: str = ""
    """Name of the search space and the reason for its choice; empty without a search."""
    texts_per_second: float = 0.0
    """Texts of `max_length` that the encoder reads in a second, by the search; 0 if unknown."""
    estimate: Estimate | None = None
    """Score to expect on new texts, of a finished study whose folds are also its test."""

    @property
    def encoder(self) -> str:
        """Name of the encoder without the path of its folder."""
        return Path(self.model).name

    @property
    def winner(self) -> ConfigurationLine | None:
        """The best finished configuration of which a seed run succeeded; None without one."""
        return best_line(self.configurations)

    @property
    def start_is_kept(self) -> bool:
        """True if another configuration has a higher score, but not reliably."""
        scores = [line.score for line in self.configurations if line.score is not None]
        return bool(scores) and scores[0] < max(scores)

    @property
    def has_test(self) -> bool:
        return all("test" in rows for rows in self.rows)

    @property
    def tests_apart(self) -> bool:
        """True if no seed's test rows are its validation rows."""
        return all(rows.get("test") != rows.get("validation") for rows in self.rows)

    @property
    def tested_on(self) -> str:
        """`fold` if the folds that chose the winner also give the test scores, else `test`."""
        return "fold" if self.record.origin.get("folds") and not self.tests_apart else "test"

    @property
    def choice(self) -> str:
        """Sentence on the part of the test rows in the choice of the winner."""
        if self.tests_apart:
            return "The test rows played no part in the choice."
        if self.estimate is None:
            return (
                "The test rows are the validation rows, which chose the winner, so the test score "
                "is too high for new texts."
            )
        rows, several = self.estimate.rows, self.estimate.chosen_from
        corrected = f", and is corrected for the choice among the {several} with all seeds"
        return (
            f"The estimate comes from {rows} rows, each predicted by a model that did not train on "
            f"it{corrected * (several > 1)}."
        )

    @property
    def seed_runs(self) -> list[SeedLine]:
        return [seed for line in self.configurations for seed in line.seeds]

    @property
    def seconds(self) -> float:
        return sum(seed.seconds for seed in self.seed_runs)

    @property
    def failures(self) -> list[str]:
        """Cause and message of every failed seed run, if none succeeded; else no item."""
        found = [seed.failure for seed in self.seed_runs]
        failed = [failure for failure in found if failure is not None]
        return failed if len(failed) == len(found) else []

    def frame(self) -> "pd.DataFrame":
        """Return one row per stored seed run, by configuration and replicate.

        Columns:
            study, method, task, model, protocol, size, metric: The study; `size` is None for all
                training examples.
            configuration, origin: Number of the configuration, and where its values come from.
            HYPERPARAMETER: One column for each of method and training, lists as JSON text. The name
                of another column gets the prefix `hyperparameter_`.
            replicate, seed_PURPOSE: Number of the replicate, and its random seeds.
            validation, test: Scores in the metric; missing for a failed seed run.
            f1_CLASS: F1 of each class on the test rows; only for classification.
            reported: True if the selection rule reports the test score of this seed run.
            winner: True for the seed runs of the winner.
            status, failure: `finished` or `failed`, and the reason of the failure.
            seconds, device: Training time, and the name of the GPU or CPU.
            key: Key of the seed run in the run store.
        """
        from sclsearch.reports.table import seed_run_frame

        return seed_run_frame(self)

    def curves(self) -> "pd.DataFrame":
        """Return losses and validation metrics during training, one value per row.

        Columns:
            configuration, replicate, key: The seed run.
            stage: Name of the training stage; `final` for the last one, which alone is evaluated.
            step, epoch: Updates and epochs of the stage so far.
            kept: True for the evaluation whose weights are tested.
            name: `loss.TERM` for the mean of a loss term, or of a monitored quantity, since the
                previous record; `validation.METRIC` for a metric on the validation rows.
            value: The value.
        """
        from sclsearch.reports.table import curve_frame

        return curve_frame(self)

    def predictions(self) -> "pd.DataFrame":
        """Return the prediction for each validation and test row of each seed run.

        Columns:
            configuration, replicate, key: The seed run.
            split: `validation` or `test`.
            row: Position of the row among the replicate's rows of that split, from 0.
            label: Name of the true class; in regression the true score.
            predicted: Name of the predicted class; in regression the predicted score.
            probability_CLASS: Softmax of the method's logits; for `lacon` and `lacon-fusion`, of
                the cosine similarities over tau.

        Labels and probabilities are missing for seed runs whose file of them was deleted.
        """
        from sclsearch.reports.table import prediction_frame

        return prediction_frame(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON, with the winner's number and the summary's sentences."""
        from sclsearch.reports.summary import summary_of

        found = asdict(self)
        del found["record"]
        winner = self.winner and self.winner.number
        return {**found, "winner": winner, "summary": asdict(summary_of(self))}

    def __repr__(self) -> str:
        from sclsearch.reports.summary import summary_of

        return "\n".join((f"<Report {self.study}>", *summary_of(self).lines))

    def _repr_html_(self) -> str:
        from sclsearch.reports.summary import summary_of
        from sclsearch.reports.table import paper_table, summary_html

        return summary_html(summary_of(self), paper_table([self]))


def finished_winner(found: Report) -> ConfigurationLine:
    """Return the winner of a report.

    Raises:
        SclsearchError: No configuration is finished, or every seed run failed.
    """
    if found.winner is not None:
        return found.winner
    fault = "no configuration is finished. Run `tune` again."
    if found.failures:
        first = found.failures[0].rstrip(".")
        fault = f"no seed run succeeded. First failure: {first}. {RETRY}"
    raise SclsearchError(f"{found.study}: {fault}")


class DamagedStudyError(SclsearchError):
    """Error of a study whose damaged files may hide its winner."""

    code = INCOMPLETE


def undamaged(found: Report) -> Report:
    """Return a report; raise DamagedStudyError if damaged files may hide its winner."""
    if found.damaged:
        fault = "damaged files may hide its winner. Run the search again, which trains their seed"
        raise DamagedStudyError("\n".join((f"{found.study}: {fault} runs anew:", *found.damaged)))
    return found


def tested_winner(found: Report) -> ConfigurationLine:
    """Return the winner of a report, if all its successful seed runs have test scores.

    Raises:
        SclsearchError: There is no winner, or a seed run of it has not been tested.
    """
    winner = finished_winner(found)
    if winner.untested:
        from sclsearch.reports.notes import untested_winner

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

    The name may be a prefix. Without a rule it is the study's. `seeds` and `configs` are numbers of
    replicates and configurations to use, from the first; None uses the seeds of the last command
    that searched, and all configurations.

    Raises:
        SclsearchError: There is no such study, or it has too few seeds.
    """
    from sclsearch.reports.notes import report_notes, verdict

    store, record = existing_study(storage, name)
    rule = parse_rule(str(record.origin["rule"])) if rule is None else rule
    every, faults = store.valid_replicates()
    start = store.last_start()
    replicates = _first(every, seeds, start.seeds, rule, store.name)
    configurations, more = store.valid_configurations()
    band, wanted = start.band, min(start.configs, configs or start.configs)
    state, damaged = stored_state(
        RunStore(storage), record, replicates, configurations[:configs], rule, band
    )
    space, origin = record.identity["space"], record.origin
    searched = {parameter["name"]: parameter for parameter in space["parameters"]}
    fixed = space.get("fixed", {})
    # Stored JSON sorts the names of values; a restored configuration shows some of the fixed ones.
    order = [*searched] or ([*fixed] if origin.get("shown") is None else origin["shown"])
    first = -1 if state.winner is None else state.winner.number
    lines = sorted(_lines(state, order), key=lambda one: (one.number != first, *_rank(one)))
    baselines = store.baselines()
    found = Report(
        study=store.name,
        storage=str(storage_path(storage)),
        record=record,
        method=str(record.training["method"]),
        method_place=str(origin.get("method", record.training["method"])),
        **{name: record.identity[name] for name in ("task", "model", "protocol", "size")},
        model_place=str(origin.get("model", record.identity["model"])),
        metric=state.metric,
        rule=str(rule),
        seeds=len(replicates),
        configs=wanted,
        data=str(record.training["data"]),
        rows=tuple(replicate.rows for replicate in replicates),
        drawn=tuple(
            {name: seed for name, seed in replicate.seeds.items() if name in DRAWN}
            for replicate in replicates
        ),
        repeats=record.repeats,
        settings=origin.get("settings", {}),
        configurations=tuple(lines),
        baselines=tuple(_baseline_lines(baselines.replicates, state)),
        race=band,
        finished=state.race.decided and len(state.configurations) >= wanted,
        notes=(),
        stored_seeds=len(every),
        space={**fixed, **searched},
        damaged=(*faults, *more, *damaged),
        space_note=origin.get("space", ""),
        texts_per_second=baselines.texts_per_second,
    )
    folds = origin.get("folds")
    if folds and found.finished and not (found.tests_apart or found.repeats):
        found = replace(found, estimate=estimate_from_folds(storage, state, folds))
    found = with_leads(found, state, baselines.replicates)
    found = replace(found, verdict=verdict(found, state))
    return replace(found, notes=report_notes(found, state, len(configurations)))


def _first(
    every: Sequence[ReplicateRecord], seeds: int | None, last: int, rule: Rule, study: str
) -> list[ReplicateRecord]:
    """Return the first `seeds` replicates; if None, those of the `last` command that searched."""
    if seeds is not None and not 1 <= seeds <= len(every):
        raise SclsearchError(
            f"--seeds: must be between 1 and {len(every)}, the seeds of {study}, got {seeds}. "
            "`sclsearch tune` trains further seeds."
        )
    wanted = seeds or (last if last >= rule.least else 0)
    found = [one for one in every if not wanted or one.number < wanted]
    rule.check(len(found))
    return found


def _lines(state: SearchState, order: Sequence[str]) -> Iterator[ConfigurationLine]:
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


def _baseline_lines(stored: Mapping[int, Any], state: SearchState) -> list[ConfigurationLine]:
    """Return a line for each stored baseline, scored like a configuration, simplest first."""
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
