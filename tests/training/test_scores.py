"""The methods that learn scores do so on real rows of STS-B."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sclsearch.methods import METHODS, method_class
from sclsearch.methods.base import Training
from sclsearch.tasks import load_task
from sclsearch.tasks.base import Split, TaskData
from sclsearch.tasks.metrics import value
from sclsearch.training.engine import train
from sclsearch.training.spec import TrainingData

ABLE = [
    name
    for name in METHODS
    if method_class(name).regression
    and all(stage.reads == "texts" for stage in method_class(name)().stages(Training()))
]
# From rows of the files to rows of the task; STS-B's own test rows have no scores.
ROWS: Mapping[str, tuple[str, slice]] = {
    "train": ("train", slice(0, 48)),
    "validation": ("validation", slice(0, 24)),
    "test": ("validation", slice(24, 48)),
}


@pytest.fixture(scope="module")
def stsb(glue: Path) -> TaskData:
    """Returns the first pairs of STS-B."""
    data = load_task("stsb", glue)
    splits = {
        name: Split(data.splits[source].texts[rows], data.splits[source].y[rows])
        for name, (source, rows) in ROWS.items()
    }
    return replace(data, splits=splits, digest="")


@pytest.mark.parametrize("name", ABLE)
def test_one_epoch_on_pairs_with_scores_gives_a_correlation(
    work_for: Callable[..., TrainingData], stsb: TaskData, name: str
) -> None:
    assert np.unique(stsb.splits["train"].y).size > 10
    result = train(work_for(name, data=stsb, epochs=1, max_length=64))
    predictions = result.predictions["test"]
    assert np.isfinite(predictions).all()
    assert np.unique(predictions).size > 1
    assert -1 <= value("pearson", result.test) <= 1
    assert all(np.isfinite(list(note["loss"].values())).all() for note in result.evaluations)  # type: ignore[attr-defined]
