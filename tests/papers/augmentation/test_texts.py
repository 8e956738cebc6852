"""The texts are those that the replicates of a study train on, each once."""

from pathlib import Path

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.methods.cssl import CSSL
from sclsearch.papers.augmentation.texts import find_drawn
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Size
from sclsearch.protocols.repeated import fresh
from sclsearch.tasks import TASKS, load_task
from sclsearch.tasks.base import Split, TaskData, Texts
from sclsearch.tasks.custom import CustomTask

CSSL_ON_DEMO = ["--method", "cssl", "--task", "demo"]


@pytest.fixture(scope="module")
def demo() -> TaskData:
    return load_task("demo")


def trained_on(data: TaskData, protocol: str, size: Size | None, seeds: int) -> set[Texts]:
    found = PROTOCOLS[protocol]
    rows = [found.splits(data, size, found.replicate(number)).train for number in range(seeds)]
    return {data.splits[one.split].texts[row] for one in rows for row in one.index}


def test_with_a_size_they_are_those_of_all_replicates_of_cssl(demo: TaskData) -> None:
    drawn = find_drawn("demo", None, 20, None, None)
    texts = drawn.texts(demo)
    assert set(texts) == trained_on(demo, CSSL.few_shot, Size(20), 15)
    assert len(texts) == len(set(texts)) > 20
    assert drawn.header == {
        "task": "demo",
        "size": "20",
        "protocol": CSSL.few_shot,
        "replicates": 15,
    }
    assert drawn.options == [*CSSL_ON_DEMO, "--train-size", "20"]


def test_with_more_replicates_than_the_protocols_they_are_those_of_fresh_ones_too(
    demo: TaskData,
) -> None:
    own = PROTOCOLS[CSSL.few_shot]
    texts = set(find_drawn("demo", None, 20, None, own.replicates + 2).texts(demo))
    again = fresh(own, 3)
    for number, there in enumerate((True, True, False)):
        rows = again.splits(demo, Size(20), again.replicate(number)).train
        assert ({demo.splits["train"].texts[row] for row in rows.index} <= texts) == there
    assert trained_on(demo, CSSL.few_shot, Size(20), 15) <= texts


def test_another_protocol_and_fewer_replicates_are_told_on(demo: TaskData) -> None:
    drawn = find_drawn("demo", "gunel-fewshot", None, 5, 2)
    assert set(drawn.texts(demo)) == trained_on(demo, "gunel-fewshot", Size(None, 5), 2)
    assert drawn.options == [
        *CSSL_ON_DEMO,
        *("--protocol", "gunel-fewshot", "--shots", "5", "--seeds", "2", "--rule", "mean"),
    ]


def test_a_rule_that_needs_more_seeds_is_replaced_and_another_is_not() -> None:
    told = find_drawn("demo", "gunel-noisy", 20, None, 2).options
    assert told[-4:] == ["--seeds", "2", "--rule", "mean"]
    assert find_drawn("demo", "gunel-noisy", 20, None, 3).options[-2:] == ["--seeds", "3"]


def test_a_protocol_of_all_rows_has_what_it_trains_on(demo: TaskData) -> None:
    texts = find_drawn("demo", "supcl-seq-heldout", None, None, 1).texts(demo)
    assert set(texts) == trained_on(demo, "supcl-seq-heldout", None, 1)
    assert len(texts) < len(demo.splits["train"])


def test_without_a_size_they_are_all_training_texts(demo: TaskData) -> None:
    drawn = find_drawn("demo", None, None, None, None)
    assert drawn.texts(demo) == tuple(dict.fromkeys(demo.splits["train"].texts))
    assert drawn.header["protocol"] is None
    assert drawn.options == CSSL_ON_DEMO


def test_pairs_of_real_data_are_drawn_as_pairs(glue: Path) -> None:
    data = load_task("mrpc", glue)
    texts = find_drawn("mrpc", None, 20, None, 5).texts(data)
    assert len(texts) <= 100
    assert {len(row) for row in texts} == {2}


