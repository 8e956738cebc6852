"""Fuzzer of records: a wrong field is refused in one line, or every command reads it.

The records of studies and seed runs have a checksum, which no other program writes.
"""

import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.exports.predictor import ExportRecord, read_record
from sclsearch.store import lock, studies
from sclsearch.store.storage import CHECKSUM, LocalPath, read, sealed
from tests.conftest import Call, Result
from tests.studies import in_process

MISSING = object()
VALUES: tuple[object, ...] = (
    *(None, True, -1, 7, 10**30, 1e300, "", "a\0b", "=\x1b[31m"),
    *([], [1], [[]], [{}], {}, {"a": 1}, MISSING),
)
STUDY = "studies/mine"
KINDS: dict[str, type[Any]] = {
    f"{STUDY}/race.json": studies.LastStart,
    f"{STUDY}/driver-abc.json": lock._Claim,
}
CREATED: dict[str, dict[str, Any]] = {
    "race.json": {"band": 2.5, "configs": 2},
    "driver-abc.json": {
        **{"host": "elsewhere", "pid_namespace": None, "pid": 7, "process_start": "1"},
        **{"token": "abc", "drives": True, "time": 1.0, "ended": False},
    },
}
READERS: list[tuple[str, ...]] = [
    (*reader, "--storage", "storage")
    for reader in (
        ("show", "mine", "--format", "json"),
        ("show", "mine"),
        ("compare", "mine", "other"),
        ("ls", "studies"),
        ("rm", "mine", "--dry-run"),
        ("confirm", "mine", "--gpus-per-trial", "0", "--dry-run"),
        ("report", "mine", "--output", "out", "--no-texts"),
        ("export", "mine", "out", "--force"),
    )
]
SECONDS = 10.0
"""Processor time of a command; a command that hangs meets the timeout of the test."""
SHARE = float(os.environ.get("SCLSEARCH_FUZZ", "0.05"))
"""Share of the valid records with which commands run; 1 takes ten minutes."""


def paths(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every field; of a list, those of the first item."""
    pairs = [*value.items()] if isinstance(value, dict) else [*enumerate(value)][:1]
    for key, item in pairs:
        yield (*above, key)
        if isinstance(item, dict | list):
            yield from paths(item, (*above, key))


def mutations(value: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a description and the content of the record with one field changed."""
    for path in paths(value):
        for wrong in VALUES:
            changed = deepcopy(value)
            place: Any = changed
            for key in path[:-1]:
                place = place[key]
            if wrong is MISSING:
                del place[path[-1]]
            else:
                place[path[-1]] = wrong
            yield f"{'.'.join(map(str, path))} = {wrong!r}", changed


def cases(path: Path, kind: type[Any], draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield some of the contents with a wrong field, after reading each of them.

    All commands treat a refused record alike, so that one of a hundred stands for all.
    """
    record = json.loads(path.read_bytes())
    record.pop(CHECKSUM, None)
    for case, content in mutations(record):
        path.write_text(json.dumps(sealed(content) if kind is not ExportRecord else content))
        try:
            read(LocalPath(path), kind) if kind is not ExportRecord else read_record(path.parent)
            message = ""
        except SclsearchError as error:
            message = str(error)
        assert "\n" not in message
        if draw.random() < (0.01 if message else SHARE):
            yield case, path.read_bytes()


def check_quick(command: Callable[[], Result], case: str) -> None:
    """Run a command on a wrong record: it ends within seconds, with one of its exit codes."""
    started = time.process_time()
    result = command()
    assert time.process_time() - started < SECONDS, case
    result.assert_clear()
    assert result.returncode in {0, 2, 3}, f"{case}: {result}"


@pytest.mark.parametrize("pattern", KINDS)
def test_a_record_with_a_wrong_field_is_refused_or_read_by_every_command(
    pattern: str,
    storage: Path,
    search: tuple[str, ...],
    sclsearch: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lock, "EXPIRES_SECONDS", 0.5)
    if created := CREATED.get(Path(pattern).name):
        (storage / pattern).write_text(json.dumps(sealed(created)))
    path = min(storage.glob(pattern))
    undamaged = path.read_bytes()
    before = sclsearch(*READERS[0]).stdout
    draw, readers = random.Random(pattern), cycle([*READERS[1:], search])
    for case, content in cases(path, KINDS[pattern], draw):
        for reader in (READERS[0], next(readers)):
            path.write_bytes(content)
            with in_process():
                check_quick(lambda: sclsearch(*reader), f"{case}: {reader[0]}")  # noqa: B023
            shutil.rmtree("out", ignore_errors=True)
    path.write_bytes(undamaged)
    assert sclsearch(*READERS[0]).stdout == before


@pytest.fixture
def model(storage: Path, folder: Path, sclsearch: Call) -> Path:
    """Return the folder of an export, and write a file of texts."""
    (folder / "texts.csv").write_text("text\na good film\n")
    assert sclsearch("export", "mine", "model", "--force", "--storage", "storage").returncode == 0
    return folder / "model"


PREDICT = ("predict", "model", "texts.csv", "--text", "text")


def test_an_export_with_a_wrong_field_is_refused_or_loaded(model: Path, sclsearch: Call) -> None:
    path = model / "sclsearch.json"
    undamaged = path.read_bytes()
    before = sclsearch(*PREDICT)
    assert before.returncode == 0
    for case, content in cases(path, ExportRecord, random.Random(0)):
        path.write_bytes(content)
        check_quick(lambda: sclsearch(*PREDICT), case)
    path.write_bytes(undamaged)
    assert sclsearch(*PREDICT) == before
    path.unlink()
    sclsearch(*PREDICT).assert_refused("sclsearch.json")
    os.mkfifo(path)
    sclsearch(*PREDICT).assert_refused("sclsearch.json: ", "not a regular file")


@pytest.mark.parametrize(
    "changes",
    [
        *({"members": members} for members in (["a\0b"], ["../model"], ["x"] * 3000)),
        {"labels": [f"{n}" for n in range(10**6)]},
    ],
    ids=["NUL", "folder outside", "members", "labels"],
)
def test_an_export_with_hostile_lists_is_refused(
    model: Path, sclsearch: Call, changes: dict[str, Any]
) -> None:
    record = json.loads((model / "sclsearch.json").read_bytes())
    (model / "sclsearch.json").write_text(json.dumps({**record, **changes}))
    sclsearch(*PREDICT).assert_refused("sclsearch.json")
