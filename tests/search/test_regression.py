"""Tests of regression tasks: some methods support them, and errors name these methods."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class
from sclsearch.search.prepare import reading_notes
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions
from sclsearch.study.study import Study
from tests.workspace import MakeSpec, WriteSpace

REGRESSION = [name for name in METHODS if method_class(name).regression]


@pytest.fixture
def on_stsb(make_spec: MakeSpec, glue: Path) -> Any:
    """Return a function that resolves a study of STS-B."""

    def on_stsb(method: str = "ce", **changes: Any) -> Study:
        spec = make_spec(**{"method": method, "task": "stsb", "space": None, **changes})
        return resolve(spec, RunOptions(gpus_per_trial=0, data_dir=glue))

    return on_stsb


@pytest.mark.parametrize("name", METHODS)
def test_a_method_uses_a_correlation_or_its_error_names_the_regression_methods(
    on_stsb: Any, name: str
) -> None:
    if name in REGRESSION:
        assert on_stsb(name, searched=False).metric == "pearson"
        return
    with pytest.raises(SclsearchError, match=rf"^--method {name}: .* stsb is a regr") as raised:
        on_stsb(name, searched=False)
    assert f"Use one of {', '.join(REGRESSION)}." in str(raised.value)


def test_class_weights_of_a_regression_are_refused(
    on_stsb: Any, write_space: WriteSpace, tiny_bert: Path
) -> None:
    message = "^class_weights: 'balanced' needs classes, but stsb is a regression"
    with pytest.raises(SclsearchError, match=message):
        on_stsb(settings={"class_weights": "balanced"})
    lines = "method: ce\nsource: a test\npublished: []\nspace:\n"
    space = f"{lines}  class_weights: {{type: choice, values: [none, balanced]}}\n"
    study = on_stsb(space=write_space(space))
    with pytest.raises(SclsearchError, match=message):
        study.check(load_encoder(tiny_bert, "tiny"))


@pytest.mark.parametrize(
    ("factor", "shift", "noted"), [(1, 0, False), (20, 0, True), (1, 100, True), (0.01, 0, True)]
)
def test_scores_far_from_0_or_nearly_equal_are_noted(
    on_stsb: Any, factor: float, shift: float, noted: bool
) -> None:
    study = on_stsb()
    train = study.data.splits["train"]
    scaled = replace(train, y=np.asarray(train.y * factor + shift, np.float64))
    data = replace(study.data, splits={**study.data.splits, "train": scaled})
    notes = reading_notes(replace(study, data=data), study.splits(0))
    assert any(note.startswith("the training scores have mean ") for note in notes) == noted
