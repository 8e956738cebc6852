"""README holds what the program has: its commands parse, its layout is the tree."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main

from sclsearch.cli import app
from sclsearch.methods import METHODS, method_class, method_summaries
from sclsearch.protocols import protocol_summaries
from sclsearch.spaces.load import check_file

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [
    line.partition("  #")[0].strip()
    for language, block in BLOCKS
    if language == "sh"
    for line in block.splitlines()
    if line.startswith("sclsearch ")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_names_options_that_exist(line: str) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    before, _, submitted = line.removeprefix("sclsearch ").partition(" -- ")
    for name, *words in filter(None, map(shlex.split, (before, submitted))):
        known = {option for parameter in commands[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_the_space_is_in_order(tmp_path: Path) -> None:
    (space,) = (block for language, block in BLOCKS if language == "yaml")
    (tmp_path / "mine.yaml").write_text(space, encoding="utf-8")
    assert check_file(tmp_path / "mine.yaml", None) == []


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 8


def test_the_layout_is_the_tree() -> None:
    block = next(block for language, block in BLOCKS if not language and "objectives/" in block)
    inside = re.findall(r"^  (\w+)(?:/|\.py)\s", block, flags=re.MULTILINE)
    found = {p.stem for p in (ROOT / "sclsearch").iterdir() if p.is_dir() or p.name == "api.py"}
    assert set(inside) == {name for name in found if not name.startswith(("_", "."))}
    for top in re.findall(r"^(\w+)/\s", block, flags=re.MULTILINE):
        assert (ROOT / top).is_dir()


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", README, flags=re.MULTILINE))
def test_a_make_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("name", METHODS)
def test_the_table_of_methods_has_a_row_with_all_fields(name: str) -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)` \| [^|]+ \| ([^|]+) \|$", README, flags=re.MULTILINE))
    expected = [field.name for field in fields(method_class(name))]  # type: ignore[arg-type]
    shared = rows["lacon"].replace("`pooling`", "")
    cell = rows.get(name, "").replace("those of `lacon` without `pooling`,", shared)
    row = f"| `{name}` | {method_summaries()[name]} | `{'` `'.join(expected)}` |"
    assert set(re.findall(r"`(\w+)`", cell)) == set(expected), f"README needs the row\n{row}"


def test_the_tables_list_every_protocol_and_nothing_else() -> None:
    first = re.findall(r"^\| (`[^|]+) \|", README, flags=re.MULTILINE)
    rows = {name for cell in first for name in re.findall(r"`([a-z][\w:-]*)`", cell)}
    assert METHODS.keys() | protocol_summaries().keys() == rows
