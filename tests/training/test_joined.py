"""Tests of paraphrases that are added to the training rows with the label of their text."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.encoders.load import load_tokenizer
from sclsearch.protocols.base import Rows
from sclsearch.protocols.papers import plain_rows
from sclsearch.tasks.base import Split, Task, TaskData, Texts
from sclsearch.tasks.paraphrases import Paraphrases, paraphrase_source
from sclsearch.training.data import join, joined_rows, tokenize_task
from sclsearch.training.engine import train
from tests.training.conftest import WorkFor

COUNT = 3
LABELS = st.lists(st.integers(0, 2), min_size=1, max_size=20)
SCORES = st.lists(st.floats(0, 5), min_size=1, max_size=20)


@given(labels=LABELS | SCORES, count=st.integers(0, 4), draw=st.data())
def test_each_drawn_row_gets_its_paraphrases_with_its_label(
    labels: list[float], count: int, draw: st.DataObject
) -> None:
    total = len(labels)
    drawn = sorted(draw.draw(st.sets(st.integers(0, total - 1), min_size=1)))
    split = Split(tuple((f"{row}",) for row in range(total)), np.array(labels))
    splits = {"train": split, "test": split}
    data = TaskData(Task("toy", "", (), "pearson"), splits, "memory")
    views: dict[Texts, Paraphrases] = {
        (f"{row}",): tuple((f"{row}/{view}",) for view in range(count)) for row in drawn
    }
    longer = join(data, views, count)
    rows = joined_rows(Rows("train", np.array(drawn)), count, len(longer.splits["train"]))
    texts = [longer.splits["train"].texts[row][0] for row in rows.index]
    expected = [f"{row}" for row in drawn]
    expected += [f"{row}/{view}" for view in range(count) for row in drawn]
    assert texts == expected
    assert rows.labels(longer).tolist() == [labels[row] for row in drawn] * (1 + count)
    assert rows.labels(longer).dtype == split.y.dtype
    assert (np.diff(rows.index) > 0).all()
    assert longer.splits["train"].texts[:total] == split.texts
    assert longer.splits["test"] is split
    assert longer.digest == data.digest


@pytest.mark.parametrize("method", ["scl", "supcl-seq", "tapt", "cssl"])
def test_stages_train_as_on_a_task_with_the_paraphrases_as_rows(
    work_for: WorkFor, toy: TaskData, tiny_bert: Path, method: str
) -> None:
    source = paraphrase_source(None, COUNT)
    longer = join(toy, source.views(toy.splits["train"].texts), COUNT)
    read = source.views(longer.splits["train"].texts) if method == "cssl" else None
    spec = work_for(method, epochs=2).spec
    tokens = tokenize_task(longer, load_tokenizer(tiny_bert), spec.training.max_length, read)
    joined = train(replace(spec, joined=COUNT), tokens)
    plain = train(replace(spec, splits=plain_rows(longer)), tokens)
    assert joined.evaluations == plain.evaluations
    assert joined.stages == plain.stages
    assert joined.predictions == plain.predictions
    # 44 rows and three paraphrases of each in batches of 8.
    records: list[Any] = [*joined.stages, *joined.evaluations]
    assert {round(one["update"] / one["epoch"]) for one in records} == {22}
