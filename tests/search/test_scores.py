"""Tests of regression tasks: some methods support them, and errors name these methods."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class
from sclsearch.search.prepare import reading_notes
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions
from tests.workspace import MakeSpec, WriteSpace

REGRESSION = [name for name in METHODS if method_class(name).regression]


@pytest.fixture(scope="module")
def stsb(glue: Path) -> RunOptions:
    return RunOptions(gpus_per_trial=0, data_dir=glue)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_uses_a_correlation_or_its_error_names_the_regression_methods(
    make_spec: MakeSpec, stsb: RunOptions, name: str
) -> None:
    spec = make_spec(method=name, task="stsb", space=None, searched=False)
    if name in REGRESSION:
        assert resolve(spec, stsb).metric == "pearson"
        return
    with pytest.raises(SclsearchError) as raised:
        resolve(spec, stsb)
    assert str(raised.value) == (
        f"--method {name}: needs a task with classes, but stsb is a regression task. "
        f"Use one of {', '.join(REGRESSION)}."
    )


def test_class_weights_of_a_regression_are_refused(
    make_spec: MakeSpec, stsb: RunOptions, write_space: WriteSpace, tiny_bert: Path
) -> None:
    message = "^class_weights: 'balanced' needs classes, but stsb is a regression"
    spec = make_spec(method="ce", task="stsb", space=None)
    with pytest.raises(SclsearchError, match=message):
        resolve(replace(spec, settings={"class_weights": "balanced"}), stsb)
    lines = "method: ce\nsource: a test\npublished: []\nspace:\n"
    space = f"{lines}  class_weights: {{type: choice, values: [none, balanced]}}\n"
    study = resolve(replace(spec, space=write_space(space)), stsb)
    with pytest.raises(SclsearchError, match=message):
        study.check(load_encoder(tiny_bert, "tiny"))


@pytest.mark.parametrize(
    ("factor", "shift", "noted"), [(1, 0, False), (20, 0, True), (1, 100, True), (0.01, 0, True)]
)
def test_scores_far_from_0_or_nearly_equal_are_noted(
    make_spec: MakeSpec, stsb: RunOptions, factor: float, shift: float, noted: bool
) -> None:
    study = resolve(make_spec(method="ce", task="stsb", space=None), stsb)
    train = study.data.splits["train"]
    scaled = replace(train, y=np.asarray(train.y * factor + shift, np.float64))
    data = replace(study.data, splits={**study.data.splits, "train": scaled})
    notes = reading_notes(replace(study, data=data), study.splits(0))
    assert any(note.startswith("the training scores have mean ") for note in notes) == noted