def test_a_blank_text_is_left_out_and_half_a_pair_is_not() -> None:
    rows: tuple[Texts, ...] = (("a", ""), ("", " "), ("b", "c"), ("a", ""))
    data = TaskData(TASKS["qqp"], {"train": Split(rows, np.zeros(4, np.int64))}, "here")
    assert find_drawn("qqp", None, None, None, None).texts(data) == (("a", ""), ("b", "c"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("dmeo", None, None, None, None), "Unknown task 'dmeo'. Did you mean 'demo'?"),
        (("demo", None, 20, 5, None), "--train-size: it must come without --shots, but both"),
        (("demo", "gunel", 20, None, None), "Unknown protocol 'gunel'. Did you mean 'gunel-"),
        (("demo", "cmlm-full", 20, None, None), "--protocol cmlm-full: it trains on all rows, but"),
        (("demo", "cmlm-fewshot", None, None, None), "--protocol cmlm-fewshot: a training size"),
        (("demo", None, None, None, 3), "--replicates: it must come with a training size or a"),
        (("demo", None, None, None, None, 40), "--unlabeled 40: it must come with a training s"),
        (("demo", "gunel-noisy", 20, None, None, 40), "--unlabeled 40: it must come with a prot"),
    ],
    ids=("task", "two sizes", "protocol", "size", "no size", "replicates", "all", "joined"),
)
def test_options_that_do_not_fit_are_refused(
    options: tuple[str, str | None, int | None, int | None, int | None, int | None], message: str
) -> None:
    with pytest.raises(SclsearchError) as raised:
        find_drawn(*options)
    assert str(raised.value).startswith(message)


def test_texts_of_stages_without_labels_are_drawn_too(demo: TaskData) -> None:
    few = find_drawn("demo", None, 20, None, 2)
    more = find_drawn("demo", None, 20, None, 2, 60)
    assert 60 <= len(more.texts(demo)) <= 120
    assert set(few.texts(demo)) < set(more.texts(demo))
    assert more.header == {**few.header, "unlabelled": 60}
    size, seeds = few.options[-4:-2], few.options[-2:]
    assert more.options == [*CSSL_ON_DEMO, *size, "--unlabeled", "60", *seeds]


def test_files_of_ones_own_are_told_on_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "afqmc.csv"  # no Chinese task, whatever it is called
    path.write_text("text,label\n" + "".join(f"row {n},{n % 2}\n" for n in range(100)))
    files = CustomTask(path, ("text",), "label", fractions=(0.5, 0.25, 0.25))
    drawn = find_drawn(files, None, 20, None, None)
    drawn.check_english("marian")
    data = load_task(files)
    assert set(drawn.texts(data)) == trained_on(data, CSSL.few_shot, Size(20), 15)
    assert drawn.header["task"] == "afqmc"
    assert drawn.options == [
        *("--method", "cssl", "--task", str(path), "--text", "text", "--label", "label"),
        *("--fractions", "0.5,0.25,0.25", "--train-size", "20"),
    ]


def test_scores_are_joined_by_a_method_that_has_them(tmp_path: Path) -> None:
    files = CustomTask(tmp_path / "pairs.csv", ("a", "b"), "score", regression=True)
    for task, method in ((files, "ce"), ("stsb", "ce"), ("sst2", "scl")):
        assert find_drawn(task, "gunel-noisy", 20, None, None).options[:2] == ["--method", method]


def test_texts_that_paraphrases_join_get_as_many_as_the_protocol_joins(demo: TaskData) -> None:
    drawn = find_drawn("demo", "gunel-noisy", 20, None, None)
    assert set(drawn.texts(demo)) == trained_on(demo, "gunel-fewshot", Size(20), 10)
    assert drawn.options == [
        *("--method", "scl", "--task", "demo", "--protocol", "gunel-noisy", "--train-size", "20")
    ]
    assert (drawn.views(None), drawn.views(3), drawn.views(7)) == (3, 3, 7)
    with pytest.raises(SclsearchError, match=r"^--views 2: it must be at least 3, which is how"):
        drawn.views(2)
    assert find_drawn("demo", None, 20, None, None).views(None) == 2


@pytest.mark.parametrize("task", ["afqmc", "eprstmt"])
def test_chinese_is_refused_where_english_is_needed(task: str) -> None:
    with pytest.raises(SclsearchError, match=f"must be English, but those of {task} are Chinese"):
        find_drawn(task, None, None, None, None).check_english("marian")
    find_drawn("sst2", None, None, None, None).check_english("marian")
