"""A digest is a function of the rows, the same for many texts as for few."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.canonical import digest
from sclsearch.tasks import base
from sclsearch.tasks.base import Split, Task, TaskData, Texts, first_classes

TASK = Task("task", "", ("a", "b"), "accuracy")
ROWS = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.text("é\"'")))


def whole(texts: tuple[Texts, ...]) -> str:
    y = np.zeros(len(texts), np.int64)
    labels = hashlib.sha256(y.tobytes()).hexdigest()
    return digest({"train": [digest(texts), labels, "int64"]})


@given(ROWS, st.integers(1, 4))
def test_texts_digested_by_parts_are_as_if_digested_at_once(
    rows: list[tuple[str, str]], at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "DIGESTED_AT_ONCE", at_once)
        split = Split(tuple(rows), np.zeros(len(rows), np.int64))
        assert TaskData(TASK, {"train": split}, "here").digest == whole(split.texts)


def test_what_is_to_be_known_of_the_rows_stays_known_of_the_first_classes() -> None:
    task = Task("toy", "", ("a", "b", "c"), "accuracy")
    split = Split((("one",), ("two",)), np.array([0, 2], np.int64))
    found = first_classes(TaskData(task, {"train": split}, "here", notes=("made up",)), 2)
    assert (found.notes, len(found.splits["train"])) == (("made up",), 1)
