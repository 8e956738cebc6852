"""Tests of table files: formats, cells and errors."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tasks.tables import read_table, text_columns

PAIR = ("text", "label")
RECORDS: list[dict[str, object]] = [
    {"text": "one", "label": "x"},
    {"text": "two \u2028 three", "label": "y"},
]
CELLS = [("one", "x"), ("two \u2028 three", "y")]
LINES = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in RECORDS)
CONTENTS = {
    ".csv": 'text,label\none,x\n"two \u2028 three",y\n',
    ".CSV": "\ufefflabel,id,text\r\nx,1,one\r\ny,2,two \u2028 three",
    ".semicolon.csv": "id;text;label\n1,5;one;x\n2,5;two \u2028 three;y\n",
    ".excel.csv": "sep=|\r\nid|text|label\r\n1;1;5|one|x\r\n2;2;5|two \u2028 three|y\r\n",
    ".pipe.csv": "text|label\none|x\ntwo \u2028 three|y\n",
    ".tab.csv": "\ntext\tlabel\none\tx\ntwo \u2028 three\ty\n",
    ".tsv": "text\tlabel\none\tx\ntwo \u2028 three\ty\n",
    ".TSV": "\ufefflabel\tid\ttext\r\nx\t1\tone\r\ny\t2\ttwo \u2028 three",
    ".cells.tsv": 'text\tlabel\n"one"\t"x"\n"two \u2028 three"\t"y"\n',
    ".quoted.tsv": '"text"\t"label"\n"one"\t"x"\n"two \u2028 three"\t"y"\n',
    ".jsonl": LINES,
    ".json": f"\ufeff{LINES}",
    ".array.json": json.dumps(RECORDS, indent=2),
    ".objects.json": "".join(json.dumps(record, indent=2) + "\n" for record in RECORDS),
    ".columns.json": json.dumps({name: [one[name] for one in RECORDS] for name in PAIR}, indent=2),
    ".pandas.json": json.dumps({name: {5: RECORDS[0][name], 3: RECORDS[1][name]} for name in PAIR}),
    ".ndjson": LINES.replace("\n", "\r\n\n"),
}
LONG = "long " * 40_000  # more than the limit of the csv module


def write(folder: Path, name: str, content: str) -> Path:
    file = folder / name
    file.write_bytes(content.encode())
    return file


def cells_of(file: Path, columns: tuple[str, ...] = PAIR) -> list[tuple[str, ...]]:
    rows = text_columns(read_table(file), columns, str(file))
    return list(zip(*(rows[name] for name in columns), strict=True))


@pytest.mark.parametrize("ending", CONTENTS)
def test_every_text_format_gives_the_same_cells(tmp_path: Path, ending: str) -> None:
    file = write(tmp_path, f"rows{ending}", CONTENTS[ending])
    assert cells_of(file) == CELLS
    packed = file.with_name(f"{file.name}.gz")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert cells_of(packed) == CELLS


def test_parquet_and_json_give_the_same_cells_also_of_numbers_and_booleans(tmp_path: Path) -> None:
    record = {"n": 1, "whole": 1.0, "big": 2**60 + 1, "b": True, "c": 0.5, "d": None, "text": "one"}
    records = [record, dict.fromkeys(record)]
    lines = write(tmp_path, "rows.jsonl", "".join(json.dumps(one) + "\n" for one in records))
    parquet, packed = tmp_path / "rows.parquet", tmp_path / "rows.parquet.gz"
    pq.write_table(pa.Table.from_pylist(records), parquet)
    packed.write_bytes(gzip.compress(parquet.read_bytes()))
    first = ("1", "1", "1152921504606846977", "True", "0.5", "", "one")
    for file in (lines, parquet, packed):
        assert cells_of(file, tuple(record)) == [first, ("",) * 7]


def test_parquet_metadata_of_missing_columns_are_ignored_and_damaged_ones_refused(
    tmp_path: Path,
) -> None:
    file = tmp_path / "rows.parquet"
    table = pa.table({"text": ["one"], "label": [0]})
    names = {"_type": "ClassLabel", "names": ["n", "y"]}
    features: Any
    for features in ({"gone": names}, {"label": {}}, None):
        written = json.dumps({"info": {"features": features}})
        pq.write_table(table.replace_schema_metadata({"huggingface": written}), file)
        if features and "gone" in features:
            assert cells_of(file, ("text", "label")) == [("one", "0")]
        else:
            with pytest.raises(SclsearchError, match=f"^{file}: cannot be read: "):
                cells_of(file, ("text", "label"))


TSV = "text\tlabel\n"
WRITTEN = {
    "quotes.csv": (
        'text,label\n"one\ntwo",x\n\n"say ""three""",NA\n,null\n',
        [("one\ntwo", "x"), ('say "three"', "NA"), ("", "null")],
    ),
    "quotes.tsv": (
        TSV + '\n"an open\x85 quote\tx\nb\rc\t\r\n',
        [('"an open\x85 quote', "x"), ("b\rc", "")],
    ),
    "needed quotes.tsv": (
        TSV + '"say ""hi"""\tx\n"a\tb"\ty\n"c\nd"\tz\nplain\tx\n',
        [('say "hi"', "x"), ("a\tb", "y"), ("c\nd", "z"), ("plain", "x")],
    ),
    "a sentence.tsv": (TSV + '"I" am.\tx\nno\ty\n', [('"I" am.', "x"), ("no", "y")]),
    "a quotation in two rows.tsv": (
        TSV + '"I am here.\tx\nI leave."\ty\n',
        [('"I am here.', "x"), ('I leave."', "y")],
    ),
    "blanks.tsv": ("\nlabel\ttext\n01\t 1.0 \n", [(" 1.0 ", "01")]),
    "a short row.csv": ("text,label\none\n\ntwo,x\n", [("one", ""), ("two", "x")]),
    "a long cell.csv": (f'text,label\n"{LONG}",x\n', [(LONG, "x")]),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_cells_are_the_characters_of_the_file(tmp_path: Path, name: str) -> None:
    content, rows = WRITTEN[name]
    assert cells_of(write(tmp_path, name, content)) == rows


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", "text,label\none,two,x\n", "row 1: must have 2 cells, got 3"),
        ("rows.csv", "text,label,text\none,x,eno\n", "two columns are called 'text'. Rename one."),
        ("rows.csv", " \n", "cannot be read: it is empty."),
        ("rows.csv", 'text,label\n"say \\"hi\\"",x\n', "line 2: a cell that begins with a quote"),
        ("rows.tsv", '"text"\t"label"\n"a" b\tx\n', "line 2: a cell that begins with a quote"),
        ("rows.jsonl", '["one", 1]\n["two", 2]\n', "row 1: must be a JSON object, got ['one', 1]"),
        ("rows.json", '{"text": ["one"], "label": [1, 2]}', "must be of the same length"),
        ("rows.jsonl", '{"text": ["one"], "label": ["x"]}', "row 1: must be text or a number"),
        (
            "rows.json",
            json.dumps({"train": RECORDS}),
            "rows must be an array of objects, got",
        ),
    ],
)
def test_an_unreadable_file_or_row_is_named(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    file = write(tmp_path, name, content)
    with pytest.raises(SclsearchError, match=f"^{re.escape(str(file))}: ") as raised:
        cells_of(file)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("start", "advice"),
    [(gzip.compress(b"text"), "add .gz"), (b"PK\x03\x04\xff", "Excel"), (b"\xff", "UTF-8")],
    ids=["gzip", "workbook", "other"],
)
def test_a_file_of_another_format_has_advice_for_it(
    tmp_path: Path, start: bytes, advice: str
) -> None:
    (tmp_path / "rows.csv").write_bytes(start)
    with pytest.raises(SclsearchError, match=rf"rows\.csv: cannot be read: .*{advice}"):
        read_table(tmp_path / "rows.csv")
