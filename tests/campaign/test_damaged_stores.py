"""Tests of damaged stores: every command names the damaged file or reads the valid ones."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.store import storage as store_module
from tests.conftest import Call, Result

DEEP = 100_000
Change = Callable[[Path], object]
Show = Callable[..., Result]
RUN = "runs/*.json"
RECORD = "studies/mine/study.json"
CONFIGURATION = "studies/mine/configurations/1.json"
REPLICATE = "studies/mine/replicates/0.json"
FILES = {
    "study": RECORD,
    "first configuration": "studies/mine/configurations/0.json",
    "last configuration": CONFIGURATION,
    "replicate": REPLICATE,
    "seed run": RUN,
}


def text(content: str) -> Change:
    return lambda path: path.write_text(content, encoding="utf-8")


def another(path: Path) -> None:
    """Replace a file by the next one of its folder, or by another record."""
    others = [other for other in sorted(path.parent.glob("*.json")) if other != path]
    source = others[0] if others else path.parent / "configurations" / "0.json"
    shutil.copyfile(source, path)


def replaced(make: Change) -> Change:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


DAMAGE: dict[str, Change] = {
    "deleted": Path.unlink,
    "empty": text(""),
    "list": text("[]"),
    "object": text("{}"),
    "NaN": text('{"seconds": NaN}'),
    "deep": text('{"a":' * DEEP + "1" + "}" * DEEP),
    "long number": text('{"a": ' + "9" * 5000 + "}"),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "another record": another,
    "folder": replaced(Path.mkdir),
    "pipe": replaced(os.mkfifo),
    "device": replaced(lambda path: path.symlink_to("/dev/zero")),
}


def output_of(result: Result) -> str:
    """Return a command's output and errors without whitespace."""
    return "".join((result.stdout + result.stderr).split())


def path_of(kind: str, storage: Path) -> Path:
    """Return the first file of a kind that belongs to the study `mine`."""
    paths = sorted(storage.glob(kind))
    if kind == RUN:
        paths = [one for one in paths if json.loads(one.read_bytes())["origin"]["study"] == "mine"]
    return paths[0]


@pytest.fixture
def show(sclsearch: Call, storage: Path) -> Show:
    """Return a function that shows the study without a crash."""

    def show(*options: str) -> Result:
        result = sclsearch("show", "mine", "--storage", "storage", *options)
        result.assert_clear()
        return result

    return show


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_file_is_named_and_the_others_are_read(
    kind: str, damage: str, storage: Path, search: tuple[str, ...], sclsearch: Call, show: Show
) -> None:
    path = path_of(FILES[kind], storage)
    DAMAGE[damage](path)
    # No command reports other deleted files: the next search writes or trains them again.
    silent = damage == "deleted" and kind != "first configuration"
    shown = show()
    if kind != "study":
        assert shown.returncode in ({0, 3} if silent else {3})
    elif not silent:
        shown.assert_refused("Move it away")
    assert silent or str(path) in output_of(shown)
    if (kind, damage) == ("replicate", "deleted"):
        assert (shown.returncode, "wasdeleted" in output_of(shown)) == (3, True)
    sclsearch(*search, "--dry-run").assert_clear()
    if (kind, damage) == ("study", "cut"):
        assert sclsearch("rm", "mine", "--yes", "--storage", "storage").returncode == 0


EDITS: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "task of the study": (RECORD, lambda it: it["identity"].update(task="rte")),
    "seed of a replicate": (REPLICATE, lambda it: it["seeds"].update(order=7)),
    "time of a seed run": (RUN, lambda it: it.update(seconds=1.0)),
    "list as checksum": (REPLICATE, lambda it: it.update(sha256=[])),
    "no checksum": (REPLICATE, lambda it: it.pop("sha256")),
}
RESEALED: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "number of a configuration": (CONFIGURATION, lambda it: it.update(number=7)),
    "additional field": (CONFIGURATION, lambda it: it.update(later=1)),
    "missing field": (REPLICATE, lambda it: it.pop("notes")),
    "name of the study": (RECORD, lambda it: it.update(name="other")),
    "key of a seed run": (RUN, lambda it: it.update(key="0" * 64)),
}


@pytest.mark.parametrize("name", EDITS | RESEALED)
def test_an_edited_file_is_detected_by_its_checksum_or_its_content(
    storage: Path, show: Show, name: str
) -> None:
    file, change = (EDITS | RESEALED)[name]
    path = path_of(file, storage)
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    if name in RESEALED:
        del content["sha256"]
        content = store_module.sealed(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    result = show()
    assert result.returncode == (2 if file == RECORD else 3), output_of(result)
    assert path.name[:40] in output_of(result)
    assert ("checksum" in output_of(result)) == (name in EDITS)


def test_all_damaged_files_are_named_at_once(storage: Path, show: Show) -> None:
    origins = {p: json.loads(p.read_text(encoding="utf-8"))["origin"] for p in storage.glob(RUN)}
    (run,) = (p for p, own in origins.items() if (own["configuration"], own["replicate"]) == (0, 1))
    paths = [run, storage / CONFIGURATION, storage / REPLICATE]
    for path in paths:
        DAMAGE["cut"](path)
    result = show("--format", "json")
    assert result.returncode == 3
    notes = json.loads(result.stdout)["notes"]
    assert notes[0].startswith("warning: damaged files, left out of the ranking: 3;")
    for path in paths:
        assert len([note for note in notes if str(path) in note]) == 1


def test_files_with_unknown_names_are_ignored(storage: Path, sclsearch: Call, show: Show) -> None:
    before = show().stdout
    for name in ("²", "00", "-1", "1 copy", "x" * 200, "9" * 99):
        (storage / "studies" / "mine" / "configurations" / f"{name}.json").write_text("{}")
    (storage / "studies" / "notes.txt").write_text("hello", encoding="utf-8")
    assert show().stdout == before
    listed = sclsearch("ls", "studies", "--storage", "storage")
    assert [line.split("\t")[0] for line in listed.stdout.splitlines()] == ["mine", "other"]


@pytest.mark.parametrize("storage", ["taken", "taken/below", "", "https://x/y", "nothing"])
def test_every_command_refuses_an_invalid_storage(
    storage: str, folder: Path, sclsearch: Call
) -> None:
    (folder / "taken").touch()
    named = storage if storage == "nothing" else "--storage"
    for arguments in (("show", "mine"), ("export", "mine", "out"), ("rerun", "abcdef")):
        sclsearch(*arguments, "--storage", storage).assert_refused(named)
    sclsearch("ls", "studies", "--storage", storage).assert_clear()
