"""Tests of commands that train nothing: `show`, `compare`, `ls` and `ui`."""

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from sclsearch.methods import METHODS
from sclsearch.protocols import protocol_summaries
from sclsearch.spaces.load import space_files
from sclsearch.store.storage import sealed
from sclsearch.tasks import TASKS
from tests.cli.conftest import SEARCH
from tests.workspace import Call

INVALID_FORM = """
method: scl
sorce: mine
space:
  epochs: {type: float, low: 5, high: 2}
"""
INVALID_VALUES = """
method: scl
source: mine
fixed: {tua: 1}
space:
  lam: {type: choice, values: [0.5, 7]}
"""


def test_select_ranks_stored_seed_runs_by_any_rule_and_with_fewer_seeds(
    sclsearch: Call, finished: tuple[str, ...]
) -> None:
    result = sclsearch("show", "mine")
    assert result.returncode == 0
    assert "Winner #0 learning_rate=0.001 tau=0.3 lam=0.9" in result.stdout
    assert "(rule mean)" in result.stdout
    assert "Winner #1" in sclsearch("show", "mine", "--rule", "best").stdout
    assert "Unknown rule ''" in sclsearch("show", "mine", "--rule", "").stderr
    assert ", one seed (rule mean)" in sclsearch("show", "mine", "--seeds", "1").stdout


def test_select_as_json_has_every_score(sclsearch: Call, finished: tuple[str, ...]) -> None:
    found = json.loads(sclsearch("show", "mine", "--format", "json").stdout)
    assert (found["study"], found["rule"], found["seeds"]) == ("mine", "mean", 2)
    first, second = found["configurations"]
    assert [seed["validation"] for seed in first["seeds"]] == [0.6, 0.62]
    assert first["fields"]["epochs"] == 10
    assert second["seeds"][1]["failure"] == "non-finite: ce at update 7"


def test_ls_prints_json(sclsearch: Call, finished: tuple[str, ...]) -> None:
    (mine,) = json.loads(sclsearch("ls", "studies", "--json").stdout)["studies"]
    assert (mine["name"], mine["method"], mine["configurations"]) == ("mine", "scl", 2)
    assert mine["stored"] == mine["configurations"] * mine["seeds"]
    methods = json.loads(sclsearch("ls", "methods", "--json").stdout)["methods"]
    assert [one["name"] for one in methods] == [*METHODS]


def test_compare_needs_another_study(sclsearch: Call, finished: tuple[str, ...]) -> None:
    sclsearch("compare", "mine").assert_refused("two or more different studies, got mine")


def test_an_unknown_study_is_an_error_that_suggests_the_nearest(
    sclsearch: Call, finished: tuple[str, ...]
) -> None:
    sclsearch("show", "mien").assert_refused("Did you mean 'mine'? Known: mine.")


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("methods", METHODS),
        ("tasks", TASKS),
        ("protocols", protocol_summaries()),
        ("spaces", [f"{path.parent.name}/{path.stem}" for path in space_files()]),
    ],
)
def test_ls_prints_every_name_with_a_description(
    sclsearch: Call, kind: str, names: Collection[str]
) -> None:
    lines = [line.split() for line in sclsearch("ls", kind).stdout.splitlines()]
    firsts = [words[0] for words in lines if words[0] in names and len(words) > 1]
    assert firsts == list(names)


def test_ls_prints_description_and_hyperparameters_of_a_method(sclsearch: Call) -> None:
    lines = sclsearch("ls", "methods", "scl").stdout.splitlines()
    assert lines[0].startswith("Cross-entropy and supervised contrast in one loss: Eq. (1)")
    tau = lines.index("tau = 0.3  number > 0")
    assert lines[tau + 2].strip() == "Searched: 0.1 | 0.3 | 0.5 | 0.7."
    assert "learning_rate = 2e-05  number > 0, < 1" in sclsearch("ls", "methods", "lacon").stdout
    assert sclsearch("ls", "tasks", "cola").stderr.startswith("ls tasks cola: only methods")


def test_ls_refuses_a_storage_for_kinds_that_are_not_stored(sclsearch: Call) -> None:
    result = sclsearch("ls", "models", "--storage", "mine")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("--storage mine: has no effect on models")


def test_ls_prints_studies_with_square_brackets_as_text(
    sclsearch: Call, workdir: Path, finished: tuple[str, ...]
) -> None:
    words = sclsearch("ls", "studies").stdout.split()
    assert " ".join(words).startswith(
        "mine scl on demo, ./encoder, plain; 2 configurations x 2 seeds, 4 seed runs stored; "
        "1 failed; best accuracy 0.6100 (#0); "
    )
    record = workdir / "sclsearch-storage" / "studies" / "mine" / "study.json"
    stored = json.loads(record.read_text())
    del stored["sha256"]
    stored["identity"]["model"] = "/[old]/encoder"
    record.write_text(json.dumps(sealed(stored)))
    assert "/[old]/encoder" in sclsearch("ls", "studies").stdout


def test_ls_of_a_missing_storage_prints_nothing_and_creates_nothing(
    sclsearch: Call, workdir: Path
) -> None:
    result = sclsearch("ls", "studies")
    assert (result.returncode, result.stdout.strip()) == (0, "")
    assert not (workdir / "sclsearch-storage").exists()


def test_a_dry_run_reports_all_errors_of_a_space(sclsearch: Call, workdir: Path) -> None:
    (workdir / "form.yaml").write_text(INVALID_FORM)
    (workdir / "values.yaml").write_text(INVALID_VALUES)
    errors = {
        "form.yaml": (
            "form.yaml: sorce: unknown key. Did you mean 'source'?",
            "form.yaml: source: is missing",
            "form.yaml: space.epochs: low must be below high, got low=5.0, high=2.0",
        ),
        "values.yaml": (
            "values.yaml: fixed.tua: unknown key. Did you mean 'tau'?",
            "values.yaml: space.lam: must be at most 1, got 7",
        ),
    }
    for file, starts in errors.items():
        result = sclsearch(*SEARCH, "--space", file, "--dry-run")
        assert (result.returncode, result.stdout) == (2, "")
        for start in starts:
            assert any(line.startswith(start) for line in result.stderr.splitlines()), start


@pytest.mark.slow
def test_the_ui_shows_the_stored_studies_that_mlflow_lacked(
    sclsearch: Call,
    workdir: Path,
    port: int,
    finished: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.execve", lambda *_: None)  # the server itself
    for _ in range(2):
        shown = sclsearch("ui", "--port", str(port))
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout.startswith("demo, all examples, ./encoder\n")
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{workdir}/sclsearch-storage/mlflow.db")
    runs = client.search_runs([one.experiment_id for one in client.search_experiments()])
    assert len(runs) == 7
    tests = {
        level: sorted(
            run.data.metrics["test"]
            for run in runs
            if run.data.tags["level"] == level and "test" in run.data.metrics
        )
        for level in ("seed run", "configuration", "study")
    }
    assert tests["seed run"] == [0.6, 0.62, 0.64]
    assert tests["configuration"] == pytest.approx([0.61, 0.64])
    assert tests["study"] == pytest.approx([0.61])
    assert sum(run.info.status == "FAILED" for run in runs) == 1


def test_an_invalid_tracking_address_is_refused(sclsearch: Call, finished: tuple[str, ...]) -> None:
    sclsearch("ui", "--tracking", "mlruns").assert_refused(
        "--tracking: must name a server or a database, got 'mlruns'."
    )
