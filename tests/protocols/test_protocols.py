"""Tests of all protocols, and of those of CMLM and LaCon: rows, notes, replicates and epochs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS, find_protocol
from sclsearch.protocols.base import Size, Splits
from sclsearch.protocols.papers import cmlm_few_shot_epochs, gunel_few_shot_epochs
from sclsearch.tasks import load_task
from sclsearch.tasks.base import TaskData
from tests.protocols.conftest import counts, labeled, row_ids, splits_of

NUMBERED = ("lacon-imbalance:20", "lacon-classes:14")
NAMES = [*PROTOCOLS, *NUMBERED]
FEW_SHOT = {name for name, protocol in PROTOCOLS.items() if protocol.few_shot}
DRAWN = FEW_SHOT.union(NUMBERED)
SHARED = {"supcl-seq", "gunel-full-overlap"}  # validation rows are test rows
DATA = labeled(train=[0, 1, 1] * 700, validation=[0, 1, 1] * 400)

# First digits of the SHA-256 of CoLA's training, validation and test rows. If one changes, stored
# seed runs on CoLA are no longer found.
COLA = {
    ("gunel-full", 0): "6d31758fb553b9fc f73cef69b9a0488b 53c24dba69dedce5",
    ("gunel-full-overlap", 0): "6d31758fb553b9fc bca4f0c3fce0e4fb 53c24dba69dedce5",
    ("gunel-fewshot", 0): "569a7e286be18cff f73cef69b9a0488b 53c24dba69dedce5",
    ("gunel-fewshot", 9): "bc8c330c3bad5da8 f73cef69b9a0488b 53c24dba69dedce5",
    ("gunel-noisy", 0): "569a7e286be18cff f73cef69b9a0488b 53c24dba69dedce5",
    ("gunel-noisy", 9): "bc8c330c3bad5da8 f73cef69b9a0488b 53c24dba69dedce5",
    ("supcl-seq", 0): "6d31758fb553b9fc 4c325af678556c8e 4c325af678556c8e",
    ("supcl-seq-heldout", 0): "021c99347d1d932a 579ecaf5a6dac7c0 4c325af678556c8e",
    ("lacon", 0): "3b1860f49e01bf2f f1f638906bec14e9 4c325af678556c8e",
    ("lacon-fewshot", 0): "569a7e286be18cff 481b8ac2fb6c48b6 4c325af678556c8e",
    ("lacon-fewshot", 9): "bc8c330c3bad5da8 97f26b7a9f1cd797 4c325af678556c8e",
    ("lacon-imbalance:1", 0): "69ec9940f68df337 d76a08cfc008754e 4c325af678556c8e",
    ("lacon-imbalance:3", 0): "52bc5e500f26c95a fe1ecbeb1f88717c 4c325af678556c8e",
    ("lacon-imbalance:5", 0): "2a187de1375ed706 19ee9ad3f311b41b 4c325af678556c8e",
    ("lacon-imbalance:10", 0): "9cc50aea67627635 eca02f7296507c2a 4c325af678556c8e",
    ("lacon-imbalance:20", 0): "1df8034a4f062838 4023f1349a1faddf 4c325af678556c8e",
    ("cmlm-full", 0): "6d31758fb553b9fc aded45a190454774 3123143f9b5d6415",
    ("cmlm-fewshot", 0): "da0206bffaf1dc2c aded45a190454774 3123143f9b5d6415",
    ("cmlm-fewshot", 9): "e5cbaeb4c50c0058 aded45a190454774 3123143f9b5d6415",
    ("plain", 0): "6d31758fb553b9fc bff59a87551044bb 53c24dba69dedce5",
    # Equal for each count: `Protocol.data` selects the classes before the rows are drawn.
    **dict.fromkeys(
        [(f"lacon-classes:{count}", 0) for count in range(2, 15)],
        "a974a62e2fb1f9f5 7dd8c9272d0ccddb 4c325af678556c8e",
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_replicates_redraw_only_the_rows_that_their_paper_redraws(name: str) -> None:
    protocol = find_protocol(name)
    protocol.rule.check(protocol.replicates)
    rows = [splits_of(name, DATA, number, 30) for number in range(protocol.replicates)]
    drawn = 5 if name == "cmlm-fewshot" else 10 if name in DRAWN else 1
    assert len({splits.train.digest for splits in rows}) == drawn
    held_out = name.startswith("lacon-")
    assert len({splits.validation.digest for splits in rows}) == (10 if held_out else 1)
    assert len({splits.test.digest for splits in rows}) == 1
    replicates = [protocol.replicate(number) for number in range(protocol.replicates + 7)]
    for purpose in ("initialization", "order", "noise"):
        own = {(replicate.subset, replicate.seeds[purpose]) for replicate in replicates}
        assert len(own) == len(replicates)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [0, 7])
def test_training_shares_no_row_with_validation_or_test(name: str, number: int) -> None:
    splits = splits_of(name, DATA, number, 30)
    train, validation, test = map(row_ids, (splits.train, splits.validation, splits.test))
    assert train
    assert validation
    assert test
    assert not train & (validation | test)
    assert bool(validation & test) == (name in SHARED)


@pytest.mark.parametrize("name", NAMES)
def test_equal_texts_in_a_users_file_are_in_one_part(name: str) -> None:
    copied = {
        split: replace(rows, texts=tuple((f"{split} {n % 700}",) for n in range(len(rows))))
        for split, rows in DATA.splits.items()
    }
    own = replace(DATA, task=replace(DATA.task, own=True), splits=copied)
    splits = splits_of(name, own, 0, 30)
    parts = [splits.train, splits.validation, *[splits.test] * (name not in SHARED)]
    texts = [{text for (text,) in rows.texts(own)} for rows in parts]
    assert len(set.union(*texts)) == sum(map(len, texts))
    assert all(texts[:2])


def test_the_metric_of_the_protocol_overrides_that_of_the_task() -> None:
    cola = labeled("cola", "mcc", train=[0, 1])
    metrics = {"gunel-full": "accuracy", "supcl-seq": "mcc", "cmlm-fewshot": "mcc", "plain": "mcc"}
    assert {name: find_protocol(name).metric(cola) for name in metrics} == metrics
    tnews = labeled("tnews", train=[0, 1])
    assert PROTOCOLS["lacon"].metric(tnews) == "macro_f1"
    own = replace(tnews, task=replace(tnews.task, own=True))
    assert PROTOCOLS["lacon"].metric(own) == "accuracy"


@pytest.fixture(scope="module")
def cola(glue: Path) -> TaskData:
    return load_task("cola", glue)


@pytest.mark.parametrize(("name", "number"), COLA, ids=str)
def test_the_rows_of_cola_are_pinned(cola: TaskData, name: str, number: int) -> None:
    assert {name for name, _ in COLA} >= set(PROTOCOLS)
    digests = splits_of(name, cola, number, 100).digests
    pinned = dict(zip(("train", "validation", "test"), COLA[name, number].split(), strict=True))
    assert {which: whole[:16] for which, whole in digests.items()} == pinned


@pytest.mark.parametrize("name", ["lacon-classes:1", "lacon-imbalance:02", "lacon-classes:N", "x"])
def test_an_unknown_name_or_number_is_refused(name: str) -> None:
    with pytest.raises(SclsearchError, match=f"^Unknown protocol '{name}'.* lacon-classes:N, "):
        find_protocol(name)


LACKING = labeled("toy", "f1", train=[0, 1], validation=[0, 0, 0], test=[0, 1])
ONE_CLASS = labeled("toy", "roc_auc", train=[0, 1], validation=[0, 1], test=[1, 1])
ONE = {"train": [0], "validation": [1]}
REFUSED: list[tuple[str, TaskData, str]] = [
    ("lacon-classes:2", labeled(train=[0, 1, 2] * 20, test=[2]), "toy: .*0 rows of the first 2"),
    ("lacon-classes:4", labeled(train=[0, 1, 2], test=[0]), "needs a task of at least 4 classes"),
    ("lacon-imbalance:3", labeled(train=[0, 1, 2] * 50, test=[0]), "needs a task of two classes"),
    ("lacon-imbalance:10", labeled(train=[0] * 300 + [1] * 20, test=[0]), "needs 32 training rows"),
    ("lacon", labeled(**ONE), "toy: .* no train rows in its train split with 1 "),
    ("cmlm-full", labeled(**ONE), "toy: .* no validation rows in its validation"),
    ("gunel-fewshot", labeled(train=[0.5] * 5, test=[0.5]), "--shots: .* toy is a regression"),
    ("plain", LACKING, "plain: validation rows: the metric f1 needs .* 'yes', got none"),
    ("plain", ONE_CLASS, "plain: test rows: the metric roc_auc needs .* two classes, got one"),
]


@pytest.mark.parametrize(("name", "data", "message"), REFUSED)
def test_a_protocol_that_does_not_fit_a_task_is_refused(
    name: str, data: TaskData, message: str
) -> None:
    with pytest.raises(SclsearchError, match=message):
        splits_of(name, find_protocol(name).data(data), size=Size(per_class=20))


VALIDATION = {"validation": [0, 1]}
MANY = [0] * 5400 + [1] * 7000


def sizes(splits: Splits) -> tuple[int, int]:
    return len(splits.validation.index), len(splits.test.index)


FEWER = ", fewer than the protocol's 500"


def test_cmlm_divides_the_validation_split_and_a_small_one_has_a_note() -> None:
    for rows, validation in ((577, 500), (576, 200), (71, 35), (2, 1)):
        splits = splits_of("cmlm-full", labeled(train=[0, 1], validation=[0] * rows))
        assert sizes(splits) == (validation, rows - validation)
        both = np.concatenate([splits.validation.index, splits.test.index])
        assert sorted(both) == list(range(rows))
        drawn, rest = splits.notes
        assert drawn == f"validation: {validation} random rows" + FEWER * (validation < 500)
        assert rest == f"test: the other {rows - validation} rows of the validation split"


def test_cmlm_uses_a_labeled_test_split_and_2000_rows_of_qqp() -> None:
    splits = splits_of("cmlm-full", labeled(train=[0, 1], validation=[0] * 400, test=[0, 1, 1]))
    assert (splits.test.split, sizes(splits)) == ("test", (400, 3))
    assert splits.notes == (f"validation: 400 random rows{FEWER}",)
    qqp = labeled("qqp", train=[0, 1], validation=[0, 1] * 3000)
    splits = splits_of("cmlm-full", qqp)
    assert sizes(splits) == (500, 2000)
    assert not {*splits.validation.index} & {*splits.test.index}
    assert "2000 random of the other 5500 rows" in splits.notes[1]
    own = replace(qqp, task=replace(qqp.task, own=True))
    assert sizes(splits_of("cmlm-full", own)) == (500, 5500)


def test_cmlm_replicates_combine_five_subsets_with_the_papers_three_seeds() -> None:
    protocol, full = PROTOCOLS["cmlm-fewshot"], PROTOCOLS["cmlm-full"]
    assert (protocol.replicates, full.replicates) == (15, 3)
    for number in range(15):
        seed = (31, 42, 53)[number // 5]
        replicate = protocol.replicate(number)
        assert replicate.subset == number % 5
        assert replicate.seeds == dict.fromkeys(("initialization", "order", "noise"), seed)
    assert [full.replicate(r).initialization for r in range(3)] == [31, 42, 53]


def test_few_shot_epochs_are_the_papers_or_make_as_many_updates() -> None:
    cmlm = {20: (350, 200), 100: (100, 50), 1000: (10, 5), 40: (233, 130), 9000: (3, 3)}
    for rows, (epochs, post_epochs) in cmlm.items():
        expected = {"epochs": epochs, "post_epochs": post_epochs}
        assert cmlm_few_shot_epochs(rows, 16) == expected
    gunel = {(1, 16): 100, (20, 16): 80, (112, 16): 15, (1000, 16): 10, (1000, 128): 13}
    for (rows, batch_size), epochs in gunel.items():
        found = gunel_few_shot_epochs(rows, batch_size)
        assert found == {"epochs": epochs, "probe_epochs": epochs}


@pytest.mark.parametrize(
    ("name", "train", "training", "validation"),
    [
        ("lacon", MANY, [4750, 4750], [250, 250]),
        ("lacon", [0] * 1500 + [1] * 400 + [2] * 1000, [950, 380, 950], [50, 20, 50]),
        ("lacon-classes:2", MANY, [950, 950], [50, 50]),
        ("lacon-classes:3", [0] * 1500 + [1] * 1200 + [2] * 400, [950, 950, 380], [50, 50, 20]),
    ],
)
def test_lacon_caps_the_rows_of_each_class_and_holds_out_a_twentieth(
    name: str, train: list[int], training: list[int], validation: list[int]
) -> None:
    data = labeled(train=train, **VALIDATION)
    first, second = splits_of(name, data), splits_of(name, data, 1)
    assert counts(first.train, data) == training
    assert counts(first.validation, data) == validation
    assert first.train.digest != second.train.digest
    assert first.validation.digest != second.validation.digest
    notes = " ".join(first.notes)
    assert "drawn anew in each replicate" in notes
    assert (f"classes: the first {len(training)} classes" in notes) == (name != "lacon")


def test_lacon_uses_all_rows_of_three_tasks_and_of_scores() -> None:
    scores = labeled(train=[n / 2 for n in range(12400)], validation=[0.5, 1.5])
    tasks = [labeled(name, train=MANY, **VALIDATION) for name in ("mrpc", "rte", "cola")]
    for data in (*tasks, scores):
        first, second = splits_of("lacon", data), splits_of("lacon", data, 1)
        assert first.digests == second.digests
        both = np.concatenate([first.train.index, first.validation.index])
        assert sorted(both) == list(range(12400))
        assert first.notes == (
            "test: all of the validation split, 2 rows",
            "validation: 620 rows, 5% of the 12400 training rows",
        )


@given(train=st.lists(st.integers(0, 2), min_size=60, max_size=200), number=st.integers(0, 30))
def test_lacon_few_shot_validation_has_as_many_rows_of_each_class_as_training(
    train: list[int], number: int
) -> None:
    data = labeled(train=[0, 1, 2] * 8 + train, **VALIDATION)
    splits = splits_of("lacon-fewshot", data, number, Size(per_class=4))
    assert counts(splits.train, data) == counts(splits.validation, data) == [4, 4, 4]
    assert not {*splits.train.index} & {*splits.validation.index}
    in_total = splits_of("lacon-fewshot", data, number, 20)
    assert counts(in_total.train, data) == counts(in_total.validation, data)
    assert len(in_total.validation.index) == 20
    few = labeled(train=[0] * 60 + [1] * 27, **VALIDATION)
    splits = splits_of("lacon-fewshot", few, number, Size(per_class=20))
    assert counts(splits.validation, few) == [20, 7]
    note = "validation: 27 other rows of the training split, fewer than the 40 for training"
    assert splits.notes[-1] == note


def test_the_rarer_class_has_32_rows_and_the_other_rho_times_as_many() -> None:
    for rho, rows, expected in ((20, (1500, 1300), [640, 32]), (20, (1300, 1500), [32, 640])):
        data = labeled(train=[0] * rows[0] + [1] * rows[1], **VALIDATION)
        splits = splits_of(f"lacon-imbalance:{rho}", data, 3)
        assert counts(splits.train, data) == counts(splits.validation, data) == expected
        few, many = ("yes", "no") if expected[1] == 32 else ("no", "yes")
        assert f"training: 32 of {few!r} and 640 of {many!r}" in splits.notes


def test_the_first_classes_form_a_separate_task() -> None:
    whole = labeled(train=[0, 1, 2, 2, 0, 1], validation=[2, 1])
    data = find_protocol("lacon-classes:2").data(whole)
    assert (data.task.name, data.task.labels) == ("toy", ("no", "yes"))
    train, validation = data.splits["train"], data.splits["validation"]
    assert train.texts == tuple((f"train {n}",) for n in (0, 1, 4, 5))
    assert train.y.tolist() == [0, 1, 0, 1]
    assert validation.texts == (("validation 1",),)
    assert find_protocol("lacon-classes:3").data(whole).digest == whole.digest != data.digest
