"""Tests of the selection of texts to paraphrase."""

from typing import Any

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.methods.cmlm import CSSL
from sclsearch.papers.augmentation.write import select_texts
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Size
from sclsearch.protocols.variants import fresh
from sclsearch.tasks import TASKS, load_task
from sclsearch.tasks.base import Split, TaskData, Texts


@pytest.fixture(scope="module")
def demo() -> TaskData:
    return load_task("demo")


def trained_on(data: TaskData, protocol: str, size: Size | None, seeds: int) -> set[Texts]:
    found = PROTOCOLS[protocol]
    rows = [found.splits(data, size, found.replicate(number)).train for number in range(seeds)]
    return {data.splits[one.split].texts[row] for one in rows for row in one.index}


@pytest.mark.parametrize(
    ("given", "protocol", "size", "seeds"),
    [
        ({"train_size": 20}, CSSL.few_shot, Size(20), 15),
        ({"protocol": "gunel-fewshot", "shots": 5}, "gunel-fewshot", Size(None, 5), 10),
        ({"protocol": "supcl-seq-heldout", "replicates": 1}, "supcl-seq-heldout", None, 1),
        ({"protocol": "gunel-noisy", "train_size": 20}, "gunel-fewshot", Size(20), 10),
    ],
    ids=["method's protocol", "few shots", "all rows", "joined"],
)
def test_the_texts_are_the_training_texts_of_all_replicates(
    demo: TaskData, given: dict[str, Any], protocol: str, size: Size | None, seeds: int
) -> None:
    selection = select_texts("demo", **given)
    texts = selection.texts(demo)
    assert set(texts) == trained_on(demo, protocol, size, seeds)
    assert len(texts) == len(set(texts))
    header = {"size": str(size or "full"), "protocol": given.get("protocol", protocol)}
    assert selection.header == {"task": "demo", "replicates": seeds, **header}


def test_replicates_beyond_those_of_the_protocol_are_fresh(demo: TaskData) -> None:
    own = PROTOCOLS[CSSL.few_shot]
    texts = set(select_texts("demo", train_size=20, replicates=own.replicates + 2).texts(demo))
    again = fresh(own, 3)
    for number, included in enumerate((True, True, False)):
        rows = again.splits(demo, Size(20), again.replicate(number)).train
        assert ({demo.splits["train"].texts[row] for row in rows.index} <= texts) == included
    assert trained_on(demo, CSSL.few_shot, Size(20), 15) <= texts


def test_without_a_size_all_training_texts_but_blank_ones_are_selected(demo: TaskData) -> None:
    selection = select_texts("demo")
    assert selection.texts(demo) == tuple(dict.fromkeys(demo.splits["train"].texts))
    with pytest.raises(SclsearchError, match=r"^--replicates: does not apply"):
        select_texts("demo", replicates=3)
    rows: tuple[Texts, ...] = (("a", ""), ("", " "), ("b", "c"), ("a", ""))
    data = TaskData(TASKS["qqp"], {"train": Split(rows, np.zeros(4, np.int64))}, "here")
    assert select_texts("qqp").texts(data) == (("a", ""), ("b", "c"))
