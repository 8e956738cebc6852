"""Runs a study from its options to its last seed run, or says what it would do."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.search.board import Board, SeedTask
from sclsearch.search.keeping import delete_superfluous_weights
from sclsearch.search.options import DEFAULT_CONFIGS, Ending, How, What
from sclsearch.search.progress import Progress
from sclsearch.search.resolve import resolve, storage_folder
from sclsearch.search.study import Study
from sclsearch.search.views import (
    configuration_view,
    score_view,
    seed_run_view,
    study_view,
    winner_view,
)
from sclsearch.store.driver import sole_driver
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.studies import ConfigurationRecord, ReplicateRecord, StudyRecord, StudyStore
from sclsearch.tracking import Tracker, prepare, tracking_uri

NO_TRACKING = "none"


@dataclass(frozen=True, slots=True)
class Finished:
    """What a start of a study did.

    Attributes:
        name: The study's name.
        storage: The storage folder.
        wanted: Seed runs that were asked for.
        done: How many of them are finished.
        trained: How many of those this start trained.
        failed: How many of those that are done failed for good.
        ending: Why it ended.
        tracking: Why MLflow does not show everything; None if it does.
        seeds: Replicates of each configuration.
        configs: Configurations that were asked for.
    """

    name: str
    storage: Path
    wanted: int
    done: int
    trained: int
    failed: int
    ending: Ending
    tracking: str | None
    seeds: int
    configs: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A study on the point of being run.

    Attributes:
        study: The study.
        record: Its record; stored only once the study runs.
        store: Its records.
        runs: The run store.
        replicates: Records of the replicates.
        parts: Rows of the replicates.
        configs: Configurations in total.
    """

    study: Study
    record: StudyRecord
    store: StudyStore
    runs: RunStore
    replicates: tuple[ReplicateRecord, ...]
    parts: Mapping[int, Any]
    configs: int

    def board(self, **options: Any) -> Board:
        """Returns the board of the study."""
        return Board(
            self.study, self.record, self.store, self.runs, self.replicates, self.configs, **options
        )


def prepare_study(what: What, how: How) -> Prepared:
    """Returns the study that the options describe, nothing written yet but the storage folder.

    Raises:
        SclsearchError: Options, data, model or the stored study of that name do not fit.
    """
    study = resolve(what, how)
    storage = storage_folder(how.storage)
    parts = {number: study.parts(number) for number in range(study.seeds)}
    store = StudyStore(storage, how.study or study.default_name)
    record = StudyRecord(
        name=store.name,
        identity=study.identity,
        training=study.job({}, 0, parts[0]).shared_identity,
        origin=_origin(store.name, study, what, how),
        open_configurations=max(2, math.ceil((how.concurrency or 2) / study.seeds) + 1),
        created=time.time(),
    )
    return Prepared(
        study=study,
        record=store.check(record),
        store=store,
        runs=RunStore(storage),
        replicates=tuple(study.replicate(number, parts[number]) for number in parts),
        parts=parts,
        configs=_configs(study, how.configs),
    )


def run(what: What, how: How, console: Console) -> Finished:
    """Runs a study until it is complete, stopped or out of time.

    Args:
        what: What is searched.
        how: How it is run.
        console: Where progress is shown.

    Raises:
        SclsearchError: Something that the user can mend.
    """
    prepared = prepare_study(what, how)
    study, store = prepared.study, prepared.store
    storage = store.folder.parent.parent
    with sole_driver(store.folder):
        store.create(prepared.record)
        for replicate in prepared.replicates:
            store.add(replicate)
        progress = Progress(console, prepared.configs * study.seeds)
        scribe = _scribe(prepared, how)
        board = prepared.board(
            retry_failed=how.retry_failed,
            listeners=[progress, *([scribe] if scribe else [])],
        )
        board.open_up()
        ending: Ending = "interrupted"
        try:
            ending = "complete" if board.complete else _train(prepared, board, how, progress)
        finally:
            tracking = scribe.close(complete=board.complete) if scribe else None
        delete_superfluous_weights(board)
    return Finished(
        name=store.name,
        storage=storage,
        wanted=progress.wanted,
        done=len(board.done),
        trained=progress.done - progress.stored,
        failed=progress.failed,
        ending=ending,
        tracking=tracking,
        seeds=study.seeds,
        configs=prepared.configs,
    )


