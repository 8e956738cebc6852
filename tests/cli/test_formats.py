"""Tests of the command `table`."""

import os
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pandas as pd
import pytest

import sclsearch as package
from sclsearch.cli.formats import table
from tests.workspace import Call


def test_a_table_is_printed_as_csv(sclsearch: Call, finished: tuple[str, ...]) -> None:
    result = sclsearch("table", "mine", "--rule", "best")
    assert result.returncode == 0
    expected = package.table("mine", rule="best", storage="sclsearch-storage")
    assert result.stdout == expected.to_csv(index=False)


def test_a_table_is_written_to_a_file(
    sclsearch: Call, finished: tuple[str, ...], workdir: Path
) -> None:
    file = workdir / "new" / "runs.parquet"
    result = sclsearch(
        *("table", "mine", "--format", "parquet", "--rows", "seed-runs", "--output", str(file))
    )
    assert (result.returncode, result.stdout) == (0, "")
    assert pd.read_parquet(file).status.tolist() == ["finished", "finished", "finished", "failed"]


def test_links_and_pipes_stay_what_they_are(
    sclsearch: Call, finished: tuple[str, ...], workdir: Path
) -> None:
    expected = sclsearch("table", "mine").stdout
    link, target, pipe = (workdir / name for name in ("link.csv", "target.csv", "pipe"))
    link.symlink_to(target)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for output in (link, link, pipe):
        assert sclsearch("table", "mine", "--output", str(output)).returncode == 0
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
    table(["mine"], form="md")
    assert "± 1.4".encode() in terminal.buffer.getvalue()


def test_parquet_needs_a_file(sclsearch: Call, finished: tuple[str, ...]) -> None:
    result = sclsearch("table", "mine", "--format", "parquet")
    assert result.returncode == 2
    assert result.stderr.startswith("--format parquet: needs a file, got none. Pass --output FILE.")


def test_an_output_that_is_a_folder_is_an_error(
    sclsearch: Call, finished: tuple[str, ...], workdir: Path
) -> None:
    (workdir / "there").mkdir()
    result = sclsearch("table", "mine", "--output", "there")
    assert result.returncode == 2
    assert result.stderr.startswith("--output there: must be a file, got a folder.")
    result = sclsearch("table", "mine", "--output", "/proc/none/table.csv")
    assert result.returncode == 2
    assert result.stderr.startswith(
        "--output /proc/none/table.csv: cannot be written: No such file"
    )
