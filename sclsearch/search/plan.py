"""Dry run of a search: every value with its source, the missing seed runs, and their time."""

import math
import statistics
from dataclasses import asdict
from typing import Any

from sclsearch.search.prepare import check_new
from sclsearch.search.scheduler import Scheduler
from sclsearch.study.study import Study
from sclsearch.tracking.server import find_tracking_uri, masked, prepare_database


def estimated_seconds(scheduler: Scheduler) -> float | None:
    """Return the wall-clock time of the missing seed runs, after `refill`.

    It is that of the study's stored seed runs; None if none is stored.
    """
    seconds = [run.seconds for run in scheduler.state.seed_runs.values() if run.failure is None]
    if not seconds:
        return None
    counts = (scheduler.remaining, scheduler.repeated)
    waves = sum(math.ceil(count / scheduler.at_once) for count in counts)
    return waves * statistics.fmean(seconds)


def plan_prepared(scheduler: Scheduler) -> dict[str, Any]:
    """Return the plan of a study that was prepared with `dry=True`, as `--json` prints it.

    In a race, `missing` is an estimate. `repeated` counts the winner's seed runs that train again
    at the end, for test scores or weights. `seconds` is None before the first stored seed run.
    """
    study, storage, splits = scheduler.study, scheduler.storage, scheduler.splits[0]
    tracking = find_tracking_uri(scheduler.options.tracking, storage)
    if tracking is not None:
        prepare_database(tracking, dry=True)
    check_new(scheduler)
    scheduler.refill()
    searched, task = study.space.parameters, study.data.task
    rows = (splits.train, splits.validation, splits.test, splits.unlabeled)
    return {
        "study": scheduler.name,
        "task": (task.name, study.data.source),
        "classes": _classes(study) if task.own else {},
        "model": (study.model_name, str(study.model)),
        "numerics": study.numerics,
        "protocol": study.protocol.title,
        "rule": str(study.rule),
        "metric": study.metric,
        "rows": tuple(len(one.index) for one in rows if one is not None),
        "notes": scheduler.notes,
        "fields": {n: one for n, one in study.defaults.items() if n not in searched},
        "searched": {name: asdict(parameter) for name, parameter in searched.items()},
        "published": study.space.published,
        "start": study.space.start,
        "space": study.space.note,
        "configurations": scheduler.configs,
        "seeds": study.seeds,
        "race": scheduler.band,
        "stages": scheduler.state.race.stages[:-1],
        "missing": scheduler.remaining,
        "stored": scheduler.done,
        "test_scores": "all" if scheduler.tests_all else "winner",
        "repeated": scheduler.repeated,
        "seconds": estimated_seconds(scheduler),
        "at_once": scheduler.at_once,
        "storage": str(storage),
        "tracking": tracking and masked(tracking),
        "seed_runs": scheduler.configs * study.seeds,
    }


def _classes(study: Study) -> dict[str, int]:
    train = study.data.splits["train"]
    labels = train.y[: train.labeled]
    return {
        name: int((labels == number).sum()) for number, name in enumerate(study.data.task.labels)
    }
