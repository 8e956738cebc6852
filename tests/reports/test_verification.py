"""`verify` finds the recorded score again, and says so if an export was changed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.encoders.models import CARD
from sclsearch.errors import SclsearchError
from sclsearch.reports.export_record import read_record
from sclsearch.reports.report import report
from tests.reports.trained import Trained


def test_an_export_is_verified_against_its_recorded_score(once: Trained, exported: Path) -> None:
    winner = report(once.storage, "mine").winner
    assert winner is not None
    best = winner.seeds[winner.reported[0]]
    found = sclsearch.verify(exported)
    (one,) = found.members
    assert found.verified
    assert (one.replicate, one.recorded, one.found) == (best.replicate, best.test, best.test)
    assert one.agreeing == one.rows == 500
    done = CliRunner().invoke(app, ["verify", str(exported)])
    assert (done.exit_code, done.stdout) == (
        0,
        f"seed {one.replicate}: test accuracy {best.test:.4f} on 500 rows, recorded "
        f"{best.test:.4f}\n"
        "  transformers alone predicts the same for 500 of 500 rows\n"
        f"{exported}: verified\n",
    )


def test_an_ensemble_is_verified_by_its_members(once: Trained, tmp_path: Path) -> None:
    sclsearch.export("mine", tmp_path / "both", storage=once.storage, ensemble=True)
    found = sclsearch.verify(tmp_path / "both")
    assert found.verified
    assert len(found.members) == 2
    assert found.ensemble is not None
    assert 0 < found.ensemble < 1
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "both")])
    assert f"ensemble of 2 seeds: test accuracy {found.ensemble:.4f}\n" in done.stdout


def test_another_score_is_exit_code_3_unless_it_is_tolerated(exported: Path) -> None:
    record = read_record(exported)
    confusion = [list(row) for row in record.evaluation["confusion"]]
    confusion[0][0] += 1
    confusion[0][1] -= 1
    replace(record, evaluation={"confusion": confusion}).write(exported)
    done = CliRunner().invoke(app, ["verify", str(exported)])
    assert done.exit_code == 3
    assert done.stdout.endswith(f"{exported}: NOT verified: a score or a prediction differs\n")
    done = CliRunner().invoke(app, ["verify", str(exported), "--tolerance", "0.002", "--json"])
    found = json.loads(done.stdout)
    assert (done.exit_code, found["verified"]) == (0, True)
    assert abs(found["members"][0]["found"] - found["members"][0]["recorded"]) > 0.001


def test_labels_in_another_order_are_an_error(exported: Path) -> None:
    record = read_record(exported)
    replace(record, labels=record.labels[::-1]).write(exported)
    done = CliRunner().invoke(app, ["verify", str(exported)])
    assert isinstance(done.exception, SclsearchError)
    assert "labels: must be" in str(done.exception)


def test_a_head_of_transformers_that_is_not_ours_is_found(exported: Path) -> None:
    weights = load_file(exported / "model.safetensors")
    weights["classifier.bias"] += torch.tensor([100.0, -100.0])
    save_file(weights, exported / "model.safetensors", {"format": "pt"})
    found = sclsearch.verify(exported)
    (one,) = found.members
    assert one.found == one.recorded
    assert one.agreeing is not None
    assert one.agreeing < one.rows
    assert not found.verified


def test_other_test_rows_are_refused(exported: Path) -> None:
    record = read_record(exported)
    replace(record, data="0" * 64).write(exported)
    with pytest.raises(SclsearchError) as raised:
        sclsearch.verify(exported)
    assert str(raised.value).startswith(
        f"{exported / CARD}: the test rows of demo must be those of the study, but "
    )
    replace(record, test_rows="").write(exported)
    with pytest.raises(SclsearchError, match="names no test rows, because an older version"):
        sclsearch.verify(exported)
