"""Damaged stores: every command names the file and the cure, or goes on with the sound files."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sclsearch.search.run import run
from sclsearch.study.spec import RunOptions, StudySpec
from tests.campaign.conftest import Ended
from tests.in_process import in_process

DEEP = 10_000
Change = Callable[[Path], object]
Command = Callable[..., Ended]
SPACE = """
method: scl
source: a test
published: [{tau: 0.3}]
fixed: {epochs: 1, batch_size: 16, max_length: 16}
space:
  tau: {type: choice, values: [0.1, 0.3]}
"""
RUN = "runs/*.json"
RECORD = "studies/mine/study.json"
CONFIGURATION = "studies/mine/configurations/1.json"
REPLICATE = "studies/mine/replicates/0.json"
FILES = {
    "study": RECORD,
    "first configuration": "studies/mine/configurations/0.json",
    "last configuration": CONFIGURATION,
    "count of configurations": "studies/mine/configurations.json",
    "replicate": REPLICATE,
    "seed run": RUN,
}


def text(content: str) -> Change:
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


def instead(make: Change) -> Change:
    """Return a change that puts something else in a file's place."""

    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def huge(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(2**40)  # a sparse file


def edited(change: Callable[[dict[str, Any]], object], *, sealed: bool = True) -> Change:
    """Return a change of a file's content, which keeps the checksum or removes it."""

    def write(path: Path) -> None:
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        if not sealed:
            content.pop("sha256", None)
        path.write_text(json.dumps(content), encoding="utf-8")

    return write


DAMAGE: dict[str, Change] = {
    "deleted": Path.unlink,
    "empty": text(""),
    "null": text("null"),
    "list": text("[]"),
    "object": text("{}"),
    "NaN": text('{"seconds": NaN}'),
    "deep": text('{"a":' * DEEP + "1" + "}" * DEEP),
    "long number": text('{"a": ' + "9" * 5000 + "}"),
    "cut": cut,
    "binary": binary,
    "another": another,
    "folder": instead(Path.mkdir),
    "pipe": instead(os.mkfifo),
    "loop": instead(loop),
    "huge": huge,
    "another field": edited(lambda it: it.update(more=1)),
    "nulls": edited(lambda it: it.update(dict.fromkeys(it.keys() - {"sha256"})), sealed=False),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """Return a folder with a storage of two finished searches, and with their space."""
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
    other = replace(options, study="other", tracking="none")
    with in_process():
        run(spec, options, Console(quiet=True))
        run(replace(spec, search_seed=1), other, Console(quiet=True))
    return place


@pytest.fixture
def storage(whole: Path, folder: Path) -> Path:
    """Return a copy of the storage, in the current folder."""
    return Path(shutil.copytree(whole / "storage", folder / "storage"))


def path_of(storage: Path, name: str) -> Path:
    """Return the path of a file; of several, the first."""
    return min(storage.glob(name))


def said(ended: Ended) -> str:
    """Return all that a command printed, without blanks."""
    return "".join((ended.out + ended.err).split())


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_file_is_named_and_the_others_are_read(
    kind: str, damage: str, whole: Path, storage: Path, tiny_encoder: Path, command: Command
) -> None:
    path = path_of(storage, FILES[kind])
    DAMAGE[damage](path)
    # What the next search writes or trains again is no fault.
    silent = damage == "deleted" and kind not in {"first configuration", "last configuration"}
    selected = command("select", "mine", "--storage", "storage")
    selected.assert_clear()
    if kind != "study":
        assert selected.code in ({0, 3} if silent else {3})
    elif not silent:
        selected.assert_refused("Move it away")
    assert silent or str(path) in said(selected)
    listed = command("ls", "studies", "--storage", "storage")
    listed.assert_clear()
    assert listed.code == 0
    tune = ("tune", "--method", "scl", "--task", "demo", "--train-size", "20", "--seeds", "2")
    more = ("--rule", "mean", "--configs", "2", "--space", str(whole / "space.yaml"))
    model = ("--model", str(tiny_encoder), "--set", "epochs=1", "--gpus-per-trial", "0")
    study = ("--study", "mine", "--storage", "storage", "--dry-run")
    command(*tune, *more, *model, *study).assert_clear()


EDITS: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "study task": (RECORD, lambda it: it["identity"].update(task="rte")),
    "configuration value": (CONFIGURATION, lambda it: it["values"].update(tau=0.5)),
    "replicate seed": (REPLICATE, lambda it: it["seeds"].update(order=7)),
    "seed run time": (RUN, lambda it: it.update(seconds=1.0)),
    "checksum list": (REPLICATE, lambda it: it.update(sha256=[])),
    "checksum number": (RECORD, lambda it: it.update(sha256=7)),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_file_is_detected(storage: Path, command: Command, edit: str) -> None:
    name, change = EDITS[edit]
    path = path_of(storage, name)
    edited(change)(path)
    ended = command("select", "mine", "--storage", "storage")
    ended.assert_clear()
    assert ended.code == (2 if name == RECORD else 3)
    assert "checksum" in said(ended)
    assert path.name[:40] in said(ended)


WITHOUT_CHECKSUM: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "rows of numbers": (REPLICATE, lambda it: it["rows"].update(train=7)),
    "negative seed": (REPLICATE, lambda it: it["seeds"].update(order=-1)),
    "notes text": (REPLICATE, lambda it: it.update(notes="text")),
    "configuration number": (CONFIGURATION, lambda it: it.update(number=True)),
    "values list": (CONFIGURATION, lambda it: it.update(values=[])),
    "values nan": (CONFIGURATION, lambda it: it["values"].update(tau=float("nan"))),
    "field more": (CONFIGURATION, lambda it: it.update(later=1)),
    "field less": (CONFIGURATION, lambda it: it.pop("values")),
    "study name": (RECORD, lambda it: it.update(name="other")),
    "no space": (RECORD, lambda it: it["identity"].pop("space")),
    "parameters numbers": (RECORD, lambda it: it["identity"]["space"].update(parameters=[1])),
    "unknown metric": (RECORD, lambda it: it["training"].update(metric="beauty")),
    "unknown rule": (RECORD, lambda it: it["origin"].update(rule="worst")),
    "created text": (RECORD, lambda it: it.update(created="today")),
    "kept 99": (RUN, lambda it: it.update(kept=99)),
    "no evaluations": (RUN, lambda it: it.update(evaluations=[])),
    "no confusion": (RUN, lambda it: it["test"].clear()),
    "prediction out of range": (RUN, lambda it: it["predictions"]["test"].append(2)),
    "negative count": (RUN, lambda it: it["test"].update(confusion=[[-500, 1], [1, 1]])),
    "ragged counts": (RUN, lambda it: it["test"].update(confusion=[[1], [1, 1]])),
    "counts of zero": (RUN, lambda it: it["test"].update(confusion=[[0, 0], [0, 0]])),
    "infinite time": (RUN, lambda it: it.update(seconds=float("inf"))),
    "key": (RUN, lambda it: it.update(key="0" * 64)),
    "failure text": (RUN, lambda it: it.update(failure="so")),
}


@pytest.mark.parametrize("edit", WITHOUT_CHECKSUM)
def test_a_wrong_form_is_detected_without_a_checksum(
    storage: Path, command: Command, edit: str
) -> None:
    name, change = WITHOUT_CHECKSUM[edit]
    path = path_of(storage, name)
    edited(change, sealed=False)(path)
    ended = command("select", "mine", "--storage", "storage")
    ended.assert_clear()
    assert ended.code == (2 if name == RECORD else 3), said(ended)
    named = "Unknownrule'worst'" if edit == "unknown rule" else "/".join(path.parts[-2:])
    assert named in said(ended)


def test_a_deleted_replicate_is_noted(storage: Path, command: Command) -> None:
    (storage / REPLICATE).unlink()
    ended = command("select", "mine", "--storage", "storage")
    assert ended.code == 3
    assert "wasdeleted" in said(ended)


def test_all_damaged_files_are_named_at_once(storage: Path, command: Command) -> None:
    origins = {p: json.loads(p.read_text(encoding="utf-8"))["origin"] for p in storage.glob(RUN)}
    (run,) = (p for p, own in origins.items() if (own["configuration"], own["replicate"]) == (0, 1))
    paths = [run, storage / CONFIGURATION, storage / REPLICATE]
    for path in paths:
        cut(path)
    ended = command("select", "mine", "--storage", "storage", "--json")
    assert ended.code == 3
    notes = json.loads(ended.out)["notes"]
    assert notes[0].startswith("warning: damaged files, left out of the ranking: 3;")
    for path in paths:
        assert len([note for note in notes if str(path) in note]) == 1


def test_records_without_checksum_are_noted_once(storage: Path, command: Command) -> None:
    assert "havenochecksums" not in said(command("select", "mine", "--storage", "storage"))
    for path in [*storage.glob(RUN), *storage.glob("studies/**/*.json")]:
        edited(lambda _: None, sealed=False)(path)
    ended = command("select", "mine", "--storage", "storage")
    assert ended.code == 0
    assert said(ended).count("havenochecksums") == 1


READERS: dict[str, tuple[str, ...]] = {
    "select": ("select", "mine"),
    "compare": ("compare", "mine", "other"),
    "rerun": ("rerun",),
    "confirm": ("confirm", "mine", "--gpus-per-trial", "0", "--dry-run"),
    "variance": ("variance", "mine", "--gpus-per-trial", "0", "--dry-run"),
    "export": ("export", "mine", "out"),
    "track": ("track", "mine"),
    "ls": ("ls", "studies"),
}


def read(command: Command, reader: str, key: str) -> Ended:
    """Run a command that reads the storage."""
    more = (key[:12],) if reader == "rerun" else ()
    return command(*READERS[reader], *more, "--storage", "storage")


@pytest.mark.parametrize("damage", ["empty", "deep", "folder", "pipe"])
@pytest.mark.parametrize("reader", READERS)
def test_every_command_survives_damage_of_every_kind_of_file(
    storage: Path, command: Command, reader: str, damage: str
) -> None:
    for name in (RECORD, CONFIGURATION, REPLICATE, RUN):
        shutil.copytree(storage, "whole")
        path = path_of(storage, name)
        DAMAGE[damage](path)
        ended = read(command, reader, path.stem)
        ended.assert_clear()
        assert ended.code in {0, 2, 3}, said(ended)
        if ended.code == 2:
            assert re.search(r"\.json|--", ended.err), ended.err
        shutil.rmtree(storage)
        shutil.rmtree("out", ignore_errors=True)
        Path("whole").rename(storage)


@pytest.mark.parametrize("place", ["runs", "studies/mine/configurations", "studies"])
@pytest.mark.parametrize("there", [Path.touch, loop, os.mkfifo])
@pytest.mark.parametrize("reader", ["select", "rerun", "ls", "export"])
def test_a_folder_of_the_store_that_is_none_is_named(
    storage: Path, command: Command, place: str, there: Change, reader: str
) -> None:
    key = path_of(storage, RUN).stem
    folder = storage / place
    shutil.rmtree(folder)
    there(folder)
    ended = read(command, reader, key)
    ended.assert_clear()
    assert (
        ended.code == 2
        or (reader, place) == ("ls", "studies/mine/configurations")
        or (reader == "rerun" and place != "runs")
    ), said(ended)
    if ended.code == 2 and reader != "rerun":
        assert f"{folder}:isnotafolder" in said(ended)


def test_files_with_other_names_are_left_alone(storage: Path, command: Command) -> None:
    before = command("select", "mine", "--storage", "storage").out
    for name in ("²", "00", "-1", "1 copy", "x" * 200, "9" * 99):
        (storage / "studies" / "mine" / "configurations" / f"{name}.json").write_text("{}")
    (storage / "studies" / "notes.txt").write_text("hello", encoding="utf-8")
    assert command("select", "mine", "--storage", "storage").out == before
    listed = command("ls", "studies", "--storage", "storage")
    assert listed.code == 0
    assert "notes.txt" not in [line.split("\t")[0] for line in listed.out.splitlines()]


@pytest.mark.parametrize("storage", ["taken", "taken/below", "", "https://x/y", "nothing"])
def test_no_storage_is_said_by_every_command(storage: str, folder: Path, command: Command) -> None:
    (folder / "taken").touch()
    for asked in (("select", "mine"), ("export", "mine", "out"), ("rerun", "abcdef")):
        command(*asked, "--storage", storage).assert_refused()
    command("ls", "studies", "--storage", storage).assert_clear()
