"""A search without Ray: its seed runs are trained one after the other, in this process."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import pickle

    from sclsearch.search.board import Board
    from sclsearch.search.options import Ending, How
    from sclsearch.search.prepare import Prepared


@contextmanager
def in_process() -> Iterator[None]:
    """Lets searches do here what Ray's workers do; all that is around them stays as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sclsearch.search.run._train", _train)
        yield


def _train(prepared: "Prepared", board: "Board", how: "How", *_: object) -> "Ending":
    from sclsearch.search.trial import bench_of, seed_run_trial
    from sclsearch.search.tuner import SeedSearcher

    searcher = SeedSearcher(board, math.inf)
    bench = sent(bench_of(prepared, how.cpus_per_trial))
    told: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ray.tune.report", told.append)
        while isinstance(config := searcher.suggest("trial"), dict):
            seed_run_trial(config, bench)
            searcher.on_trial_complete("trial", told.pop())
    if searcher.fault is not None:
        raise searcher.fault
    return "complete" if board.complete else "interrupted"


def sent(given: Any) -> Any:
    """Returns something as a worker gets it: pickled, and with arrays that nobody may write to."""
    from ray import cloudpickle

    arrays: list[pickle.PickleBuffer] = []
    rest = cloudpickle.dumps(given, protocol=5, buffer_callback=arrays.append)
    return cloudpickle.loads(rest, buffers=[bytes(array.raw()) for array in arrays])
