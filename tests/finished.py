"""Studies whose seed runs are made up instead of trained."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Model
from sclsearch.reports.report import finished_winner, report
from sclsearch.search.prepare import prepare_study
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyStore
from sclsearch.study.restore import restore_spec
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.study.state import SeedRunTask
from sclsearch.training.evaluation import save_tensors

Confusion = list[list[int]]


def rising(configuration: int, replicate: int) -> Confusion:
    """Return counts of 500 rows; later ones of two replicates a configuration are better."""
    right = 300 + 10 * (2 * configuration + replicate)
    return [[right, 500 - right], [0, 0]]


def finish(
    spec: StudySpec | None,
    options: RunOptions,
    counts: Callable[[int, int], Confusion | None] = lambda _, r: [[20 + r, 30 - r], [10, 40]],
    *,
    seconds: float = 60.0,
) -> str:
    """Store the seed run of each configuration and replicate; return the name of the study.

    `counts` returns the confusion counts of validation and test; None is a failed seed run.
    """
    assert spec is not None
    prepared = prepare_study(spec, options)
    prepared.begin()
    scheduler = replace(prepared)
    scheduler.refill()
    while (task := scheduler.next()) is not None:
        origin = {**prepared.record.origin, "configuration": task.id[0]}
        origin["replicate"] = task.replicate.number
        failure = Failure("non-finite", "ce at update 7")
        run = SeedRun(task.key, task.identity, origin, failure=failure)
        if confusion := counts(*task.id):
            found = {"confusion": confusion}
            best = {"epoch": 1, "update": 9, "loss": {"ce": 0.5}, "validation": found}
            run = replace(run, evaluations=(best,), kept=0, test=found, failure=None)
            run = replace(run, seconds=seconds, environment={"threads": 1})
        prepared.runs.put(run)
        if task.weights:
            prepared.store.weights(task.key).save_file(partial(_save_weights, prepared, task))
        scheduler.finish(task, run)
    return prepared.record.name


def _save_weights(prepared: Scheduler, task: SeedRunTask, path: Path) -> None:
    """Write the pretrained encoder with new modules to a file."""
    number = task.replicate.number
    fields = task.configuration.fields
    spec = prepared.study.seed_run_spec(fields, number, prepared.splits[number])
    encoder = load_encoder(spec.model, spec.model_name)
    classes = len(prepared.study.data.task.labels)
    model = Model(encoder, spec.stages[-1].new_modules(encoder, classes))
    save_tensors(path, model.state_dict(), {})


def repeated_spec(storage: Storage, study: str, **repetition: Any) -> StudySpec:
    """Return what `confirm` trains for a finished study."""
    record, winner = StudyStore(storage, study).record(), finished_winner(report(storage, study))
    assert record is not None
    return restore_spec(record.origin, winner.fields, **repetition)
