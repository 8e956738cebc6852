"""Commands that train nothing read the store, the tables and the space files."""

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from sclsearch.methods import METHODS
from sclsearch.protocols import protocol_summaries
from sclsearch.spaces.load import space_files
from sclsearch.tasks import TASKS
from tests.cli.conftest import Call

FAULTY = """
method: scl
sorce: mine
published: []
fixed: {tua: 1}
space:
  lam: {type: choice, values: [0.5, 7]}
  epochs: {type: int, low: 5, high: 2}
"""


def test_select_ranks_the_stored_seed_runs_under_any_rule_and_for_fewer_seeds(
    sclsearch: Call, finished: tuple[str, ...]
) -> None:
    done = sclsearch("select", "mine")
    assert done.returncode == 0
    assert "Winner #0 tau=0.3 lam=0.9" in done.stdout
    assert "(rule mean)" in done.stdout
    assert "Winner #1" in sclsearch("select", "mine", "--rule", "best").stdout
    assert "Unknown rule ''" in sclsearch("select", "mine", "--rule", "").stderr
    assert ", one seed (rule mean)" in sclsearch("select", "mine", "--seeds", "1").stdout


def test_select_as_json_holds_every_figure(sclsearch: Call, finished: tuple[str, ...]) -> None:
    found = json.loads(sclsearch("select", "mine", "--json").stdout)
    assert (found["study"], found["rule"], found["seeds"]) == ("mine", "mean", 2)
    first, second = found["configurations"]
    assert [seed["validation"] for seed in first["seeds"]] == [0.6, 0.62]
    assert first["fields"]["epochs"] == 10
    assert second["seeds"][1]["failure"] == "non-finite: ce at update 7"


def test_what_there_is_can_be_read_by_programs(sclsearch: Call, finished: tuple[str, ...]) -> None:
    (mine,) = json.loads(sclsearch("ls", "studies", "--json").stdout)["studies"]
    assert (mine["name"], mine["method"], mine["configurations"]) == ("mine", "scl", 2)
    assert mine["stored"] == mine["configurations"] * mine["seeds"]
    methods = json.loads(sclsearch("ls", "methods", "--json").stdout)["methods"]
    assert [one["name"] for one in methods] == [*METHODS]


def test_compare_asks_for_another_study(sclsearch: Call, finished: tuple[str, ...]) -> None:
    done = sclsearch("compare", "mine")
    assert done.returncode == 2
    assert "two or more different studies, got mine" in done.stderr


def test_an_unknown_study_is_answered_with_the_nearest(
    sclsearch: Call, finished: tuple[str, ...]
) -> None:
    for command in ("select", "track"):
        done = sclsearch(command, "mien")
        assert done.returncode == 2
        assert "Did you mean 'mine'? Known: mine." in done.stderr


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("methods", METHODS),
        ("tasks", TASKS),
        ("protocols", protocol_summaries()),
        ("spaces", [f"{path.parent.name}/{path.stem}" for path in space_files()]),
    ],
)
def test_every_name_is_listed_with_what_it_is(
    sclsearch: Call, kind: str, names: Collection[str]
) -> None:
    lines = [line.split() for line in sclsearch("ls", kind).stdout.splitlines()]
    firsts = [words[0] for words in lines if words[0] in names and len(words) > 1]
    assert firsts == list(names)


def test_a_method_has_equations_and_described_hyperparameters(sclsearch: Call) -> None:
    lines = sclsearch("ls", "methods", "scl").stdout.splitlines()
    assert lines[0] == "L = (1 - λ) CE + λ SCL  Eq. (1)"
    assert "    λ: `lam`." in map(str.rstrip, lines)
    tau = lines.index("tau (τ) = 0.3  number > 0")
    assert lines[tau + 2].strip() == "Searched: 0.1 | 0.3 | 0.5 | 0.7."
    assert "learning_rate = 2e-05  number > 0, < 1" in sclsearch("ls", "methods", "lacon").stdout
    assert sclsearch("ls", "tasks", "cola").stderr.startswith("ls tasks cola: only methods")


