"""Tests of commands that train nothing: `show`, `compare` and `ls`."""

import json
import os
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pandas as pd
import pytest

import sclsearch as package
from sclsearch.cli.show import show
from sclsearch.methods import METHODS
from sclsearch.protocols import protocol_summaries
from sclsearch.spaces.load import space_files
from sclsearch.tasks import TASKS
from tests.cli.conftest import finish_study
from tests.conftest import Call

CSV = ("show", "mine", "--format", "csv")
STATUS = ["finished", "finished", "finished", "failed"]

pytestmark = pytest.mark.usefixtures("finished")


def test_show_ranks_studies_by_any_rule_and_with_fewer_seeds(sclsearch: Call) -> None:
    shown = sclsearch("show", "mine").stdout
    assert "#0 is the best of 2 configurations of scl on demo" in shown
    assert "(rule mean)" in shown
    assert "#1 is the best" in sclsearch("show", "mine", "--rule", "best").stdout
    assert "accuracy: one seed (rule mean)" in sclsearch("show", "mine", "--seeds", "1").stdout
    finish_study("ce", "other")
    other = sclsearch("show", "other").stdout
    assert sclsearch("show", "mine", "other").stdout == f"{shown}\n{other}"


def test_json_has_the_whole_report_or_the_rows(sclsearch: Call) -> None:
    found = json.loads(sclsearch("show", "mine", "--format", "json").stdout)
    assert (found["study"], found["rule"], found["seeds"]) == ("mine", "mean", 2)
    first, second = found["configurations"]
    assert found["winner"] == first["number"] == 0
    assert [seed["validation"] for seed in first["seeds"]] == [0.6, 0.62]
    assert second["seeds"][1]["failure"] == "raised: a test"
    rows = json.loads(sclsearch("show", "mine", "--format", "json", "--rows", "seed-runs").stdout)
    assert [row["status"] for row in rows] == STATUS


def test_a_table_is_printed_or_written_to_a_file_a_link_or_a_pipe(
    sclsearch: Call, workdir: Path
) -> None:
    expected = package.table("mine", rule="best", storage="sclsearch-storage").to_csv(index=False)
    assert sclsearch(*CSV, "--rule", "best").stdout == expected
    file = workdir / "new/runs.parquet"
    sclsearch("show", "mine", "--format", "parquet", "--rows", "seed-runs", "--output", str(file))
    assert pd.read_parquet(file).status.tolist() == STATUS
    link, target, pipe = (workdir / name for name in ("link.csv", "target.csv", "pipe"))
    link.symlink_to(target)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for output in (link, link, pipe):
        assert sclsearch(*CSV, "--rule", "best", "--output", str(output)).returncode == 0
    assert os.read(reader, 1 << 16).decode() == expected
    os.close(reader)
    assert (link.is_symlink(), target.read_text(), pipe.is_fifo()) == (True, expected, True)


def test_a_table_is_printed_in_utf_8_on_any_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", terminal)
    show(["mine"], format_="md")
    assert "± 1.4".encode() in terminal.buffer.getvalue()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("show mien", "Did you mean 'mine'? Known: mine."),
        ("show mine --format parquet", "--format parquet: needs a file, got none."),
        ("show mine --format foo", "Invalid value for '--format': 'foo' is not one of"),
        ("show mine --output a.txt", "--format terminal: takes no --rows and no --output."),
        ("show mine --format csv --output encoder", "--output encoder: must be a file"),
        ("show mine --format csv --output /proc/no/a.csv", "/proc/no/a.csv: cannot be written"),
        ("compare mine --output a.tex", "--format terminal: takes no --output."),
        ("compare mine --format csv --json", "--format csv: cannot be combined with --json."),
        ("compare mine", "two or more different studies, got mine"),
        ("ui --tracking mlruns", "--tracking: must name a server or a database, got 'mlruns'."),
        ("ls tasks cola", "ls tasks cola: only methods"),
        ("ls models --storage mine", "--storage mine: has no effect on models"),
    ],
)
def test_an_invalid_argument_is_refused(sclsearch: Call, arguments: str, message: str) -> None:
    result = sclsearch(*arguments.split())
    result.assert_refused(message)
    assert result.stdout == ""


def test_ls_prints_every_name_with_a_description(sclsearch: Call) -> None:
    spaces = [f"{path.parent.name}/{path.stem}" for path in space_files()]
    known = {"methods": METHODS, "tasks": TASKS, "protocols": protocol_summaries()}
    for kind, names in {**known, "spaces": spaces}.items():
        lines = dict(line.split("\t") for line in sclsearch("ls", kind).stdout.splitlines())
        assert [*lines] == [*names]
        assert all(lines.values())
    entries = json.loads(sclsearch("ls", "spaces", "--json").stdout)["spaces"]
    assert [one["name"] for one in entries] == spaces


def test_ls_prints_hyperparameters_of_a_method_and_scores_of_studies(sclsearch: Call) -> None:
    lines = sclsearch("ls", "methods", "scl").stdout.splitlines()
    tau = lines.index("tau = 0.3  number > 0")
    assert lines[tau + 2].strip() == "Searched: 0.05 … 1 log."
    (mine,) = json.loads(sclsearch("ls", "studies", "--json").stdout)["studies"]
    assert [mine[name] for name in ("name", "configurations", "stored")] == ["mine", 2, 4]
    assert "1 failed; winner: accuracy 0.6100 (#0); " in sclsearch("ls", "studies").stdout
