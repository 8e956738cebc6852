"""Searches without Ray, which train their seed runs one after the other in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import pickle

    from sclsearch.search.scheduler import Scheduler
    from sclsearch.store.runs import SeedRun
    from sclsearch.study.spec import Ending


@contextmanager
def in_process() -> Iterator[None]:
    """Replace Ray's workers of searches by training in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sclsearch.search.run._train", _train)
        yield


def _train(scheduler: "Scheduler", *_: object) -> "Ending":
    from ray import cloudpickle

    from sclsearch.ray_backend.tuner import SeedSearcher
    from sclsearch.ray_backend.worker import seed_run_trial
    from sclsearch.search.run import worker_context

    searcher = SeedSearcher(scheduler)
    # A copy as a Ray worker gets it: pickled, with read-only arrays.
    arrays: list[pickle.PickleBuffer] = []
    rest = cloudpickle.dumps(worker_context(scheduler), 5, buffer_callback=arrays.append)
    context = cloudpickle.loads(rest, buffers=[bytes(array.raw()) for array in arrays])
    reports: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ray.tune.report", reports.append)
        while isinstance(config := searcher.suggest("trial"), dict):
            seed_run_trial(config, context)
            searcher.on_trial_complete("trial", reports.pop())
    if searcher.fault is not None:
        raise searcher.fault
    return "complete" if scheduler.complete else "interrupted"


def train_one(prepared: "Scheduler") -> "SeedRun":
    """Train and store the first seed run of a study of one configuration."""
    from sclsearch.ray_backend.worker import attempt, row_results
    from sclsearch.search.run import worker_context

    prepared = prepared.begin()
    prepared.refill()
    spec = prepared.study.seed_run_spec({}, 0, prepared.splits[0])
    context = worker_context(prepared)
    run, result = attempt(spec, context, 0)
    assert result is not None
    prepared.runs.put(run, row_results(spec, context, result))
    return run
