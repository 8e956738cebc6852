"""What a storage does, whether it is a folder or an object store."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sclsearch.canonical import digest
from sclsearch.store.objects import (
    create,
    keep_file,
    names,
    read,
    read_all,
    read_bytes,
    remove,
    write,
)
from sclsearch.store.records import StudyRecord
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.store.storage import StoragePath
from tests.store.together import WRITERS, at_once

FINISHED = SeedRun(digest("finished"), {"tau": 0.1 + 0.2}, {}, kept=0, evaluations=({"epoch": 1},))
FAILED = SeedRun(digest("failed"), {}, {}, failure=Failure("raised", "a test"))
RECORD = StudyRecord("first", {"task": "cola"}, {"method": "scl"}, {}, 2, 0.5)


def writes(content: bytes) -> Callable[[Path], None]:
    """Returns what writes a file."""

    def write_it(file: Path) -> None:
        file.write_bytes(content)

    return write_it


def test_an_object_comes_back_exactly_and_what_is_not_there_is_none(place: StoragePath) -> None:
    value = {"text": "τ\n", "number": 5e-324, "list": [1, None, True]}
    write(place / "folder" / "one.json", value)
    assert read(place / "folder" / "one.json") == value
    assert read(place / "folder" / "two.json") is None
    one, two = place / "folder" / "one.json", place / "none" / "two.json"
    assert read_all([one, two, one]) == [value, None, value]
    assert read_all([]) == []


def test_an_object_is_created_once_and_written_over(place: StoragePath) -> None:
    assert create(place / "one.json", {"writer": 1})
    assert not create(place / "one.json", {"writer": 2})
    assert read(place / "one.json") == {"writer": 1}
    write(place / "one.json", {"writer": 3})
    assert read(place / "one.json") == {"writer": 3}


def test_of_eight_writers_one_creates_the_object(place: StoragePath) -> None:
    for turn in range(3):
        path = place / f"{turn}.json"
        created = at_once(lambda writer, path=path: create(path, {"writer": writer}))  # type: ignore[misc]
        assert sum(created) == 1
        assert read(path) == {"writer": created.index(True)}
    assert names(place) == ["0.json", "1.json", "2.json"]


def test_a_reader_never_sees_half_an_object(place: StoragePath) -> None:
    values = [{"letters": letter * 200_000} for letter in "ab"]
    write(place / "one.json", values[0])

    def keep_writing() -> None:
        for turn in range(20):
            write(place / "one.json", values[turn % 2])

    writer = threading.Thread(target=keep_writing)
    writer.start()
    seen = [read(place / "one.json")]
    while writer.is_alive():
        seen.append(read(place / "one.json"))
    writer.join()
    assert all(value in values for value in seen)


def test_a_listing_names_objects_and_folders_once_in_their_order(place: StoragePath) -> None:
    assert names(place / "none") == []
    for name in ("b.json", "a.json"):
        write(place / name, {})
        write(place / "folder" / name, {})
    assert names(place) == ["a.json", "b.json", "folder"]
    remove(place / "a.json")
    remove(place / "a.json")
    assert names(place) == ["b.json", "folder"]


def test_a_file_is_kept_whole_or_not_at_all(place: StoragePath) -> None:
    def break_off(file: Path) -> None:
        file.with_suffix(".part").write_bytes(b"half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        keep_file(place / "weights" / "one.safetensors", break_off)
    assert "one.safetensors" not in names(place / "weights")
    keep_file(place / "weights" / "one.safetensors", Path.touch)
    assert "one.safetensors" in names(place / "weights")


def test_a_file_that_many_write_at_once_is_one_of_theirs_whole(place: StoragePath) -> None:
    target = place / "stages" / "one.safetensors"
    contents = [bytes([writer]) * 100_000 for writer in range(WRITERS)]
    keep_file(target, writes(contents[0]))
    done = threading.Event()
    seen: set[bytes | None] = set()

    def look() -> None:
        while not done.is_set():
            seen.add(read_bytes(target))

    reader = threading.Thread(target=look)
    reader.start()
    at_once(lambda writer: keep_file(target, writes(contents[writer])))
    done.set()
    reader.join()
    assert {*seen, read_bytes(target)} <= {*contents}
    assert names(place / "stages") == ["one.safetensors"]
