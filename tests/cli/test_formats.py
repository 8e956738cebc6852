"""Tests of the command `show`."""

import json
import os
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pandas as pd
import pytest

import sclsearch as package
from sclsearch.cli.show import show
from tests.cli.conftest import finish_study
from tests.workspace import Call

CSV = ("show", "mine", "--format", "csv")


def test_a_table_is_printed_as_csv(sclsearch: Call, finished: tuple[str, ...]) -> None:
    result = sclsearch("show", "mine", "--format", "csv", "--rule", "best")
    assert result.returncode == 0
    expected = package.table("mine", rule="best", storage="sclsearch-storage")
    assert result.stdout == expected.to_csv(index=False)


def test_a_table_is_written_to_a_file(
    sclsearch: Call, finished: tuple[str, ...], workdir: Path
) -> None:
    file = workdir / "new" / "runs.parquet"
    result = sclsearch(
        *("show", "mine", "--format", "parquet", "--rows", "seed-runs", "--output", str(file))
    )
    assert (result.returncode, result.stdout) == (0, "")
    assert pd.read_parquet(file).status.tolist() == ["finished", "finished", "finished", "failed"]


def test_links_and_pipes_stay_what_they_are(
    sclsearch: Call, finished: tuple[str, ...], workdir: Path
) -> None:
    expected = sclsearch(*CSV).stdout
    link, target, pipe = (workdir / name for name in ("link.csv", "target.csv", "pipe"))
    link.symlink_to(target)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for output in (link, link, pipe):
        assert sclsearch(*CSV, "--output", str(output)).returncode == 0
    assert os.read(reader, 1 << 16).decode() == expected
    os.close(reader)
    assert link.is_symlink()
    assert target.read_text() == expected
    assert pipe.is_fifo()


def test_a_table_is_printed_in_utf_8_on_any_terminal(
    finished: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", terminal)
    show(["mine"], format_="md")
    assert "± 1.4".encode() in terminal.buffer.getvalue()


def test_parquet_needs_a_file(sclsearch: Call, finished: tuple[str, ...]) -> None:
    result = sclsearch("show", "mine", "--format", "parquet")
    assert result.returncode == 2
    assert result.stderr.startswith("--format parquet: needs a file, got none. Pass --output FILE.")


def test_an_output_that_is_a_folder_is_an_error(
    sclsearch: Call, finished: tuple[str, ...], workdir: Path
) -> None:
    (workdir / "there").mkdir()
    result = sclsearch(*CSV, "--output", "there")
    assert result.returncode == 2
    assert result.stderr.startswith("--output there: must be a file, got a folder.")
    result = sclsearch(*CSV, "--output", "/proc/none/table.csv")
    assert result.returncode == 2
    assert result.stderr.startswith(
        "--output /proc/none/table.csv: cannot be written: No such file"
    )


def test_several_studies_are_shown_one_after_another(
    sclsearch: Call, finished: tuple[str, ...]
) -> None:
    finish_study("ce", "other")
    one, other = (sclsearch("show", name).stdout for name in ("mine", "other"))
    assert sclsearch("show", "mine", "other").stdout == f"{one}\n{other}"


def test_json_has_the_whole_report_or_the_rows(sclsearch: Call, finished: tuple[str, ...]) -> None:
    whole = json.loads(sclsearch("show", "mine", "--format", "json").stdout)
    assert (whole["study"], whole["winner"]) == ("mine", 0)
    rows = json.loads(sclsearch("show", "mine", "--format", "json", "--rows", "seed-runs").stdout)
    assert [row["status"] for row in rows] == ["finished", "finished", "finished", "failed"]


@pytest.mark.parametrize("options", [("--rows", "winners"), ("--output", "a.txt")])
def test_rows_and_a_file_need_a_format(
    sclsearch: Call, finished: tuple[str, ...], options: tuple[str, ...]
) -> None:
    sclsearch("show", "mine", *options).assert_refused("--format terminal: takes no --rows and no")
