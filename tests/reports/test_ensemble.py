"""Tests of an exported ensemble, which averages the class probabilities of its seeds."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForSequenceClassification
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.encoders.models import model_folder
from sclsearch.errors import SclsearchError
from sclsearch.reports.predictor import read_record
from sclsearch.reports.report import finished_winner, report
from tests.reports.trained import Trained

TEXTS = ["the film was good", "it was awful, and very dull"]


@pytest.fixture(scope="module")
def ensemble(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an exported ensemble of both seeds."""
    folder = tmp_path_factory.mktemp("export") / "both"
    sclsearch.export("mine", folder, storage=trained.storage, ensemble=True, force=True)
    return folder


def test_probabilities_are_the_mean_of_the_members(ensemble: Path) -> None:
    whole = sclsearch.load(ensemble)
    assert set(whole.record.members) == {"seed-0", "seed-1"}
    members = [sclsearch.load(ensemble / name) for name in whole.record.members]
    first, second = (member.predict_proba(TEXTS) for member in members)
    assert not np.allclose(first, second)
    expected = (first + second) / 2
    assert whole.predict_proba(TEXTS) == pytest.approx(expected)
    for one, row in zip(whole.predict(TEXTS), expected, strict=True):
        assert one.label == whole.labels[row.argmax()]
        assert list(one.scores.values()) == pytest.approx(row)


def test_an_ensemble_of_one_seed_is_an_error(trained: Trained, tmp_path: Path) -> None:
    with pytest.raises(SclsearchError) as raised:
        sclsearch.export(
            "mine",
            tmp_path / "one",
            storage=trained.storage,
            rule="mean/best",
            ensemble=True,
            force=True,
        )
    assert str(raised.value) == (
        "ensemble: rule mean/best must report at least 2 seeds, got 1. Pass --rule top-3, for "
        "example."
    ).replace("--rule", "rule")
    assert not (tmp_path / "one").exists()


def test_the_members_of_an_ensemble_are_encoders_but_not_the_ensemble(ensemble: Path) -> None:
    with pytest.raises((OSError, ValueError), match=r"config\.json|model_type"):
        AutoModelForSequenceClassification.from_pretrained(ensemble)
    assert model_folder(f"{ensemble}/seed-0") == ensemble / "seed-0"
    with pytest.raises(SclsearchError) as raised:
        model_folder(str(ensemble))
    assert str(raised.value).endswith("Of an exported ensemble, pass the folder of one seed.")


def test_the_command_and_the_record_have_the_mean_scores_of_the_members(
    trained: Trained, tmp_path: Path
) -> None:
    folder = tmp_path / "both"
    command = [
        "export",
        "mine",
        str(folder),
        "--storage",
        str(trained.storage),
        "--ensemble",
        "--force",
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    winner, record = finished_winner(report(trained.storage, "mine")), sclsearch.load(folder).record
    assert record.test == pytest.approx(np.mean([seed.test or 0 for seed in winner.seeds]))
    assert record.validation == pytest.approx(winner.score)
    assert (
        f"an ensemble of 2 seeds, whose own scores average accuracy {record.validation:.4f}, test "
        f"{record.test:.4f}\n"
    ) in result.stdout


def test_labels_that_differ_from_those_of_the_members_are_an_error(
    ensemble: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(ensemble, tmp_path / "both")
    replace(read_record(copy), labels=("a", "b", "c")).write(copy)
    with pytest.raises(SclsearchError, match=r"sclsearch\.json: labels: must be unacceptable, "):
        sclsearch.load(copy)
