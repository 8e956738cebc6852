"""Training of the custom methods on the documentation's page, and of faulty ones."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from sclsearch.errors import SclsearchError
from sclsearch.methods.fields import load_custom_method
from sclsearch.training.engine import train
from tests.training.conftest import Work, WorkFor

HEAD = "new_modules.head.out.weight"


def load(text: str, folder: Path, name: str) -> Any:
    file = folder / f"{name.lower()}.py"
    file.write_text(text, encoding="utf-8")
    return load_custom_method(f"{file}:{name}")


def with_method(work: Work, method: Any) -> Work:
    return work.but(method=method, method_name=type(method).__name__)


def test_an_added_module_changes_neither_the_head_nor_a_loss_without_it(
    work_for: WorkFor, own_method_files: dict[str, str], tmp_path: Path
) -> None:
    kind = load(own_method_files["projected.py"], tmp_path, "Projected")
    work = work_for("ce", epochs=2)
    plain = train(*work)
    without, contrasted = (train(*with_method(work, kind(lam=lam))) for lam in (0.0, 0.5))
    assert without.predictions == plain.predictions
    assert without.weights["new_modules.projection.weight"].shape == (64, 16)
    assert all(torch.equal(tensor, without.weights[name]) for name, tensor in plain.weights.items())
    assert not torch.equal(contrasted.weights[HEAD], plain.weights[HEAD])


def test_class_weights_that_the_loss_does_not_read_are_an_error(
    work_for: WorkFor, custom_method: str, tmp_path: Path
) -> None:
    balanced = work_for("ce", epochs=1, class_weights="balanced")
    train(*with_method(balanced, load(custom_method, tmp_path, "Smoothed")()))
    lines = custom_method.replace("batch.y, weight, ", "batch.y, ").splitlines()
    text = "\n".join(line for line in lines if "class_weights" not in line)
    with pytest.raises(SclsearchError, match=r"^class_weights: 'balanced' .* loss of Smoothed"):
        train(*with_method(balanced, load(text, tmp_path, "Smoothed")()))


def test_the_debugging_script_trains_one_seed_run(
    own_method_files: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in own_method_files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    runpy.run_path("debug.py")
    assert "'contrast': " in capsys.readouterr().out
