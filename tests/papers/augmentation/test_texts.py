"""Tests of the selection of texts to paraphrase."""

from pathlib import Path
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
from sclsearch.tasks.custom import CustomTask

CSSL_ON_DEMO = "--method cssl --task demo"


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
    assert selection.header == {
        "task": "demo",
        "size": str(size or "full"),
        "protocol": given.get("protocol", protocol),
        "replicates": seeds,
    }


def test_replicates_beyond_those_of_the_protocol_are_fresh(demo: TaskData) -> None:
    own = PROTOCOLS[CSSL.few_shot]
    texts = set(select_texts("demo", train_size=20, replicates=own.replicates + 2).texts(demo))
    again = fresh(own, 3)
    for number, included in enumerate((True, True, False)):
        rows = again.splits(demo, Size(20), again.replicate(number)).train
        assert ({demo.splits["train"].texts[row] for row in rows.index} <= texts) == included
    assert trained_on(demo, CSSL.few_shot, Size(20), 15) <= texts


@pytest.mark.parametrize(
    ("given", "options", "name"),
    [
        ({}, CSSL_ON_DEMO, "demo-full"),
        (
            {"protocol": "gunel-fewshot", "shots": 5, "replicates": 2},
            f"{CSSL_ON_DEMO} --protocol gunel-fewshot --shots 5 --seeds 2 --rule mean",
            "demo-5-per-class-gunel-fewshot",
        ),
        (
            {"train_size": 20, "replicates": 3, "unlabeled": 60},
            f"{CSSL_ON_DEMO} --train-size 20 --unlabeled 60 --seeds 3",
            "demo-20-unlabeled-60",
        ),
        (
            {"protocol": "gunel-noisy", "train_size": 20, "replicates": 3},
            "--method scl --task demo --protocol gunel-noisy --train-size 20 --seeds 3",
            "demo-20-gunel-noisy",
        ),
        (
            {"task": "stsb", "protocol": "gunel-noisy", "train_size": 20},
            "--method ce --task stsb --protocol gunel-noisy --train-size 20",
            "stsb-20-gunel-noisy",
        ),
    ],
    ids=["all", "protocol", "unlabeled", "joined", "regression"],
)
def test_a_selection_has_options_for_tune_and_a_file_name(
    given: dict[str, Any], options: str, name: str
) -> None:
    selection = select_texts(**{"task": "demo", **given})
    assert (" ".join(selection.options), selection.file_name) == (options, name)


def test_without_a_size_all_training_texts_but_blank_ones_are_selected(demo: TaskData) -> None:
    selection = select_texts("demo")
    assert selection.texts(demo) == tuple(dict.fromkeys(demo.splits["train"].texts))
    assert selection.header["protocol"] is None
    rows: tuple[Texts, ...] = (("a", ""), ("", " "), ("b", "c"), ("a", ""))
    data = TaskData(TASKS["qqp"], {"train": Split(rows, np.zeros(4, np.int64))}, "here")
    assert select_texts("qqp").texts(data) == (("a", ""), ("b", "c"))


def test_inconsistent_options_are_an_error() -> None:
    for given, message in (
        ({"protocol": "cmlm-full", "train_size": 20}, "--protocol cmlm-full"),
        ({"protocol": "cmlm-fewshot"}, "--protocol cmlm-fewshot"),
        ({"replicates": 3}, "--replicates: does not apply to all training texts"),
        ({"protocol": "gunel-noisy", "train_size": 20, "unlabeled": 40}, "--unlabeled"),
    ):
        with pytest.raises(SclsearchError, match=f"^{message}"):
            select_texts("demo", **given)


def test_texts_of_stages_without_labels_are_drawn_too(demo: TaskData) -> None:
    few = select_texts("demo", train_size=20, replicates=2)
    more = select_texts("demo", train_size=20, replicates=2, unlabeled=60)
    assert 60 <= len(more.texts(demo)) <= 120
    assert set(few.texts(demo)) < set(more.texts(demo))
    assert more.header == {**few.header, "unlabeled": 60}
    noisy = select_texts("demo", "gunel-noisy", train_size=20)
    assert (noisy.views(None), noisy.views(3), noisy.views(7)) == (3, 3, 7)
    assert few.views(None) == 2


def test_texts_of_custom_files_are_drawn_like_others(tmp_path: Path) -> None:
    path = tmp_path / "afqmc.csv"  # not the Chinese task of this name
    path.write_text("text,label\n" + "".join(f"row {n},{n % 2}\n" for n in range(100)))
    task = CustomTask(path, ("text",), "label", fractions=(0.5, 0.25, 0.25))
    selection = select_texts(task, train_size=20)
    selection.check_english("marian")
    data = load_task(task)
    assert set(selection.texts(data)) == trained_on(data, CSSL.few_shot, Size(20), 15)
    assert selection.header["task"] == "afqmc"
    assert " ".join(selection.options) == (
        f"--method cssl --task {path} --text text --label label --fractions 0.5,0.25,0.25 "
        "--train-size 20"
    )
