"""What a search would do: every value with its origin, and the seed runs still to train."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sclsearch.search.estimate import Estimate, estimate
from sclsearch.search.prepare import check_new, prepare_study
from sclsearch.search.scheduler import Scheduler
from sclsearch.search.scribe import tracking_uri_of
from sclsearch.store.runs import SeedRun
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.study.study import FieldDefault
from sclsearch.tasks.base import TaskData
from sclsearch.tracking.server import check as check_tracking
from sclsearch.tracking.server import masked


@dataclass(frozen=True, slots=True)
class Plan:
    """A search before it runs.

    Attributes:
        study: The study's name.
        task: The task's name and where its rows come from.
        classes: Rows of each class in the training split of a user's own files.
        model: The encoder's name and folder.
        protocol: The protocol's name.
        rule: The rule.
        metric: The metric.
        rows: Number of training, validation and test rows, and of those of the stages without
            labels if these have others.
        notes: What a reader of the figures must know.
        fields: Every field that is not searched, with its value and who set it.
        searched: Every searched parameter, as the space has it.
        published: Configurations that come first.
        start: What these are: `published`, or `start` where the space is scaled or altered.
        space: The space's file.
        configurations: Configurations in total.
        seeds: Replicates of each.
        race: As `How` has it; unless None, less may be trained than is missing.
        skipped: Seed runs that it does not need, by what is stored.
        stored: Seed runs that the store has already, of the configurations known by now.
        time: How long the others may take; None if it was not asked for.
        storage: Where it would be stored.
        tracking: Where MLflow would show it, without passwords; None for nowhere.
    """

    study: str
    task: tuple[str, str]
    classes: dict[str, int]
    model: tuple[str, str]
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
    race: float | None
    skipped: int
    stored: int
    time: Estimate | None
    storage: str
    tracking: str | None

    @property
    def seed_runs(self) -> int:
        """Seed runs in total."""
        return self.configurations * self.seeds

    @property
    def missing(self) -> int:
        """Seed runs that are still to be trained."""
        return self.seed_runs - self.stored - self.skipped


def plan(
    spec: StudySpec, options: RunOptions, finished: Callable[[], Sequence[SeedRun]] | None = None
) -> Plan:
    """Returns what a search would do.

    Args:
        spec: What is searched.
        options: How it is run.
        finished: Returns seed runs that tell how long it may take; None does not ask.

    Raises:
        SclsearchError: As the search itself would.
    """
    return plan_prepared(prepare_study(spec, options, dry=True), options, finished)


def plan_prepared(
    prepared: PreparedStudy,
    options: RunOptions,
    finished: Callable[[], Sequence[SeedRun]] | None = None,
) -> Plan:
    """Returns what the search of a study that was prepared dry would do; see `plan`."""
    tracking = tracking_uri_of(prepared.storage, options)
    if tracking is not None:
        check_tracking(tracking)
    check_new(prepared, options)
    study = prepared.study
    scheduler = Scheduler.of(
        prepared, dry=True, retry_failed=options.retry_failed, race=options.race
    )
    scheduler.refill()
    splits = prepared.splits[0]
    searched = study.space.parameters
    return Plan(
        study=prepared.record.name,
        task=(study.data.task.name, study.data.source),
        classes=_classes(study.data) if study.data.task.own else {},
        model=(study.model_name, str(study.model)),
        protocol=study.protocol.title,
        rule=str(study.rule),
        metric=study.metric,
        rows=tuple(len(rows.index) for rows in splits.rows.values()),
        notes=(*splits.notes, *prepared.record.origin["notes"]),
        fields={n: origin for n, origin in study.defaults.items() if n not in searched},
        searched={name: parameter.spec() for name, parameter in searched.items()},
        published=study.space.published,
        start=study.space.start,
        space=study.space.file,
        configurations=prepared.configs,
        seeds=study.seeds,
        race=options.race,
        skipped=scheduler.skipped,
        stored=len(scheduler.done),
        time=(
            None
            if finished is None
            else estimate(prepared, scheduler, options.cpus_per_trial, finished)
        ),
        storage=str(prepared.storage),
        tracking=tracking and masked(tracking),
    )


def _classes(data: TaskData) -> dict[str, int]:
    train = data.splits["train"]
    y, labels = train.y[: train.labeled], data.task.labels
    return {name: int((y == number).sum()) for number, name in enumerate(labels)}
