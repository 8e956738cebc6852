"""An object is whole or not there, is created once, and says which file is broken."""

import errno
import os
import re
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.store.objects import create, keep_file, read, write

JSON = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("objects")


@settings(max_examples=40)
@given(value=st.dictionaries(st.text(), JSON))
def test_what_is_written_is_read_again_exactly(folder: Path, value: dict[str, object]) -> None:
    write(folder / "any.json", value)
    assert read(folder / "any.json") == value


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    assert read(tmp_path / "none.json") is None


def test_an_object_is_created_once_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "new" / "one.json"
    assert create(path, {"first": True})
    assert not create(path, {"first": False})
    assert read(path) == {"first": True}
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_without_hard_links_is_written_once_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "as a mounted bucket says")

    monkeypatch.setattr(os, "link", unable)
    assert create(tmp_path / "one.json", {"first": True})
    assert not create(tmp_path / "one.json", {"first": False})
    assert read(tmp_path / "one.json") == {"first": True}
    assert list(tmp_path.iterdir()) == [tmp_path / "one.json"]


def test_a_later_write_replaces_an_object(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    write(path, {"time": 1})
    write(path, {"time": 2})
    assert read(path) == {"time": 2}
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_keeps_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        create(tmp_path / "one.json", {"time": 1})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_without_json_leaves_nothing_behind(tmp_path: Path, number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        create(tmp_path / "one.json", {"score": number})
    assert list(tmp_path.iterdir()) == []


def test_a_reader_never_sees_half_an_object(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    values = [{"letters": letter * 200_000} for letter in "ab"]
    write(path, values[0])
    done = threading.Event()

    def keep_writing() -> None:
        for turn in range(60):
            write(path, values[turn % 2])
        done.set()

    writer = threading.Thread(target=keep_writing)
    writer.start()
    seen = []
    while not done.is_set():
        seen.append(read(path))
    writer.join()
    assert seen
    assert all(value in values for value in seen)


@pytest.mark.slow
def test_of_several_processes_one_creates_the_object(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.json" for number in range(40) for _ in range(4)]
    values = [{"writer": number % 4} for number in range(len(paths))]
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as processes:
        created = list(processes.map(create, paths, values))
    for first in range(0, len(paths), 4):
        won = [created[writer + first] for writer in range(4)]
        assert sum(won) == 1
        assert read(paths[first]) == {"writer": won.index(True)}
    assert sorted(tmp_path.iterdir()) == sorted(set(paths))


@pytest.mark.parametrize(
    "content",
    [b"", b'{"half": ', b"\xff\xfe\x00", b"no json", b"null"],
    ids=["empty", "cut", "bytes", "no", "null"],
)
def test_a_broken_file_is_named_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(content)
    where = re.escape(str(path))
    with pytest.raises(SclsearchError, match=rf"^{where}: it must hold a JSON.*\. Do this\.$"):
        read(path, "Do this.")


@pytest.mark.parametrize("put", ["create", "write", "keep_file"])
def test_a_file_is_on_the_disk_before_its_name_and_the_name_before_the_return(
    put: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    path, fsync = tmp_path / "one", os.fsync

    def record(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    if put == "keep_file":
        keep_file(path, Path.touch)
    else:
        {"create": create, "write": write}[put](path, {"score": 1})
    (first, named_before), (last, named) = synced
    assert first.endswith(".part")
    assert (named_before, last, named) == (False, tmp_path.name, True)
