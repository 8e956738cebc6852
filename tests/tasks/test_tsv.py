"""The TSV reader takes quotes as text and names what it cannot read by file and line."""

from pathlib import Path

import pytest
from sclsearch.tasks.tsv import load_tsv

from sclsearch.errors import SclsearchError
from sclsearch.tasks.tables import Row, check_faults


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows.tsv"


def test_columns_are_found_by_name_in_any_order(file: Path) -> None:
    file.write_text("id\tlabel\ttext\n7\tx\tone\n8\ty\ttwo\n")
    assert load_tsv(file, ("text", "label")).rows == [Row(2, ("one", "x")), Row(3, ("two", "y"))]


def test_a_file_without_a_header_starts_at_its_first_line(file: Path) -> None:
    file.write_text("one\tx\n")
    assert load_tsv(file, ("label", "text"), ("text", "label")).rows == [Row(1, ("x", "one"))]


def test_quotes_are_text(file: Path) -> None:
    file.write_text('text\tlabel\n"an open quote\tx\nanother" one\ty\n')
    assert [row.cells[0] for row in load_tsv(file, ("text",)).rows] == [
        '"an open quote',
        'another" one',
    ]


def test_a_byte_order_mark_and_carriage_returns_are_no_part_of_cells(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbftext\tlabel\r\none\tx\r\n")
    assert load_tsv(file, ("text", "label")).rows == [Row(2, ("one", "x"))]


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0b", "\x1c"], ids=ascii)
def test_only_line_feeds_end_a_line(file: Path, mark: str) -> None:
    file.write_text(f"text\tlabel\none{mark}two\tx\n", encoding="utf-8")
    assert load_tsv(file, ("text", "label")).rows == [Row(2, (f"one{mark}two", "x"))]


def test_the_last_line_needs_no_line_end_and_blank_lines_hold_no_row(file: Path) -> None:
    file.write_text("text\tlabel\n\none\tx\n\ntwo\ty")
    table = load_tsv(file, ("text",))
    assert [row.place for row in table.rows] == [3, 5]
    assert table.faults == []


def test_a_blank_line_holds_no_row_of_a_single_column_either(file: Path) -> None:
    file.write_text("text\none\n\ntwo\n")
    assert [row.cells for row in load_tsv(file, ("text",)).rows] == [("one",), ("two",)]


def test_five_faults_are_shown_by_line_and_all_are_counted(file: Path) -> None:
    file.write_text("text\tlabel\n" + "one\n" * 3 + "one\tx\n" + "one\tx\ty\n" * 4)
    with pytest.raises(SclsearchError) as raised:
        check_faults(load_tsv(file, ("text",)))
    lines = str(raised.value).splitlines()
    assert lines[0] == f"{file}: line 2: 2 columns must be there, but there are 1"
    assert lines[4] == f"{file}: line 7: 2 columns must be there, but there are 3"
    assert lines[5] == f"{file}: 7 faults in all, the first 5 shown."
    assert len(lines) == 6


def test_every_missing_column_is_named_with_the_nearest(file: Path) -> None:
    file.write_text("text\tlabel\none\tx\n")
    with pytest.raises(SclsearchError, match=r"'txt'.*\n.*'lable'.*Did you mean 'label'"):
        load_tsv(file, ("txt", "lable"))


def test_a_column_that_is_there_twice_is_refused(file: Path) -> None:
    file.write_text("text\ttext\none\tx\n")
    with pytest.raises(SclsearchError, match="two columns are called"):
        load_tsv(file, ("text",))


def test_a_file_that_is_not_utf_8_is_named_with_the_line(file: Path) -> None:
    file.write_bytes("text\tlabel\ncafé\tx\n".encode("latin-1"))
    with pytest.raises(SclsearchError, match=r"rows\.tsv: line 2: the file must be UTF-8"):
        load_tsv(file, ("text",))


def test_a_missing_file_is_named(file: Path) -> None:
    with pytest.raises(SclsearchError, match=r"rows\.tsv: a readable file must be there"):
        load_tsv(file, ("text",))
