"""Tests of stored objects and files: atomic writes, listings and damaged files."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sclsearch.store.storage import (
    DamagedError,
    LocalPath,
    StoragePath,
    create,
    read,
    read_each,
    write,
)
from tests.store.together import WRITERS, at_once

JSON = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def any_object(tmp_path_factory: pytest.TempPathFactory) -> LocalPath:
    return LocalPath(tmp_path_factory.mktemp("objects") / "any.json")


@pytest.fixture
def one(tmp_path: Path) -> LocalPath:
    return LocalPath(tmp_path / "one.json")


def writes(content: bytes) -> Callable[[Path], None]:
    """Return a function that writes the content to a file."""

    def write_it(file: Path) -> None:
        file.write_bytes(content)

    return write_it


@settings(max_examples=40)
@given(value=st.dictionaries(st.text(), JSON))
def test_an_object_comes_back_exactly(any_object: LocalPath, value: dict[str, object]) -> None:
    write(any_object, value)
    assert read(any_object) == value


def test_several_objects_come_back_and_a_missing_one_is_none(folder: StoragePath) -> None:
    value = {"text": "τ\n", "number": 5e-324, "list": [1, None, True]}
    one, two = folder / "folder" / "one.json", folder / "none" / "two.json"
    write(one, value)
    assert read_each([one, two, one]) == [value, None, value]
    assert read_each([]) == []
    assert (one.exists(), two.exists()) == (True, False)


def test_one_of_eight_threads_creates_the_object(folder: StoragePath) -> None:
    for turn in range(3):
        path = folder / f"{turn}.json"
        created = at_once(lambda writer, path=path: create(path, {"writer": writer}))  # type: ignore[misc]
        assert sum(created) == 1
        assert read(path) == {"writer": created.index(True)}
        write(path, {"writer": None})
        assert read(path) == {"writer": None}
    assert folder.names() == ["0.json", "1.json", "2.json"]


def test_a_reader_never_sees_half_an_object(folder: StoragePath) -> None:
    values = [{"letters": letter * 200_000} for letter in "ab"]
    write(folder / "one.json", values[0])

    def keep_writing() -> None:
        for turn in range(20):
            write(folder / "one.json", values[turn % 2])

    writer = threading.Thread(target=keep_writing)
    writer.start()
    seen = [read(folder / "one.json")]
    while writer.is_alive():
        seen.append(read(folder / "one.json"))
    writer.join()
    assert all(value in values for value in seen)


def test_a_listing_has_each_object_and_folder_once_in_order(folder: StoragePath) -> None:
    assert (folder / "none").names() == []
    for name in ("b.json", "a.json"):
        write(folder / name, {})
        write(folder / "folder" / name, {})
    assert folder.names() == ["a.json", "b.json", "folder"]
    (folder / "a.json").remove()
    (folder / "a.json").remove()
    assert folder.names() == ["b.json", "folder"]


def test_an_object_moves_into_a_folder(folder: StoragePath) -> None:
    write(folder / "one.json", {"score": 1})
    moved = (folder / "one.json").move_into("damaged", "two.json")
    assert str(moved) == str(folder / "damaged" / "two.json")
    assert read(moved) == {"score": 1}
    assert folder.names() == ["damaged"]


def test_a_file_is_stored_whole_or_not_at_all(folder: StoragePath) -> None:
    def break_off(file: Path) -> None:
        file.with_suffix(".part").write_bytes(b"half")
        raise ZeroDivisionError

    target = folder / "weights" / "one.safetensors"
    with pytest.raises(ZeroDivisionError):
        target.save_file(break_off)
    assert "one.safetensors" not in (folder / "weights").names()
    target.save_file(Path.touch)
    assert "one.safetensors" in (folder / "weights").names()


def test_simultaneous_writers_leave_a_whole_file_of_one_of_them(folder: StoragePath) -> None:
    target = folder / "stages" / "one.safetensors"
    contents = [bytes([writer]) * 100_000 for writer in range(WRITERS)]
    target.save_file(writes(contents[0]))
    stop = threading.Event()
    seen: set[bytes | None] = set()

    def keep_reading() -> None:
        while not stop.is_set():
            seen.add(target.read())

    reader = threading.Thread(target=keep_reading)
    reader.start()
    at_once(lambda writer: target.save_file(writes(contents[writer])))
    stop.set()
    reader.join()
    assert {*seen, target.read()} <= {*contents}
    assert (folder / "stages").names() == ["one.safetensors"]


def test_an_object_is_created_once_without_hard_links(
    one: LocalPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "as a mounted bucket says")

    monkeypatch.setattr(os, "link", unable)
    assert create(one, {"first": True})
    assert not create(one, {"first": False})
    assert read(one) == {"first": True}
    assert list(one.path.parent.iterdir()) == [one.path]


def test_a_full_disk_keeps_no_half_written_file(
    one: LocalPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        create(one, {"time": 1})
    assert list(one.path.parent.iterdir()) == []


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_non_finite_number_is_refused_and_leaves_no_file(one: LocalPath, number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        create(one, {"score": number})
    assert list(one.path.parent.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [b'{"half": ', b"\xff\xfe\x00", b"null"],
    ids=["cut", "bytes", "null"],
)
def test_a_damaged_file_is_reported_with_advice(one: LocalPath, content: bytes) -> None:
    one.path.write_bytes(content)
    with pytest.raises(DamagedError) as caught:
        read(one, "Do this.")
    assert str(caught.value).startswith(f"{one}: is not a JSON object")
    assert str(caught.value).endswith(". Do this.")


@pytest.mark.parametrize("kind", ["folder", "pipe", "broken link"])
def test_a_path_that_is_not_a_regular_file_is_refused_without_blocking(
    one: LocalPath, kind: str
) -> None:
    if kind == "folder":
        one.path.mkdir()
    elif kind == "pipe":
        os.mkfifo(one.path)
    else:
        one.path.symlink_to("nothing")
    assert one.exists()
    with pytest.raises(DamagedError, match=rf"^{one}: .* Move it away\.$"):
        read(one)


@pytest.mark.parametrize("put", ["create", "write", "save_file"])
def test_a_write_syncs_the_file_before_its_rename_and_the_folder_after_it(
    put: str, one: LocalPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, one.path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    if put == "save_file":
        one.save_file(Path.touch)
    else:
        {"create": create, "write": write}[put](one, {"score": 1})
    (first, named_before), (last, named) = synced
    assert first.endswith(".part")
    assert (named_before, last, named) == (False, one.path.parent.name, True)
