"""Dry run of a search: every value with its source, and the seed runs that are missing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sclsearch.search.estimate import Estimate, estimate
from sclsearch.search.prepare import check_new, prepare_study
from sclsearch.search.scheduler import Scheduler
from sclsearch.selection.race import Band
from sclsearch.store.runs import SeedRun
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.study.study import FieldDefault
from sclsearch.tracking.server import check as check_tracking
from sclsearch.tracking.server import find_tracking_uri, masked


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a search, made without training anything.

    Attributes:
        task: The task's name and the source of its rows.
        classes: Number of training rows of each class, for a user's own files.
        model: The encoder's name and folder.
        numerics: Device and precision of the seed runs, such as `cpu-fp32`.
        rows: Numbers of training, validation and test rows. They include the row count of stages
            without labels if it differs.
        notes: Notes that readers of the results need, and advice on this machine's resources.
        fields: Every field that is not searched, with its value and its source.
        searched: Every searched parameter, as the search space defines it.
        published: Configurations that the search trains first.
        start: Origin of these: `published`, or `start` if the space is scaled or altered.
        space: The search space and the reason for its choice.
        configurations: Number of configurations in total.
        seeds: Replicates per configuration.
        race: Band of the race; None trains all seeds of all configurations.
        stages: Numbers of seeds after which the race leaves configurations out.
        missing: Number of seed runs that are still to train; in a race an estimate.
        stored: Seed runs that the store already holds, of the configurations known so far.
        test_scores: Seed runs that are tested: `all`, or those of the `winner`.
        repeated: Seed runs of the winner that train again at the end, for test scores or weights.
        time: Estimated time of the missing seed runs; None if not requested.
        tracking: The MLflow URI, without passwords; None if MLflow is off.
    """

    study: str
    task: tuple[str, str]
    classes: dict[str, int]
    model: tuple[str, str]
    numerics: str
    protocol: str
    rule: str
    metric: str
    rows: tuple[int, ...]
    notes: tuple[str, ...]
    fields: dict[str, FieldDefault]
    searched: dict[str, Any]
    published: tuple[Any, ...]
    start: str
    space: str
    configurations: int
    seeds: int
    race: Band
    stages: tuple[int, ...]
    missing: int
    stored: int
    test_scores: str
    repeated: int
    time: Estimate | None
    storage: str
    tracking: str | None

    @property
    def seed_runs(self) -> int:
        """Number of seed runs if every configuration gets all seeds."""
        return self.configurations * self.seeds


def plan(
    spec: StudySpec, options: RunOptions, finished: Callable[[], Sequence[SeedRun]] | None = None
) -> Plan:
    """Return the plan of a search without running it.

    `finished` returns seed runs for the time estimate; None skips the estimate.
    """
    return plan_prepared(prepare_study(spec, options, dry=True), options, finished)


def plan_prepared(
    prepared: PreparedStudy,
    options: RunOptions,
    finished: Callable[[], Sequence[SeedRun]] | None = None,
) -> Plan:
    """Return the plan for a study that was prepared with `dry=True`; see `plan`."""
    tracking = find_tracking_uri(options.tracking, prepared.storage)
    if tracking is not None:
        check_tracking(tracking)
    check_new(prepared, options)
    study = prepared.study
    scheduler = Scheduler(prepared, dry=True, retry_failed=options.retry_failed)
    scheduler.refill()
    time = None
    if finished is not None:
        time = estimate(prepared, scheduler, options.cpus_per_trial, finished)
    splits = prepared.splits[0]
    searched = study.space.parameters
    task, train = study.data.task, study.data.splits["train"]
    labels = train.y[: train.labeled]
    classes = {name: int((labels == number).sum()) for number, name in enumerate(task.labels)}
    return Plan(
        study=prepared.record.name,
        task=(task.name, study.data.source),
        classes=classes if task.own else {},
        model=(study.model_name, str(study.model)),
        numerics=study.numerics,
        protocol=study.protocol.title,
        rule=str(study.rule),
        metric=study.metric,
        rows=tuple(
            len(rows.index)
            for rows in (splits.train, splits.validation, splits.test, splits.unlabeled)
            if rows is not None
        ),
        notes=prepared.notes,
        fields={n: origin for n, origin in study.defaults.items() if n not in searched},
        searched={name: parameter.spec() for name, parameter in searched.items()},
        published=study.space.published,
        start=study.space.start,
        space=study.space.note,
        configurations=prepared.configs,
        seeds=study.seeds,
        race=prepared.band,
        stages=scheduler.state.race.stages[:-1],
        missing=scheduler.remaining,
        stored=len(scheduler.state.seed_runs),
        test_scores="all" if prepared.tests_all else "winner",
        repeated=scheduler.repeated,
        time=time,
        storage=str(prepared.storage),
        tracking=tracking and masked(tracking),
    )
