"""Whatever is damaged in a store, commands name every file and go on with the sound ones."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.search.run import run
from sclsearch.study.spec import RunOptions, StudySpec
from tests.campaign.conftest import Ended
from tests.in_process import in_process

DEEP = 10_000
SPACE = """
method: scl
source: a test
published: [{tau: 0.3}]
fixed: {epochs: 1, batch_size: 16, max_length: 16}
space:
  tau: {type: choice, values: [0.1, 0.3]}
"""
FILES = {
    "study": "studies/mine/study.json",
    "first configuration": "studies/mine/configurations/0.json",
    "last configuration": "studies/mine/configurations/1.json",
    "count of configurations": "studies/mine/configurations.json",
    "replicate": "studies/mine/replicates/0.json",
    "seed run": "runs/*.json",
}


def deleted(path: Path) -> None:
    path.unlink()


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content, encoding="utf-8")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


def another(path: Path) -> None:
    """Put the next file of the folder, or else any other record, in a file's place."""
    others = [other for other in sorted(path.parent.glob("*.json")) if other != path]
    source = others[0] if others else path.parent / "configurations" / "0.json"
    shutil.copyfile(source, path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def digit(path: Path) -> None:
    """Change the last digit of a file's content that is not within a hash."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for name in content.keys() & {"created", "count", "number", "seconds"}:
        content[name] += 1
    path.write_text(json.dumps(content), encoding="utf-8")


def field(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "more": 1}), encoding="utf-8")


def nulls(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["sha256"]
    path.write_text(json.dumps(dict.fromkeys(content)), encoding="utf-8")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "deleted": deleted,
    "empty": text(""),
    "null": text("null"),
    "list": text("[]"),
    "object": text("{}"),
    "number": text("3"),
    "NaN": text('{"seconds": NaN}'),
    "deep": text('{"a":' * DEEP + "1" + "}" * DEEP),
    "long number": text('{"a": ' + "9" * 5000 + "}"),
    "cut": cut,
    "binary": binary,
    "another": another,
    "folder": folder,
    "pipe": pipe,
    "loop": loop,
    "digit": digit,
    "field": field,
    "nulls": nulls,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """Return a storage with a finished search of two configurations and two seeds."""
    place = tmp_path_factory.mktemp("whole")
    (place / "space.yaml").write_text(SPACE, encoding="utf-8")
    spec = StudySpec(
        method="scl",
        task="demo",
        model=str(tiny_encoder),
        train_size=20,
        space=place / "space.yaml",
        settings={"epochs": 1},
    )
    options = RunOptions(
        study="mine", storage=place / "storage", seeds=2, configs=2, rule="mean", gpus_per_trial=0
    )
    with in_process():
        run(spec, options, Console(quiet=True))
    return place


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_file_is_named_and_the_others_are_read(
    kind: str,
    damage: str,
    whole: Path,
    folder: Path,
    tiny_encoder: Path,
    command: Callable[..., Ended],
) -> None:
    shutil.copytree(whole, folder / "place")
    storage = ("--storage", "place/storage")
    path = next((folder / "place" / "storage").glob(FILES[kind]))
    DAMAGE[damage](path)
    # What the next search writes or trains again is no fault.
    silent = damage == "deleted" and kind not in {"first configuration", "last configuration"}
    selected = command("select", "mine", *storage)
    selected.assert_clear()
    if kind != "study":
        assert selected.code in ({0, 3} if silent else {3})
    said = "".join((selected.out + selected.err).split())
    assert silent or str(path) in said
    listed = command("ls", "studies", *storage)
    listed.assert_clear()
    assert listed.code == 0
    tune = ("tune", "--method", "scl", "--task", "demo", "--train-size", "20", "--seeds", "2")
    more = ("--rule", "mean", "--configs", "2", "--space", "place/space.yaml", "--study", "mine")
    model = ("--model", str(tiny_encoder), "--set", "epochs=1", "--gpus-per-trial", "0")
    command(*tune, *more, *model, *storage, "--dry-run").assert_clear()


def test_all_damaged_files_are_named_at_once(
    whole: Path, folder: Path, command: Callable[..., Ended]
) -> None:
    shutil.copytree(whole, folder / "place")
    storage = folder / "place" / "storage"
    first = storage / FILES["first configuration"]
    paths = [first, *storage.glob(FILES["seed run"])]
    for path in paths:
        cut(path)
    ended = command("select", "mine", "--storage", "place/storage")
    said = "".join((ended.out + ended.err).split())
    assert [str(path) in said for path in paths].count(True) == 3  # two are of that one
    assert str(first) in said


@pytest.mark.parametrize("storage", ["taken", "taken/below", "", "https://x/y", "nothing"])
def test_no_storage_is_said_by_every_command(
    storage: str, folder: Path, command: Callable[..., Ended]
) -> None:
    (folder / "taken").touch()
    for asked in (("select", "mine"), ("export", "mine", "out"), ("rerun", "abcdef")):
        command(*asked, "--storage", storage).assert_refused()
    command("ls", "studies", "--storage", storage).assert_clear()
