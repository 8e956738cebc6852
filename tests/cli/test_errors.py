"""Tests of the errors that a search reports before it starts; the campaign has the malformed ones.

Settings of `--set` and of options for single hyperparameters are here, too.
"""

from pathlib import Path

import pytest

from sclsearch.cli.options import parse_settings
from tests.cli.conftest import SEARCH
from tests.workspace import Call

UNUSABLE = [
    ("--model minlm", "Did you mean 'minilm'?"),
    ("--model ./empty", "--model ./empty: lacks config.json, model.safetensors, "),
    ("--train-size 9 --shots 9", "--train-size: cannot be combined with --shots."),
    ("--text t", "--text: describes a file of your own, but demo is a task"),
    ("--task none.csv", "none.csv: the columns of text and label are not clear."),
    ("--data-dir glue", "--data-dir glue: must come with a published task, got demo."),
    ("--set tua=1 --set lam=2", "--set tua: unknown key. Did you mean 'tau'?"),
    ("--set tau=1 --set lam=2", "--set lam: must be at most 1"),
    ("--set epochs=2 --epochs 3", "--set epochs: is set twice"),
    ("--set tau=1 --set tau=1", "--set tau: is set twice"),
    ("--cpus-per-trial 1000", "a seed run does not fit into this machine"),
    ("--storage /proc/nothing", "--storage /proc/nothing: is not a folder that can"),
    ("--tracking htp://x", "--tracking: must name a server or a database, got 'htp://x'"),
    ("--tracking sqlite:////proc/no/mlflow.db", "/proc/no/mlflow.db: cannot create"),
    ("--tracking mysql://me:secret@127.0.0.1/x", "mysql://***@127.0.0.1/x: cannot load"),
    ("--space mine.yaml --method ce", "mine.yaml: method: must be 'ce', got 'scl'"),
    ("--space high.yaml", "high.yaml: published[0]: tau must be from 0.1 to 0.7, got 0.9"),
    ("--race 2 --seeds 2", "--race: needs more seeds per configuration, got 2."),
    ("--race off --seed-runs 8", "No such option: --seed-runs"),
    ("--task cola --splits 5", "--splits 5: needs --protocol plain"),
]


@pytest.mark.parametrize(("options", "message"), UNUSABLE, ids=lambda text: text[:30])
def test_an_unusable_option_is_refused_with_and_without_dry_run_and_leaves_no_study(
    sclsearch: Call, workdir: Path, space: Path, storage: Path, options: str, message: str
) -> None:
    (workdir / "empty").mkdir()
    (workdir / "none.csv").touch()
    (workdir / "high.yaml").write_text(space.read_text().replace("tau: 0.3", "tau: 0.9"))
    for dry_run in ((), ("--dry-run",)):
        result = sclsearch(*SEARCH, *options.split(), *dry_run)
        result.assert_refused(message)
        assert result.stdout == ""
        assert "secret" not in result.stderr
    assert not (storage / "studies").exists()


def test_all_errors_of_a_space_or_of_settings_are_reported_at_once(
    sclsearch: Call, workdir: Path
) -> None:
    (workdir / "mine.yaml").write_text(
        "method: scl\nsorce: mine\nspace:\n  epochs: {type: float, low: 5, high: 2}\n"
    )
    sclsearch(*SEARCH, "--space", "mine.yaml", "--dry-run").assert_refused(
        "mine.yaml: sorce: unknown key. Did you mean 'source'?",
        "mine.yaml: source: is missing",
        "mine.yaml: space.epochs: low must be below high, got low=5.0, high=2.0",
    )
    settings = ("--set", "tua=1", "--set", "lam=2", "--set", "epochs=many")
    lines = sclsearch(*SEARCH, "--dry-run", *settings).stderr.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["--set tua", "--set lam", "--set epochs"]


def test_missing_data_and_model_are_reported_together(sclsearch: Call) -> None:
    command = ("tune", "--method", "supcl-seq", "--task", "cola", "--data-dir", ".")
    sclsearch(*command, "--model", "./nothing").assert_refused(
        "CoLA", "--model ./nothing: ", "--task demo --model minilm."
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--search-seed 1", "--study mine: search_seed must stay 0, got 1. Give another "),
        ("--set epochs=3", "--study mine: epochs must stay None, got 3. Give another --study"),
    ],
)
def test_a_changed_option_of_a_stored_study_is_refused_with_its_name(
    sclsearch: Call, finished: tuple[str, ...], options: str, message: str
) -> None:
    sclsearch(*finished, "--dry-run", *options.split()).assert_refused(message)


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("learning_rate=1e-5", 1e-5),
        ("dropouts=[0.0, 0.1]", [0.0, 0.1]),
        ("pooling=mean", "mean"),
        (" tau = 1", 1),
        ("note=a=b", "a=b"),
    ],
)
def test_a_setting_is_read_as_yaml(pair: str, value: object) -> None:
    (found,) = parse_settings([pair], epochs=None).values()
    assert found == value
    assert type(found) is type(value)
