"""FewCLUE's unions hold their parts, share no text, and load whole."""

import json
from pathlib import Path

import numpy as np

from sclsearch.tasks import load_task
from sclsearch.tasks.base import TaskData, Texts

DIGEST = "fa741db42c8dd69efec1a3a4834f005d450fdb813776c3e6daa8f51ca00df116"


def texts_of(file: Path) -> set[Texts]:
    lines = file.read_text("utf-8").split("\n")
    return {(json.loads(line)["sentence"].rstrip(),) for line in lines if line.strip()}


def counts_of(data: TaskData) -> dict[str, list[int]]:
    return {name: np.bincount(rows.y).tolist() for name, rows in data.splits.items()}


def test_every_text_of_eprstmt_is_read_once_and_pinned(fewclue: Path) -> None:
    loaded = load_task("eprstmt", fewclue)
    assert all(len(set(rows.texts)) == len(rows) for rows in loaded.splits.values())
    assert counts_of(loaded) == {"train": [63, 68], "validation": [71, 64], "test": [305, 305]}
    assert loaded.digest == DIGEST
    assert loaded.source == (
        f"{fewclue / 'eprstmt'}; 29 texts of train_few_all.json that come again left out; 25 texts "
        "of dev_few_all.json that come again left out"
    )


def test_every_row_of_its_tnews_is_read(fewclue: Path) -> None:
    loaded = load_task("fewclue-tnews", fewclue)
    sizes = {name: len(rows) for name, rows in loaded.splits.items()}
    assert sizes == {"train": 1185, "validation": 1098, "test": 2010}
    assert loaded.source == str(fewclue / "tnews")
    first = json.loads((fewclue / "tnews" / "test_public.json").read_text("utf-8").split("\n")[0])
    assert loaded.splits["test"].texts[0] == (first["sentence"].rstrip(),)
    assert loaded.task.labels[loaded.splits["test"].y[0]] == first["label_desc"]


def test_a_union_holds_its_five_parts_and_no_text_is_in_two_splits(fewclue: Path) -> None:
    folder = fewclue
    splits = load_task("eprstmt", folder).splits
    found = {name: set(rows.texts) for name, rows in splits.items()}
    for name, union in (("train", found["train"]), ("dev", found["validation"])):
        parts = [texts_of(folder / "eprstmt" / f"{name}_{n}.json") for n in range(5)]
        assert set().union(*parts) == union
    assert not found["train"] & found["validation"]
    assert not (found["train"] | found["validation"]) & found["test"]


def test_twenty_rows_a_class_can_be_drawn(fewclue: Path) -> None:
    splits = load_task("eprstmt", fewclue).splits
    assert (
        min(np.bincount(splits["train"].y).min(), np.bincount(splits["validation"].y).min()) >= 20
    )