def test_a_storage_is_refused_where_what_is_listed_is_in_none(sclsearch: Call) -> None:
    done = sclsearch("ls", "models", "--storage", "mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("--storage mine: has no effect on models")


def test_studies_are_listed_and_their_square_brackets_are_text(
    sclsearch: Call, place: Path, finished: tuple[str, ...]
) -> None:
    words = sclsearch("ls", "studies").stdout.split()
    assert " ".join(words).startswith(
        "mine scl on demo, ./encoder, plain; 2 configurations x 2 seeds, 4 of 4 seed runs stored; "
        "1 failed; best accuracy 0.6100 (#0); "
    )
    record = place / "sclsearch-storage" / "studies" / "mine" / "study.json"
    stored = json.loads(record.read_text())
    stored["identity"]["model"] = "/[old]/encoder"
    assert stored.pop("sha256")
    record.write_text(json.dumps(stored))
    assert "/[old]/encoder" in sclsearch("ls", "studies").stdout


def test_an_empty_storage_has_no_studies_and_is_not_made(sclsearch: Call, place: Path) -> None:
    done = sclsearch("ls", "studies")
    assert (done.returncode, done.stdout.strip()) == (0, "")
    assert not (place / "sclsearch-storage").exists()


def test_every_shipped_space_is_in_order_and_they_are_not_of_one_method(sclsearch: Call) -> None:
    done = sclsearch("check", "--all")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{len(space_files())} files are in order.\n"
    done = sclsearch("check", "--all", "--method", "scl")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("--method scl: cannot be combined with --all")


def test_all_faults_of_all_files_are_named_at_once(sclsearch: Call, place: Path) -> None:
    (place / "faulty.yaml").write_text(FAULTY)
    (place / "empty.yaml").touch()
    done = sclsearch("check", "faulty.yaml", "empty.yaml", "missing.yaml")
    assert done.returncode == 2
    assert done.stdout == ""
    for start in (
        "faulty.yaml: sorce: unknown key. Did you mean 'source'?",
        "faulty.yaml: source: is missing",
        "faulty.yaml: fixed.tua: unknown key. Did you mean 'tau'?",
        "faulty.yaml: space.lam: input should be less than or equal to 1, got 7",
        "faulty.yaml: space.epochs: low must be below high, got low=5, high=2",
        "empty.yaml: ",
        "missing.yaml: cannot be read: No such file or directory.",
    ):
        assert any(line.startswith(start) for line in done.stderr.splitlines()), start


def test_a_space_of_a_method_of_ones_own_is_checked_against_it(
    sclsearch: Call, place: Path, custom_method: str
) -> None:
    (place / "mine.py").write_text(custom_method, encoding="utf-8")
    text = "method: Smoothed\nsource: mine\npublished: []\nspace:\n  smoothing: {type: float, "
    (place / "mine.yaml").write_text(f"{text}low: 0, high: 0.5}}\n")
    (place / "wide.yaml").write_text(f"{text}low: 0, high: 2}}\n")
    own = ("--method", "./mine.py:Smoothed")
    assert sclsearch("check", "mine.yaml", *own).stdout == "1 file is in order.\n"
    assert "wide.yaml: space.smoothing: " in sclsearch("check", "wide.yaml", *own).stderr
    assert "Unknown method 'Smoothed'" in sclsearch("check", "mine.yaml").stderr


@pytest.mark.slow
def test_track_shows_a_study_in_mlflow_and_again_has_nothing_to_add(
    sclsearch: Call, place: Path, finished: tuple[str, ...]
) -> None:
    first = sclsearch("track", "mine")
    assert first.stdout == "MLflow shows all of mine; 7 runs were missing.\n"
    assert sclsearch("track", "mine").stdout == "MLflow shows all of mine; 0 runs were missing.\n"
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{place}/sclsearch-storage/mlflow.db")
    runs = client.search_runs([one.experiment_id for one in client.search_experiments()])
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


@pytest.mark.parametrize("command", [("track", "mine"), ("ui",)], ids=" ".join)
def test_tracking_where_mlflow_cannot_be_is_refused(
    sclsearch: Call, finished: tuple[str, ...], command: tuple[str, ...]
) -> None:
    done = sclsearch(*command, "--tracking", "mlruns")
    assert done.returncode == 2
    assert "--tracking: must name a server or a database, got 'mlruns'." in done.stderr
