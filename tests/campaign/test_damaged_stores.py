"""Damaged stores: every command names the file and the cure, or goes on with the sound files."""

import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.store.objects import sealed
from tests.campaign.conftest import Ended

ARCHIVE = Path(__file__).parents[1] / "stores" / "0.1.0.tar.gz"
DEEP = 10_000
Change = Callable[[Path], object]
Command = Callable[..., Ended]
STUDY, OTHER, OLD = "search", "train-ce", "train-scl"
# A path that has `*` is the first one of the sorted list.
RUN = "runs/0fd7519c3c74816476a43be7d0df2551b99b3e5166e125214134f82c556b6cde.json"
RECORD = f"studies/{STUDY}/study.json"
CONFIGURATION = f"studies/{STUDY}/configurations/1.json"
REPLICATE = f"studies/{STUDY}/replicates/1.json"
FILES = {
    "seed run": RUN,
    "study": RECORD,
    "configuration": CONFIGURATION,
    "replicate": REPLICATE,
}


def text(content: str) -> Change:
    return lambda file: file.write_text(content, encoding="utf-8")


def folder_there(file: Path) -> None:
    file.unlink()
    file.mkdir()


def loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def huge(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.truncate(2**40)  # a sparse file


def raw(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00" * 99)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-99])


BROKEN: dict[str, Change] = {
    "empty": text(""),
    "null": text("null"),
    "list": text("[]"),
    "object": text("{}"),
    "deep": text("[" * DEEP + "]" * DEEP),
    "deep object": text('{"a":' * DEEP + "1" + "}" * DEEP),
    "long number": text('{"a":' + "1" * 9999 + "}"),
    "bytes": raw,
    "cut": cut,
    "folder": folder_there,
    "loop": loop,
    "pipe": pipe,
    "huge": huge,
}


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the storage of release 0.1.0, have no checksumss."""
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "0.1.0" / "storage"


@pytest.fixture(scope="session")
def verified(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same storage as the present release writes it, with checksums."""
    storage = tmp_path_factory.mktemp("sealed") / "storage"
    shutil.copytree(release, storage)
    for file in storage.rglob("*.json"):
        stored = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps(sealed(stored)), encoding="utf-8")
    for study in (storage / "studies").iterdir():
        count = len([*(study / "configurations").iterdir()])
        counted = json.dumps(sealed({"count": count}))
        (study / "configurations.json").write_text(counted, encoding="utf-8")
    return storage


@pytest.fixture
def old(release: Path, folder: Path) -> Path:
    """Return a copy of the storage of release 0.1.0, in the current folder."""
    return Path(shutil.copytree(release, folder / "storage"))


@pytest.fixture
def storage(verified: Path, folder: Path) -> Path:
    """Return a copy of the storage with checksums, in the current folder."""
    return Path(shutil.copytree(verified, folder / "storage"))


def said(ended: Ended) -> str:
    """Return all that a command printed, in one line."""
    return " ".join(f"{ended.out} {ended.err}".split())


def edited(change: Callable[[dict[str, Any]], object]) -> Change:
    def write(file: Path) -> None:
        stored = json.loads(file.read_text(encoding="utf-8"))
        change(stored)
        file.write_text(json.dumps(stored), encoding="utf-8")

    return write


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("kind", FILES)
def test_select_and_ls_name_a_broken_file(
    storage: Path, command: Command, kind: str, how: str
) -> None:
    file = storage / FILES[kind]
    BROKEN[how](file)
    name = "/".join(file.parts[-2:])
    selected = command("select", STUDY, "--storage", "storage", "--json")
    if kind == "study":
        selected.assert_refused(name, "Move it away")
    else:
        selected.assert_clear()
        assert selected.code == 3
        told = json.loads(selected.out)["notes"]
        assert told[0].startswith("warning: damaged files, left out of the ranking: 1;")
        assert len([note for note in told if name in note]) == 1
    listed = command("ls", "studies", "--storage", "storage")
    listed.assert_clear()
    assert listed.code == 0
    names = [line for line in listed.out.splitlines() if "\t" in line]
    assert len(names) == len([*storage.glob("studies/*")])
    assert (name in listed.out) == (kind != "seed run")


EDITS: dict[str, tuple[str, Change]] = {
    "study task": (RECORD, edited(lambda it: it["identity"].update(task="rte"))),
    "study rule": (RECORD, edited(lambda it: it["origin"].update(rule="max"))),
    "configuration value": (CONFIGURATION, edited(lambda it: it["values"].update(tau=0.5))),
    "configuration field": (CONFIGURATION, edited(lambda it: it["fields"].update(epochs=9))),
    "replicate seed": (REPLICATE, edited(lambda it: it["seeds"].update(order=7))),
    "replicate rows": (REPLICATE, edited(lambda it: it["rows"].update(test="0" * 64))),
    "replicate notes": (REPLICATE, edited(lambda it: it["notes"].append("sound"))),
    "seed run score": (RUN, edited(lambda it: it["test"].update(confusion=[[10, 0], [0, 10]]))),
    "seed run time": (RUN, edited(lambda it: it.update(seconds=1.0))),
    "other checksum": (REPLICATE, edited(lambda it: it.update(sha256="0" * 64))),
    "checksum list": (REPLICATE, edited(lambda it: it.update(sha256=[]))),
    "checksum number": (RECORD, edited(lambda it: it.update(sha256=7))),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_file_is_detected(storage: Path, command: Command, edit: str) -> None:
    name, change = EDITS[edit]
    change(storage / name)
    ended = command("select", STUDY, "--storage", "storage")
    ended.assert_clear()
    assert ended.code == (2 if name == RECORD else 3)
    assert "checksum" in said(ended)
    assert Path(name).name[:40] in said(ended).replace(" ", "")


WITHOUT_CHECKSUM: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "rows null": (REPLICATE, lambda it: it.update(rows=None)),
    "rows list": (REPLICATE, lambda it: it.update(rows=[1])),
    "rows of numbers": (REPLICATE, lambda it: it["rows"].update(train=7)),
    "seeds null": (REPLICATE, lambda it: it.update(seeds=None)),
    "negative seed": (REPLICATE, lambda it: it["seeds"].update(order=-1)),
    "notes text": (REPLICATE, lambda it: it.update(notes="text")),
    "replicate number": (REPLICATE, lambda it: it.update(number=0)),
    "configuration number": (CONFIGURATION, lambda it: it.update(number=True)),
    "fields null": (CONFIGURATION, lambda it: it.update(fields=None)),
    "values list": (CONFIGURATION, lambda it: it.update(values=[])),
    "values nan": (CONFIGURATION, lambda it: it["values"].update(tau=float("nan"))),
    "values infinite": (CONFIGURATION, lambda it: it["values"].update(tau=float("inf"))),
    "origin number": (CONFIGURATION, lambda it: it.update(origin=1)),
    "field more": (CONFIGURATION, lambda it: it.update(later=1)),
    "field less": (CONFIGURATION, lambda it: it.pop("values")),
    "study name": (RECORD, lambda it: it.update(name="other")),
    "identity null": (RECORD, lambda it: it.update(identity=None)),
    "no space": (RECORD, lambda it: it["identity"].pop("space")),
    "space list": (RECORD, lambda it: it["identity"].update(space=[])),
    "parameters numbers": (RECORD, lambda it: it["identity"]["space"].update(parameters=[1])),
    "unknown metric": (RECORD, lambda it: it["training"].update(metric="beauty")),
    "method null": (RECORD, lambda it: it["training"].update(method=None)),
    "no rule": (RECORD, lambda it: it["origin"].pop("rule")),
    "unknown rule": (RECORD, lambda it: it["origin"].update(rule="worst")),
    "origin notes": (RECORD, lambda it: it["origin"].update(notes=None)),
    "created text": (RECORD, lambda it: it.update(created="today")),
    "negative W": (RECORD, lambda it: it.update(open_configurations=-1)),
    "kept 99": (RUN, lambda it: it.update(kept=99)),
    "kept null": (RUN, lambda it: it.update(kept=None)),
    "no evaluations": (RUN, lambda it: it.update(evaluations=[])),
    "evaluations number": (RUN, lambda it: it.update(evaluations=7)),
    "no validation": (RUN, lambda it: it["evaluations"][0].pop("validation")),
    "no confusion": (RUN, lambda it: it["test"].clear()),
    "prediction out of range": (RUN, lambda it: it["predictions"]["test"].append(2)),
    "prediction more": (RUN, lambda it: it["predictions"]["validation"].append(1)),
    "negative count": (RUN, lambda it: it["test"].update(confusion=[[-500, 1], [1, 1]])),
    "ragged counts": (RUN, lambda it: it["test"].update(confusion=[[1], [1, 1]])),
    "counts of zero": (RUN, lambda it: it["test"].update(confusion=[[0, 0], [0, 0]])),
    "count nan": (RUN, lambda it: it["test"].update(confusion=[[float("nan"), 1], [1, 1]])),
    "text predictions": (RUN, lambda it: it["predictions"].update(test=["n"])),
    "predictions null": (RUN, lambda it: it.update(predictions=None)),
    "infinite time": (RUN, lambda it: it.update(seconds=float("inf"))),
    "key": (RUN, lambda it: it.update(key="0" * 64)),
    "identity": (RUN, lambda it: it["identity"].update(engine=1)),
    "failure text": (RUN, lambda it: it.update(failure="so")),
    "environment list": (RUN, lambda it: it.update(environment=[1])),
}


@pytest.mark.parametrize("edit", WITHOUT_CHECKSUM)
def test_a_wrong_form_is_detected_without_a_checksum(
    old: Path, command: Command, edit: str
) -> None:
    name, change = WITHOUT_CHECKSUM[edit]
    edited(change)(old / name)
    ended = command("select", STUDY, "--storage", "storage")
    ended.assert_clear()
    assert ended.code == (2 if name == RECORD else 3), said(ended)
    named = "Unknown rule 'worst'" if edit == "unknown rule" else "/".join(Path(name).parts[-2:])
    assert named.replace(" ", "") in said(ended).replace(" ", "")


@pytest.mark.parametrize("name", [CONFIGURATION.replace("1.", "3."), CONFIGURATION, REPLICATE])
def test_a_deleted_record_is_told_even_the_last(storage: Path, command: Command, name: str) -> None:
    (storage / name).unlink()
    ended = command("select", STUDY, "--storage", "storage")
    assert ended.code == 3
    assert "was deleted" in said(ended)


@pytest.mark.parametrize("kind", ["configurations", "replicates"])
def test_a_record_copied_over_another_is_detected(
    storage: Path, command: Command, kind: str
) -> None:
    folder = storage / "studies" / STUDY / kind
    shutil.copy(folder / "0.json", folder / "1.json")
    ended = command("select", STUDY, "--storage", "storage")
    assert ended.code == 3
    assert "number: must be 1, got 0" in said(ended)


def test_a_study_copied_over_another_is_detected(storage: Path, command: Command) -> None:
    shutil.copy(storage / "studies" / OTHER / "study.json", storage / RECORD)
    ended = command("select", STUDY, "--storage", "storage")
    ended.assert_refused(f"name: must be 'search', got '{OTHER}'", "Move it away")


def test_every_damaged_file_is_named_at_once(storage: Path, command: Command) -> None:
    names = [RUN, CONFIGURATION, REPLICATE, CONFIGURATION.replace("1.", "2.")]
    for name in names:
        (storage / name).write_text("{}", encoding="utf-8")
    ended = command("select", STUDY, "--storage", "storage", "--json")
    assert ended.code == 3
    for name in names:
        assert name in ended.out


def test_records_without_checksum_are_noted_once(old: Path, command: Command) -> None:
    ended = command("select", STUDY, "--storage", "storage")
    assert ended.code == 0
    assert said(ended).count("have no checksums") == 1


def test_a_store_with_checksums_has_no_such_note(storage: Path, command: Command) -> None:
    assert "have no checksums" not in said(command("select", STUDY, "--storage", "storage"))


READERS: dict[str, tuple[str, ...]] = {
    "select": ("select", STUDY),
    "compare": ("compare", STUDY, OLD),
    "rerun": ("rerun", Path(RUN).stem[:12]),
    "confirm": ("confirm", STUDY, "--gpus-per-trial", "0", "--dry-run"),
    "variance": ("variance", STUDY, "--gpus-per-trial", "0", "--dry-run"),
    "export": ("export", STUDY, "out"),
    "track": ("track", STUDY, "--tracking", "sqlite:///mlflow.db"),
    "ls": ("ls", "studies"),
}


@pytest.mark.parametrize("how", ["empty", "deep", "folder", "loop", "pipe", "huge"])
@pytest.mark.parametrize("reader", READERS)
def test_every_command_survives_damage_of_every_kind_of_file(
    storage: Path, command: Command, reader: str, how: str
) -> None:
    for name in FILES.values():
        shutil.copytree(storage, "whole")
        BROKEN[how](storage / name)
        ended = command(*READERS[reader], "--storage", "storage")
        ended.assert_clear()
        assert ended.code in {0, 2, 3}, said(ended)
        if ended.code == 2:
            assert re.search(r"\.json|--|/srv/", ended.err), ended.err
        shutil.rmtree(storage)
        shutil.rmtree("out", ignore_errors=True)
        Path("whole").rename(storage)


@pytest.mark.parametrize("place", ["runs", f"studies/{STUDY}/configurations", "studies"])
@pytest.mark.parametrize("there", ["file", "loop", "pipe"])
@pytest.mark.parametrize("reader", ["select", "rerun", "ls", "export"])
def test_a_folder_of_the_store_that_is_none_is_named(
    storage: Path, command: Command, place: str, there: str, reader: str
) -> None:
    folder = storage / place
    shutil.rmtree(folder)
    {"file": Path.touch, "loop": lambda it: it.symlink_to(it), "pipe": os.mkfifo}[there](folder)
    ended = command(*READERS[reader], "--storage", "storage")
    ended.assert_clear()
    assert (
        ended.code == 2
        or (reader, place) == ("ls", f"studies/{STUDY}/configurations")
        or (reader == "rerun" and place != "runs")
    ), said(ended)
    if ended.code == 2 and reader != "rerun":
        assert f"{folder}: is not a folder" in said(ended)


@pytest.mark.parametrize("name", ["notes.txt", "a"])
def test_a_file_among_the_studies_is_no_study(storage: Path, command: Command, name: str) -> None:
    (storage / "studies" / name).write_text("hello", encoding="utf-8")
    ended = command("ls", "studies", "--storage", "storage")
    assert ended.code == 0
    assert name not in [line.split("\t")[0] for line in ended.out.splitlines()]


@pytest.mark.parametrize("name", ["²", "00", "-1", "1 copy", "x" * 200, "9" * 99])
def test_files_with_other_names_beside_the_records_are_left_alone(
    storage: Path, command: Command, name: str
) -> None:
    before = command("select", STUDY, "--storage", "storage").out
    (storage / "studies" / STUDY / "configurations" / f"{name}.json").write_text("{}")
    assert command("select", STUDY, "--storage", "storage").out == before
