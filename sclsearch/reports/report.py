"""Report of a study: ranking and test score of the winner under any rule, from stored runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sclsearch.errors import SclsearchError
from sclsearch.reports.baselines import baseline_lines, doubts
from sclsearch.reports.lines import ConfigurationLine, line_of, with_forecasts
from sclsearch.selection.rules import Rule, parse_rule
from sclsearch.store.records import ReplicateRecord, StudyRecord, seed_run_key
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.storage import Storage, storage_option, storage_path
from sclsearch.store.studies import StudyStore, existing_study

DRAWN = ("initialisation", "order")
NO_CHECKSUMS = "files of release 0.1.0 have no checksums: a change to their numbers is not seen"


@dataclass(frozen=True, slots=True)
class Report:
    """Ranking, winner and test scores of a study under a selection rule.

    Attributes:
        study: Name of the study.
        storage: Storage of the study: a folder or a URI.
        method: The method's name.
        task: The task's name.
        model: The encoder's name.
        model_place: Name or folder from which the encoder can be loaded again.
        protocol: The protocol's name.
        size: Training set size; None for all training examples.
        metric: Name of the metric.
        rule: The selection rule.
        seeds: Number of replicates per configuration.
        data: SHA-256 of the task's texts and labels.
        without_label: SHA-256 of the texts without a label; empty if no stage reads such texts.
        rows: For each replicate, SHA-256 of its rows by their use, for example `train`, `test`.
        drawn: For each replicate, its seeds of initialization and data order.
        repeats: True if the study repeats the winner of another study.
        settings: Hyperparameters set by hand, by name.
        baselines: Baseline classifiers under the same rule; `origin` is the name of each.
        configurations: Configurations, best first. Unfinished ones follow, by expected score.
        risk: Probability that another configuration would win if all had all seeds, by the model
            in `selection.posterior`; 0 if all have all seeds.
        notes: Warnings and caveats about the scores.
        weights: Files with the winner's weights, by seed run key.
    """

    study: str
    storage: str
    method: str
    task: str
    model: str
    model_place: str
    protocol: str
    size: str | None
    metric: str
    rule: str
    seeds: int
    data: str
    without_label: str
    rows: tuple[Mapping[str, str], ...]
    drawn: tuple[Mapping[str, int], ...]
    repeats: bool
    settings: Mapping[str, Any]
    configurations: tuple[ConfigurationLine, ...]
    baselines: tuple[ConfigurationLine, ...]
    risk: float
    notes: tuple[str, ...]
    weights: Mapping[str, str]

    @property
    def winner(self) -> ConfigurationLine | None:
        """Return the best finished configuration; None if there is none."""
        return next((line for line in self.configurations[:1] if line.score is not None), None)


def finished_winner(found: Report) -> ConfigurationLine:
    """Return the winner of a report if at least one of its seed runs succeeded.

    Raises:
        SclsearchError: No configuration is finished, or every seed run of the winner failed.
    """
    if found.winner is None:
        raise SclsearchError(
            f"{found.study}: a configuration must be finished, but none is. Run `tune` again."
        )
    if not found.winner.reported:
        raise SclsearchError(
            f"{found.study}: a seed run of its winner must have finished, but all failed. "
            f"`sclsearch select {found.study}{storage_option(found.storage)} --json` says why."
        )
    return found.winner


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
    replicates, faults = _first(store, seeds)
    rule.check(len(replicates))
    runs = RunStore(storage)
    # Stored JSON has sorted keys; reports list hyperparameters in the order of the space.
    space = record.identity["space"]
    # Without searched hyperparameters the report shows the fixed ones.
    unsearched = [] if record.repeats else list(space.get("fixed", ()))
    order = [parameter["name"] for parameter in space["parameters"]] or unsearched
    metric = str(record.training["metric"])
    numbers = [replicate.number for replicate in replicates]
    configurations, more = store.valid_configurations()
    lines, damaged = [], [*faults, *more]
    for configuration in configurations[:configs]:
        read, unsound = runs.get_valid(seed_run_key(record, configuration, r) for r in replicates)
        damaged.extend(unsound.values())
        seed_runs = zip(numbers, read, strict=True)
        lines.append(line_of(configuration, seed_runs, order, rule, metric))
    lines, risk = with_forecasts(lines, rule, metric, numbers)
    lines.sort(key=_place)
    winner = lines[0] if lines and lines[0].score is not None else None
    kept = [winner.seeds[position].key for position in winner.reported] if winner else []
    baselines = baseline_lines(store.baselines(), numbers, rule, metric)
    notes = [*_notes(record, replicates, map(runs.get, kept))]
    if winner is not None:
        labels = record.origin.get("labels", ())
        stored = runs.get_valid(seed.key for seed in winner.seeds)[0]
        found = [run for run in stored if run is not None]
        notes = [*doubts(winner, baselines, found, labels), *notes]
    if not store.has_checksums():
        notes.append(NO_CHECKSUMS)
    weights = store.kept_weights()
    return Report(
        study=store.name,
        storage=str(storage_path(storage)),
        method=str(record.training["method"]),
        task=record.identity["task"],
        model=record.identity["model"],
        model_place=str(record.origin.get("model", record.identity["model"])),
        protocol=record.identity["protocol"],
        size=record.identity["size"],
        metric=metric,
        rule=str(rule),
        seeds=len(replicates),
        data=str(record.training["data"]),
        without_label=str(record.training.get("without_label", "")),
        rows=tuple(replicate.rows for replicate in replicates),
        drawn=tuple(
            {name: seed for name, seed in replicate.seeds.items() if name in DRAWN}
            for replicate in replicates
        ),
        repeats=record.repeats,
        settings=record.origin.get("settings", {}),
        configurations=tuple(lines),
        baselines=baselines,
        risk=risk,
        notes=tuple(dict.fromkeys([*damaged, *_missing(lines, risk), *notes])),
        weights={key: str(store.weights(key)) for key in kept if key in weights},
    )


def _place(line: ConfigurationLine) -> tuple[int, float, int]:
    if line.score is not None:
        return 0, -line.score, line.number
    return (
        (2, 0.0, line.number)
        if line.forecast is None
        else (1, -line.forecast.expected, line.number)
    )


def _missing(lines: Sequence[ConfigurationLine], risk: float) -> Iterator[str]:
    """Yield a note if some, but not all, configurations lack seeds."""
    missing = sum(line.score is None for line in lines)
    if not 0 < missing < len(lines):
        return
    told = f"{missing} of {len(lines)} configurations lack seeds: "
    if risk == 1:
        yield told + "another may still win"
    elif risk == 0:
        yield told + "none of them could win with all"
    else:
        yield told + f"the probability that one of them would win with all is about {risk:.2g}"


def _first(store: StudyStore, seeds: int | None) -> tuple[list[ReplicateRecord], list[str]]:
    replicates, faults = store.valid_replicates()
    if seeds is not None and not 1 <= seeds <= len(replicates):
        raise SclsearchError(
            f"--seeds: it must lie between 1 and the {len(replicates)} seeds of {store.name}, but "
            f"it is {seeds}. `sclsearch tune` trains further seeds."
        )
    return replicates[:seeds], faults


def _notes(
    record: StudyRecord, replicates: Sequence[ReplicateRecord], kept: Iterable[SeedRun | None]
) -> Iterator[str]:
    if replicates:
        yield from replicates[0].notes
    yield from record.origin["notes"]
    for run in kept:
        yield from run.notes if run else ()
