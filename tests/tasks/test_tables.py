"""Tests of table files: formats, cells and errors."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.tasks.tables import Row, check_faults, load_table

RECORDS: list[dict[str, object]] = [
    {"text": "one", "label": "x"},
    {"text": "two \u2028 three", "label": "y"},
]
CELLS = [("one", "x"), ("two \u2028 three", "y")]
LINES = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in RECORDS)
CONTENTS = {
    ".csv": 'text,label\none,x\n"two \u2028 three",y\n',
    ".CSV": "\ufefflabel,id,text\r\nx,1,one\r\ny,2,two \u2028 three",
    ".tsv": "text\tlabel\none\tx\ntwo \u2028 three\ty\n",
    ".TSV": "\ufefflabel\tid\ttext\r\nx\t1\tone\r\ny\t2\ttwo \u2028 three",
    ".jsonl": LINES,
    ".json": f"\ufeff{LINES}",
    ".ndjson": LINES.replace("\n", "\r\n\n"),
}
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
PAIR = ("text", "label")


def write(folder: Path, name: str, content: str) -> Path:
    file = folder / name
    file.write_bytes(content.encode())
    return file


@pytest.mark.parametrize("ending", CONTENTS)
def test_every_text_format_gives_the_same_cells(tmp_path: Path, ending: str) -> None:
    table = load_table(write(tmp_path, f"rows{ending}", CONTENTS[ending]), PAIR)
    assert [row.cells for row in table.rows] == CELLS
    assert table.faults == []


def test_parquet_gives_the_same_cells_and_row_numbers(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist([*RECORDS, {"text": None, "label": "x"}]), file)
    table = load_table(file, PAIR)
    assert [row.cells for row in table.rows] == [*CELLS, ("", "x")]
    assert (table.unit, [row.place for row in table.rows]) == ("row", [1, 2, 3])


def test_numbers_and_booleans_are_written_as_in_json(tmp_path: Path) -> None:
    file = write(tmp_path, "rows.jsonl", '{"a": 1, "b": true, "c": 0.5, "d": null}\n')
    (row,) = load_table(file, ("a", "b", "c", "d")).rows
    assert row == Row(1, ("1", "true", "0.5", ""), (1, True, 0.5, None))


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        (
            "rows.csv",
            'text,label\n"one\ntwo",x\n\n"say ""three""",NA\n,null\n',
            [Row(2, ("one\ntwo", "x")), Row(5, ('say "three"', "NA")), Row(6, ("", "null"))],
        ),
        (
            "rows.tsv",
            'text\tlabel\n\n"an open\x85 quote\tx\nb\rc\t\r\n',
            [Row(3, ('"an open\x85 quote', "x")), Row(4, ("b\rc", ""))],
        ),
        ("rows.tsv", "\nlabel\ttext\n01\t 1.0 \n", [Row(3, (" 1.0 ", "01"))]),
    ],
    ids=["quotes in CSV", "quotes in TSV", "blanks"],
)
def test_cells_are_the_characters_of_the_file(
    tmp_path: Path, name: str, content: str, rows: list[Row]
) -> None:
    table = load_table(write(tmp_path, name, content), PAIR)
    assert table.rows == rows
    assert table.faults == []


@pytest.mark.parametrize("separator", [",", "\t"], ids=repr)
def test_a_file_without_a_header_starts_at_its_first_row(tmp_path: Path, separator: str) -> None:
    content = "1,a title,one\n\n2,,two\n".replace(",", separator)
    file = write(tmp_path, "rows.csv" if separator == "," else "rows.tsv", content)
    table = load_table(file, PAIR, ("label", "title", "text"))
    assert table.rows == [Row(1, ("one", "1")), Row(3, ("two", "2"))]


def test_a_blank_line_in_a_single_column_file_is_skipped(tmp_path: Path) -> None:
    for name in ("rows.csv", "rows.tsv"):
        table = load_table(write(tmp_path, name, "text\none\n\ntwo\n"), ("text",))
        assert [row.cells for row in table.rows] == [("one",), ("two",)]


def test_a_csv_cell_may_exceed_the_limit_of_the_csv_module(tmp_path: Path) -> None:
    text = "long " * 40_000
    file = write(tmp_path, "rows.csv", f'text,label\n"{text}",x\n')
    assert load_table(file, PAIR).rows == [Row(2, (text, "x"))]


@given(st.lists(st.tuples(TEXT, TEXT), max_size=5))
def test_csv_cells_survive_writing_and_reading(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]]
) -> None:
    file = tmp_path_factory.mktemp("csv") / "rows.csv"
    with file.open("w", encoding="utf-8", newline="") as opened:
        csv.writer(opened, quoting=csv.QUOTE_ALL).writerows([PAIR, *cells])
    assert [row.cells for row in load_table(file, PAIR).rows] == cells


