"""Tests of the export to ONNX: probabilities equal to torch's, every head, refusals."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.errors import SclsearchError
from sclsearch.exports.calibration import Calibration
from sclsearch.exports.onnx import compute, write_model
from sclsearch.methods.base import Batch, Method, Model
from tests.docs.test_docs import _block
from tests.exports.test_heads import RECORD, TEXTS, exported
from tests.made_up import own_task, study_on


@dataclass(frozen=True)
class Content(Method):
    def scores(self, model: Model, batch: Batch) -> Tensor:
        return super().scores(model, batch) * batch.content.sum(1, keepdim=True)


@dataclass(frozen=True)
class Branch(Method):
    def scores(self, model: Model, batch: Batch) -> Tensor:
        scores = super().scores(model, batch)
        return -scores if scores.max() < -1e6 else scores


@pytest.mark.slow
def test_onnxruntime_serves_an_ensemble_with_the_probabilities_of_torch(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["export", "mine", "model", "--storage", str(trained), "--force", "--ensemble"]
    done = CliRunner().invoke(app, [*command, "--calibrate", "--onnx"])
    assert done.exit_code == 0, done.output
    server: dict[str, Any] = {}
    exec(_block("results.md", 'python title="serve.py"'), server)
    classifier = sclsearch.load("model")
    for texts in (TEXTS, [*TEXTS, "awful " * 40], TEXTS[:1]):
        served = [[one[label] for label in classifier.labels] for one in server["classify"](texts)]
        assert served == pytest.approx(classifier.predict_proba(texts), abs=1e-5)
    own = classifier.record.onnx
    assert own["accuracy"] == pytest.approx(classifier.record.validation)
    assert own["largest difference from torch"] < 1e-5
    assert own["MB"] * 1e6 == pytest.approx(Path("model/onnx/model.onnx").stat().st_size)
    line = f"`onnx/model.onnx`: accuracy {own['accuracy']:.4g}, largest difference from torch "
    assert line in done.stdout
    assert line in Path("model/README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["supcl-seq", "lacon", "lacon-fusion", "leam", "lsan"])
def test_every_kind_of_head_has_the_probabilities_of_torch(
    tiny_bert: Path, tmp_path: Path, method: str
) -> None:
    record = replace(RECORD, calibration=Calibration(0.4, None, 9, {}))
    classifier = sclsearch.load(exported(tiny_bert, tmp_path / "m", method, record).folder)
    expected = classifier.predict_proba(TEXTS)
    assert np.ptp(expected, axis=0).max() > 0.01
    rows = [(text,) for text in TEXTS]
    tokenizer, file = write_model(tmp_path / "onnx", classifier, rows[:2])
    found = compute(file, tokenizer, rows)
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_a_regression_has_the_scores_of_torch(regression: Path, tmp_path: Path) -> None:
    record = sclsearch.export("mine", tmp_path / "m", storage=regression, force=True, onnx=True)
    assert record.onnx[record.metric] == pytest.approx(record.validation, abs=1e-4)
    assert record.onnx["largest difference from torch"] < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Content, "Content must have the outputs of torch, but differs by "),
        (Branch, "torch cannot export Branch on .*: Could not guard on data-dependent"),
    ],
)
def test_a_method_that_onnx_computes_otherwise_or_not_at_all_leaves_no_folder(
    tiny_bert: Path, tmp_path: Path, method: type[Method], message: str
) -> None:
    rows = [(f"a {word} film {n}", word) for n in range(12) for word in ("good", "bad")]
    storage = study_on(tiny_bert, tmp_path, own_task(tmp_path / "own", rows), method=method)
    given: dict[str, Any] = {"storage": storage, "method": method, "force": True}
    with pytest.raises(SclsearchError, match=f"^onnx: {message}"):
        sclsearch.export("mine", tmp_path / "m", onnx=True, **given)
    assert not (tmp_path / "m").exists()


def test_missing_packages_are_named(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(
        SclsearchError, match=r"^onnx: needs onnxscript\. Run pip install 'sclsearch\[onnx\]'"
    ):
        sclsearch.export("mine", tmp_path / "m", storage=trained, force=True, onnx=True)
