"""An encoder is timed once, and a workload takes as long as its parts together."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from sclsearch.errors import SclsearchError
from sclsearch.training.engine import train
from sclsearch.training.pace import Pace, measured_pace
from sclsearch.training.spec import TrainingData
from sclsearch.training.workload import Workload, workload


def test_a_workload_takes_as_long_as_updates_and_tokens_together() -> None:
    pace = Pace(update=0.5, trained=0.25, read=0.125)
    assert pace.seconds(Workload(updates=3, trained=40, read=80, rows=7)) == 1.5 + 10 + 10
    assert pace.seconds(Workload()) == 0


def test_an_encoder_is_timed_once_for_each_length(tiny_bert: Path) -> None:
    found = measured_pace(tiny_bert, "tiny", "cpu-fp32", 1, 8)
    assert found.update + found.trained > 0  # a tiny encoder's tokens hardly count
    assert found.read > 0
    assert measured_pace(tiny_bert, "tiny", "cpu-fp32", 1, 8) is found
    assert measured_pace(tiny_bert, "tiny", "cpu-fp32", 1, 16) is not found


def test_timing_leaves_threads_and_the_loaded_encoder_as_they_were(
    tiny_bert: Path, work_for: Callable[..., TrainingData]
) -> None:
    work = work_for("ce", epochs=1)
    before = train(work)
    measured_pace.cache_clear()
    measured_pace(tiny_bert, "tiny", "cpu-fp32", 2, 8)
    assert torch.get_num_threads() == 1
    assert train(work).predictions == before.predictions


@pytest.mark.parametrize("method", ["ce", "supcl-seq", "cmlm"])
def test_the_pace_tells_how_long_training_takes(
    tiny_bert: Path, work_for: Callable[..., TrainingData], method: str
) -> None:
    work = work_for(method, epochs=20)
    train(work_for(method, epochs=1))
    started = time.thread_time()
    train(work)
    real = time.thread_time() - started
    told = measured_pace(tiny_bert, "tiny", "cpu-fp32", 1, 8).seconds(workload(work))
    # An encoder so small is not what takes the time, and still its order is right.
    assert real / 5 < told < 3 * real


def test_a_gpu_that_is_not_there_cannot_be_timed(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SclsearchError, match="cuda-bf16: a GPU must be there"):
        measured_pace(tiny_bert, "tiny", "cuda-bf16", 1, 8)
