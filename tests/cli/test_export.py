"""Tests of the command `export`: output, usage hints and errors."""

import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sclsearch.reports.report import finished_winner, report
from sclsearch.store.studies import StudyStore
from tests.workspace import Call


@pytest.fixture
def weights(storage: Path, finished: tuple[str, ...]) -> Path:
    """Return a made-up weights file of the winner's best seed."""
    winner = finished_winner(report(storage, "mine"))
    path = Path(str(StudyStore(storage, "mine").weights(winner.seeds[winner.reported[0]].key)))
    path.parent.mkdir(exist_ok=True)
    save_file({"encoder.model.x": torch.ones(1), "new_modules.y": torch.zeros(2)}, path)
    return path


def test_an_export_prints_scores_and_usage_and_its_checksums_find_changed_files(
    sclsearch: Call, workdir: Path, weights: Path
) -> None:
    result = sclsearch("export", "mine", "my encoder")
    assert (result.returncode, result.stderr) == (0, "")
    first, second, *usage = result.stdout.splitlines()
    assert first.endswith("seed 1, the best of 2 by validation, accuracy 0.6200, test 0.6200")
    assert "test accuracy is 0.6100" in second
    assert "On the command line: sclsearch predict 'my encoder' FILE" in usage
    assert 'classifier = sclsearch.load("my encoder")' in usage
    folder = workdir / "my encoder"
    assert load_file(folder / "encoder/model.safetensors").keys() == {"x"}
    assert load_file(folder / "parts.safetensors").keys() == {"y"}
    modes = {file.stat().st_mode for file in folder.rglob("*") if file.is_file()}
    assert modes == {(folder / "sclsearch.json").stat().st_mode}
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    for changed in ("README.md", "sclsearch.json"):
        with (folder / changed).open("a") as file:
            file.write("\n")
        done = subprocess.run(check, cwd=folder, capture_output=True, check=False)
        assert (done.returncode == 0) == (changed == "README.md"), done.stderr
