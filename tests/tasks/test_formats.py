"""A user's own files give the same rows in every format, and name each fault by its place."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sclsearch.tasks.formats import load_csv, load_json_lines, load_parquet, load_table

from sclsearch.errors import SclsearchError
from sclsearch.tasks.tables import Row, check_faults

RECORDS: list[dict[str, object]] = [
    {"text": "one", "label": "x"},
    {"text": "two \u2028 three", "label": "y"},
]
CELLS = [("one", "x"), ("two \u2028 three", "y")]
LINES = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in RECORDS)
CONTENTS = {
    ".csv": 'text,label\none,x\n"two \u2028 three",y\n',
    ".CSV": "label,text\nx,one\ny,two \u2028 three\n",
    ".tsv": "text\tlabel\none\tx\ntwo \u2028 three\ty\n",
    ".jsonl": LINES,
    ".json": LINES,
    ".ndjson": LINES.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("ending", CONTENTS)
def test_every_text_format_gives_the_same_cells(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"rows{ending}"
    file.write_bytes(CONTENTS[ending].encode())
    table = load_table(file, ("text", "label"))
    assert [row.cells for row in table.rows] == CELLS
    assert table.faults == []


def test_parquet_gives_the_same_cells_and_counts_rows(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist([*RECORDS, {"text": None, "label": "x"}]), file)
    table = load_table(file, ("text", "label"))
    assert [row.cells for row in table.rows] == [*CELLS, ("", "x")]
    assert (table.unit, [row.place for row in table.rows]) == ("row", [1, 2, 3])


def test_numbers_and_truth_values_become_text(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"a": 1, "b": true, "c": 0.5, "d": null}\n')
    assert load_json_lines(file, ("a", "b", "c", "d")).rows == [Row(1, ("1", "true", "0.5", ""))]


def test_a_csv_row_stands_at_the_line_where_it_starts(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('text,label\n"one\ntwo",x\n\n"say ""three""",y\nfour\n')
    table = load_csv(file, ("text", "label"))
    assert table.rows == [Row(2, ("one\ntwo", "x")), Row(5, ('say "three"', "y"))]
    assert table.faults == [(6, "2 columns must be there, but there are 1")]


def test_a_csv_without_a_header_starts_at_its_first_row(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('"1","a title","one"\n\n"2","","two"\n')
    table = load_csv(file, ("text", "label"), ("label", "title", "text"))
    assert table.rows == [Row(1, ("one", "1")), Row(3, ("two", "2"))]
    assert table.faults == []


def test_a_text_of_a_csv_may_be_long(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    text = "long " * 40_000
    file.write_text(f'text,label\n"{text}",x\n')
    assert load_csv(file, ("text", "label")).rows == [Row(2, (text, "x"))]


def test_a_csv_that_is_not_utf_8_is_named_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(b"text,label\n" + b"one,x\n" * 10_000 + b"caf\xe9,x\n")
    with pytest.raises(SclsearchError, match=r"rows\.csv: line 10002: the file must be UTF-8"):
        load_csv(file, ("text",))


def test_a_csv_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SclsearchError, match=r"rows\.csv: a readable file must be there"):
        load_csv(tmp_path / "rows.csv", ("text",))


@given(
    st.lists(
        st.tuples(
            *[st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))] * 2
        ),
        max_size=5,
    )
)
def test_whatever_the_csv_writer_quotes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]]
) -> None:
    file = tmp_path_factory.mktemp("csv") / "rows.csv"
    with file.open("w", encoding="utf-8", newline="") as opened:
        csv.writer(opened, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *cells])
    assert [row.cells for row in load_csv(file, ("text", "label")).rows] == cells


FAULTS: dict[str, tuple[str, str, str]] = {
    "an open quote": (
        ".csv",
        'text,label\none,x\n"two,y\nthree,y\n',
        "line 3: the row must be CSV",
    ),
    "too many columns": (".csv", "text,label\none,two,x\n", "line 2: 2 columns must be"),
    "not JSON": (
        ".jsonl",
        '{"text": "one", "label": 1}\n{"text": \n',
        "line 2: the line must be J",
    ),
    "a number without end": (
        ".jsonl",
        f'{{"text": "one", "label": {"1" * 5000}}}',
        "line 1: the line must be JSON",
    ),
    "a JSON list": (".json", '[{"text": "one", "label": 1}]', "line 1: .* but it is a list"),
    "a missing key": (".jsonl", '{"text": "one", "lable": 1}', "line 1: 'label' must be .*'lable'"),
    "a list as a text": (".jsonl", '{"text": ["one"], "label": 1}', "'text' must be text or a num"),
    "half a character": (
        ".jsonl",
        r'{"text": "fine \ud83d", "label": 1}',
        r"line 1: 'text' must hold whole characters, but character 6 is '\\ud83d', half of",
    ),
    "half a character as a label": (
        ".jsonl",
        r'{"text": "fine", "label": "\ud83d"}',
        "line 1: 'label' must hold whole characters",
    ),
    "a long list": (".jsonl", json.dumps({"text": ["a"] * 999, "label": 1}), r"'a', \.\.\.\]$"),
    "not a number": (".jsonl", '{"text": "one", "label": NaN}', "'label' must be text or a number"),
}


@pytest.mark.parametrize(("ending", "content", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_told_with_its_line(
    tmp_path: Path, ending: str, content: str, message: str
) -> None:
    file = tmp_path / f"rows{ending}"
    file.write_text(content)
    with pytest.raises(SclsearchError, match=message):
        check_faults(load_table(file, ("text", "label")))


def write_csv(file: Path) -> None:
    file.write_text("text,label\none,x\n")


def write_parquet(file: Path) -> None:
    pq.write_table(pa.table({"text": ["one"], "label": ["x"]}), file)


@pytest.mark.parametrize(
    ("name", "write"), [("rows.csv", write_csv), ("rows.parquet", write_parquet)]
)
def test_a_missing_column_brings_the_nearest_name(
    tmp_path: Path, name: str, write: Callable[[Path], None]
) -> None:
    write(tmp_path / name)
    with pytest.raises(SclsearchError, match=r"no column is called 'txt'. Did you mean 'text'"):
        load_table(tmp_path / name, ("txt", "label"))


def test_what_is_not_parquet_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    file.write_text("text,label\n")
    with pytest.raises(SclsearchError, match="the file must be Parquet"):
        load_parquet(file, ("text",))


def test_an_unknown_ending_brings_the_known_ones(tmp_path: Path) -> None:
    for name, ending in (("rows.xlsx", r"\.xlsx"), ("rows", "nothing")):
        with pytest.raises(
            SclsearchError, match=rf"one of \.csv, \.tsv.*but it ends in {ending}\."
        ):
            load_table(tmp_path / name, ("text",))


def test_a_column_that_is_there_twice_is_not_suggested_for_itself(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("text,text,label\na,b,x\n")
    with pytest.raises(SclsearchError, match=r"two columns are called 'text'\. Rename one\.$"):
        load_table(file, ("text", "label"))


def test_semicolons_between_cells_are_told(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("text;label\na;x\nb;y\n")
    with pytest.raises(SclsearchError) as raised:
        load_table(file, ("text", "label"))
    assert str(raised.value) == (
        f"{file}: cells must be separated by a comma, or by a tab in TSV, but they seem to be "
        "by ';': the first line is 'text;label'. Save it with commas."
    )
