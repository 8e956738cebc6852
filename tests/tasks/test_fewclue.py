"""FewCLUE's unions hold their parts, share no text, and load whole."""

import json
from pathlib import Path

import numpy as np

from sclsearch.tasks import load_task
from sclsearch.tasks.base import Texts

DIGEST = "d4224a26b545f477a18f870aac81f8cce9fde4c6844f34ce38799d9084d3ddc1"


def texts_of(file: Path) -> set[Texts]:
    lines = file.read_text("utf-8").split("\n")
    return {(json.loads(line)["sentence"].rstrip(),) for line in lines if line.strip()}


def test_every_row_of_eprstmt_is_read_and_pinned(glue: Path) -> None:
    loaded = load_task("eprstmt", glue.parent / "fewclue")
    counts = {name: np.bincount(rows.y).tolist() for name, rows in loaded.splits.items()}
    assert counts == {"train": [76, 84], "validation": [86, 74], "test": [305, 305]}
    assert loaded.digest == DIGEST


def test_a_union_holds_its_five_parts_and_no_text_is_in_two_splits(glue: Path) -> None:
    folder = glue.parent / "fewclue"
    splits = load_task("eprstmt", folder).splits
    found = {name: set(rows.texts) for name, rows in splits.items()}
    for name, union in (("train", found["train"]), ("dev", found["validation"])):
        parts = [texts_of(folder / "eprstmt" / f"{name}_{n}.json") for n in range(5)]
        assert set().union(*parts) == union
    assert not found["train"] & found["validation"]
    assert not (found["train"] | found["validation"]) & found["test"]


def test_twenty_rows_a_class_can_be_drawn(glue: Path) -> None:
    splits = load_task("eprstmt", glue.parent / "fewclue").splits
    assert (
        min(np.bincount(splits["train"].y).min(), np.bincount(splits["validation"].y).min()) >= 20
    )