FAULTS = {
    "open quote": ("csv", 'text,label\none,x\n"two,y\nthree,y\n', "line 3", "invalid CSV"),
    "wide row": ("csv", "text,label\none,two,x\n", "line 2", "must have 2 columns, got 3"),
    "short line": ("tsv", "text\tlabel\none\n", "line 2", "must have 2 columns, got 1"),
    "half a line": ("jsonl", '{"text": "one", "label": 1}\n{"text": \n', "line 2", "column 10"),
    "huge number": ("jsonl", f'{{"text": "one", "label": {"1" * 5000}}}', "line 1", "invalid JSON"),
    "repeated key": ("jsonl", '{"text": "one", "text": "two"}', "line 1", "'text' is there twice"),
    "list": ("json", '[{"text": "one", "label": 1}]', "line 1", "got a list"),
    "missing key": (
        "jsonl",
        '{"text": "one", "lable": 1}\n{"text": "two", "label": 1}',
        "line 1",
        "'lable'?",
    ),
    "list as a text": ("jsonl", '{"text": ["one"], "label": 1}', "line 1", "got ['one']"),
    "long list": ("jsonl", json.dumps({"text": ["a"] * 999, "label": 1}), "line 1", "'a', ...]"),
    "NaN": ("jsonl", '{"text": "one", "label": NaN}', "line 1", "'label' must be"),
    "half a surrogate pair": (
        "jsonl",
        r'{"text": "fine \ud83d", "label": 1}',
        "line 1",
        r"'text' is invalid: character 6 is '\ud83d'",
    ),
}


@pytest.mark.parametrize(("ending", "content", "place", "detail"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_reported_with_its_line(
    tmp_path: Path, ending: str, content: str, place: str, detail: str
) -> None:
    file = write(tmp_path, f"rows.{ending}", content)
    with pytest.raises(SclsearchError) as raised:
        check_faults(load_table(file, PAIR))
    assert str(raised.value).startswith(f"{file}: {place}: ")
    assert detail in str(raised.value)


def test_five_faults_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    content = "text\tlabel\n" + "one\n" * 3 + "one\tx\n" + "one\tx\ty\n" * 4
    file = write(tmp_path, "rows.tsv", content)
    with pytest.raises(SclsearchError) as raised:
        check_faults(load_table(file, ("text",)))
    lines = str(raised.value).splitlines()
    assert [line.split(":")[1] for line in lines[:-1]] == [f" line {n}" for n in (2, 3, 4, 6, 7)]
    assert lines[-1] == f"{file}: 7 faults in all, the first 5 shown."


def test_every_missing_or_repeated_column_is_named(tmp_path: Path) -> None:
    content = "text,text,label\na,b,x\n"
    files: list[Path] = [write(tmp_path, "rows.csv", content)]
    files.append(write(tmp_path, "rows.tsv", content.replace(",", "\t")))
    names: Any = ["text", "text", "label"]
    files.append(tmp_path / "rows.parquet")
    pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * 3, names=names), files[-1])
    for file in files:
        with pytest.raises(SclsearchError) as raised:
            load_table(file, ("text", "lable"))
        assert str(raised.value).splitlines() == [
            f"{file}: two columns are called 'text'. Rename one.",
            f"{file}: no column is called 'lable'. Did you mean 'label'? Known: label, text.",
        ]


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("rows.csv", b"text,label\n" + b"one,x\n" * 10_000 + b"caf\xe9,x\n", "line 10002: byte 60"),
        ("rows.tsv", b"text\tlabel\ncaf\xe9\tx\n", "line 2: byte 14"),
        ("rows.jsonl", b'{"text": "caf\xe9"}', "line 1: byte 13"),
        ("rows.parquet", b"text,label\n", "invalid Parquet"),
        ("rows.csv", b"text;label\na;x\n", "cells must be separated by a comma"),
        ("rows.csv", b'"text,label"\n"a,x"\n', "no column is called 'text'."),
        (
            "rows.tsv",
            b"text,label\na,x\n",
            "cells must be separated by a comma, or by a tab in TSV, got ','",
        ),
        ("rows.xlsx", b"", "the file extension must be one of .csv, .tsv"),
        ("rows", b"", "the file extension must be one of .csv, .tsv"),
        *(
            (f"none.{ending}", None, "cannot be read")
            for ending in ("csv", "tsv", "parquet", "cvs")
        ),
    ],
)
def test_an_unreadable_file_is_named(
    tmp_path: Path, name: str, content: bytes | None, place: str
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SclsearchError) as raised:
        load_table(file, PAIR)
    assert str(raised.value).startswith(f"{file}: {place}")


def test_a_key_that_no_object_has_is_one_error(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "one", "lable": 1}\n' * 9, encoding="utf-8")
    with pytest.raises(SclsearchError, match=r"^\S+: no column is called 'label'\. Did you mean"):
        load_table(file, ("text", "label"))