def _train(prepared: Prepared, board: Board, how: How, progress: Progress) -> Ending:
    from sclsearch.encoders.load import load_encoder, load_tokenizer
    from sclsearch.search.trial import Bench
    from sclsearch.search.tuner import fit, started_ray
    from sclsearch.training.tokens import tokenise

    study = prepared.study
    first = board.configurations[0]
    encoder = load_encoder(study.model, study.model_name)
    study.job(first.fields, 0, prepared.parts[0]).method.check(encoder)
    tokenizer = load_tokenizer(study.model)
    tokens = {length: tokenise(study.data, tokenizer, length) for length in study.lengths()}
    bench = Bench(
        study=replace(study, data=replace(study.data, splits={})),
        name=prepared.store.name,
        storage=prepared.store.folder.parent.parent,
        tokens=tokens,
        parts=prepared.parts,
        threads=how.cpus_per_trial,
        origin=prepared.record.origin,
    )
    gpus = how.gpus_per_trial
    if gpus is None:
        gpus = 1.0 if study.numerics.startswith("cuda") else 0.0
    with started_ray(how.address, None):
        progress.start()
        try:
            return fit(
                board,
                bench,
                cpus=how.cpus_per_trial,
                gpus=gpus,
                concurrency=how.concurrency,
                time_budget=how.time_budget,
                trial_timeout=how.trial_timeout,
                tick=progress.tick,
            )
        finally:
            progress.stop()


class _Scribe:
    """Tells MLflow what the board tells it."""

    def __init__(self, prepared: Prepared, tracker: Tracker) -> None:
        self.record, self.study = prepared.record, prepared.study
        self.tracker = tracker
        self.best = -math.inf

    def opened(self, configuration: ConfigurationRecord) -> None:
        """Shows the configuration."""
        self.tracker.put(configuration_view(self.record.name, configuration))

    def finished(self, task: SeedTask, run: SeedRun, *, stored: bool) -> None:  # noqa: ARG002
        """Shows the seed run, a stored one too: another study may have trained it."""
        configuration, _ = task.place
        self.tracker.put(
            seed_run_view(self.record.name, configuration, task.replicate, run, self.study.metric)
        )

    def scored(self, configuration: ConfigurationRecord, score: float) -> None:
        """Shows the score, and the best one on the study."""
        rule = self.study.rule
        self.tracker.put(score_view(self.record.name, configuration.number, score, rule))
        self.best = max(self.best, score)

    def close(self, *, complete: bool) -> str | None:
        """Shows the best score; returns why MLflow does not show everything, None if it does."""
        if self.best > -math.inf:
            view = winner_view(self.record.name, self.best, self.study.rule, finished=complete)
            self.tracker.put(view)
        return self.tracker.close()


def _scribe(prepared: Prepared, how: How) -> _Scribe | None:
    if how.tracking == NO_TRACKING:
        return None
    uri = tracking_uri(how.tracking, prepared.store.folder.parent.parent)
    prepare(uri)
    tracker = Tracker(uri)
    tracker.put(study_view(prepared.record))
    return _Scribe(prepared, tracker)


def _origin(name: str, study: Study, what: What, how: How) -> dict[str, Any]:
    task = what.task if isinstance(what.task, str) else _plain(asdict(what.task))
    return {
        "study": name,
        "method": what.method,
        "task": task,
        "model": study.model_name,
        "protocol": study.protocol.name,
        "train_size": what.train_size,
        "shots": what.shots,
        "data_dir": None if how.data_dir is None else str(how.data_dir.resolve()),
        "source": study.data.source,
        "rule": str(study.rule),
        "space_note": study.space.note,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value.resolve())
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _configs(study: Study, asked: int | None) -> int:
    size = 1 if not study.space.parameters else study.space.size()
    limit = math.inf if size is None else size
    if asked is not None and asked < 1:
        raise SclsearchError(f"--configs: it must be at least 1, but it is {asked}.")
    return int(min(asked or DEFAULT_CONFIGS, limit))
