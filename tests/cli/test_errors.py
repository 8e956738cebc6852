"""Tests of the errors that a search reports before it starts; the campaign has the malformed ones.

Settings of `--set` and of options for single hyperparameters are here, too.
"""

from pathlib import Path

import pytest

from sclsearch.cli.options import parse_settings
from tests.cli.conftest import SEARCH
from tests.conftest import Call
from tests.studies import SPACE

UNUSABLE = [
    ("--model minlm", "Did you mean 'minilm'?"),
    ("--train-size 9 --shots 9", "--train-size: cannot be combined with --shots."),
    ("--task none.csv", "none.csv: cannot be read: it is empty."),
    ("--data-dir glue", "--data-dir glue: must come with a published task, got demo."),
    ("--set max_length=161", "max_length"),
    ("--set epochs=2 --epochs 3", "--set epochs: is set twice"),
    ("--set tau=1 --set tau=1", "--set tau: is set twice"),
    ("--storage /proc/nothing", "--storage /proc/nothing: is not a folder that can"),
    ("--tracking sqlite:////proc/no/mlflow.db", "/proc/no/mlflow.db: cannot create"),
    ("--tracking mysql://me:secret@127.0.0.1/x", "mysql://***@127.0.0.1/x: cannot load"),
    ("--space mine.yaml --method ce", "mine.yaml: method: must be 'ce', got 'scl'"),
    ("--space high.yaml", "high.yaml: published[0]: tau must be one of 0.1, 0.3, 0.5, got 0.9"),
    ("--race 2 --seeds 2", "--race: needs more seeds per configuration, got 2."),
    ("--task cola --folds 5", "--folds 5: needs --protocol plain"),
]


@pytest.mark.parametrize(("options", "message"), UNUSABLE, ids=lambda text: text[:30])
def test_an_unusable_option_is_refused_with_and_without_dry_run_and_leaves_no_study(
    sclsearch: Call, workdir: Path, storage: Path, options: str, message: str
) -> None:
    (workdir / "none.csv").touch()
    (workdir / "mine.yaml").write_text(SPACE)
    (workdir / "high.yaml").write_text(SPACE.replace("tau: 0.3", "tau: 0.9"))
    for dry_run in ((), ("--dry-run",)):
        result = sclsearch(*SEARCH, *options.split(), *dry_run)
        result.assert_refused(message)
        assert result.stdout == ""
        assert "secret" not in result.stderr
    assert not (storage / "studies").exists()


def test_all_errors_of_settings_are_reported_at_once(sclsearch: Call) -> None:
    settings = ("--set", "tua=1", "--set", "lam=2", "--set", "epochs=many")
    refused = sclsearch(*SEARCH, "--dry-run", *settings)
    refused.assert_refused("--set tua: ", "--set lam: ", "--set epochs: ")


def test_missing_data_and_model_are_reported_together(sclsearch: Call) -> None:
    command = ("tune", "--method", "supcl-seq", "--task", "cola", "--data-dir", ".")
    sclsearch(*command, "--model", "./nothing").assert_refused(
        "CoLA", "--model ./nothing: ", "--task demo --model minilm."
    )


def test_a_setting_is_read_as_yaml() -> None:
    pairs = ["learning_rate=1e-5", "dropouts=[0.0, 0.1]", " tau = 1", "note=a=b"]
    expected = {"learning_rate": 1e-5, "dropouts": [0.0, 0.1], "tau": 1, "note": "a=b"}
    assert parse_settings(pairs, epochs=None) == expected
