"""What is counted is what goes through the encoder when the seed run is trained."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.protocols.base import Rows
from sclsearch.protocols.splits import plain_split
from sclsearch.tasks.base import TaskData
from sclsearch.training.engine import train
from sclsearch.training.spec import TrainingData
from sclsearch.training.workload import Workload, workload

WorkFor = Callable[..., TrainingData]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, work_for: WorkFor) -> Callable[[TrainingData], Workload]:
    """Returns what trains a seed run and counts the forward passes of its encoder."""
    spec = work_for("ce").spec
    load_encoder(spec.model, spec.model_name)  # so that the forward of loading does not count
    found: list[Workload] = []
    hidden = Encoder.hidden

    def counted(
        self: Encoder, ids: Tensor, mask: Tensor, types: Tensor, rates: Any, **options: Any
    ) -> Tensor:
        states = hidden(self, ids, mask, types, rates, **options)
        rows, tokens = len(states), len(states) // len(ids) * int(mask.sum())
        # An encoder that trains leaves a graph behind its states.
        found.append(
            Workload(1, trained=tokens, rows=rows)
            if states.requires_grad
            else Workload(read=tokens, rows=rows)
        )
        return states

    monkeypatch.setattr(Encoder, "hidden", counted)

    def seen(work: TrainingData) -> Workload:
        found.clear()
        train(work)
        return sum(found, Workload())

    return seen


def test_every_method_passes_the_rows_and_tokens_that_were_counted(
    work_for: WorkFor, seen: Callable[[TrainingData], Workload], method: str
) -> None:
    work = work_for(method, epochs=2)
    found = workload(work)
    assert found == seen(work)
    assert found.updates > 0
    assert found.trained > found.updates


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("cmlm", {"k": 3}),
        ("scl", {"lam": 1.0}),
        ("supcl-seq", {"view_mode": "official_code"}),
        ("supcl-seq", {"probe_encoder_mode": "train", "probe_epochs": 3}),
        ("ce", {"batch_sampling": "balanced"}),
        ("ce", {"batch_size": 100, "drop_last": True}),
        ("ce", {"drop_last": True, "evaluate": "tenth"}),
        ("ce", {"evaluate": 4}),
        ("tapt", {"evaluate": "end"}),
    ],
)
def test_what_changes_the_number_of_passes_is_counted(
    work_for: WorkFor, seen: Callable[[TrainingData], Workload], method: str, fields: dict[str, Any]
) -> None:
    work = work_for(method, **{"epochs": 2, **fields})
    assert workload(work) == seen(work) != workload(work_for(method))


@pytest.mark.parametrize("method", ["simcse", "cmlm", "tapt", "cssl"])
def test_further_texts_are_counted_in_the_stages_that_read_no_labels(
    work_for: WorkFor, seen: Callable[[TrainingData], Workload], toy: TaskData, method: str
) -> None:
    few, all_ = (Rows("train", np.arange(rows)) for rows in (20, 44))
    splits = replace(plain_split(toy), train=few)
    work = work_for(method, epochs=2, splits=replace(splits, unlabeled=all_))
    assert workload(work) == seen(work) != workload(work_for(method, epochs=2, splits=splits))


@pytest.mark.parametrize("method", ["ce", "supcl-seq", "cmlm", "cssl"])
@pytest.mark.parametrize("most", [1, 7])
def test_a_stage_that_is_ended_early_is_counted_until_then(
    work_for: WorkFor, seen: Callable[[TrainingData], Workload], method: str, most: int
) -> None:
    work = work_for(method, epochs=3)
    short = replace(work, spec=replace(work.spec, max_updates=most))
    assert workload(short) == seen(short)
    assert workload(short).trained < workload(work).trained
