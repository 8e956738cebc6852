"""Tests of all protocols: names, replicates, metrics, refused rows and pinned rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.fields import field_validators
from sclsearch.protocols import PROTOCOLS, find_protocol
from sclsearch.protocols.base import Protocol, Rows, Size, Splits
from sclsearch.protocols.papers import gunel_few_shot_training
from sclsearch.tasks import load_task
from sclsearch.tasks.base import TaskData
from sclsearch.tasks.metrics import METRICS
from tests.protocols.conftest import Labeled

NAMES = [
    *(name for name in PROTOCOLS if ":" not in name),
    "lacon-imbalance:20",
    "lacon-classes:14",
]
FEW_SHOT = {name for name in NAMES if PROTOCOLS[name].few_shot}
DRAWN = FEW_SHOT | {"lacon-imbalance:20", "lacon-classes:14"}

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


@pytest.fixture(scope="module")
def data(labeled: Labeled) -> TaskData:
    return labeled(train=[0, 1, 1] * 700, validation=[0, 1, 1] * 400)


def splits_of(protocol: Protocol, data: TaskData, number: int, total: int = 30) -> Splits:
    size = Size(total=total) if protocol.few_shot else None
    return protocol.splits(data, size, protocol.replicate(number))


def rows_of(rows: Rows) -> set[tuple[str, int]]:
    return {(rows.split, row) for row in rows.index.tolist()}


@pytest.mark.parametrize("name", ["gunel-ful", "gunel:full"])
def test_an_unknown_name_is_an_error_that_suggests_the_nearest(name: str) -> None:
    with pytest.raises(SclsearchError, match=r"Did you mean 'gunel-full'.* lacon-classes:2, "):
        find_protocol(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_protocol_has_enough_seeds_for_its_rule_and_known_metrics(name: str) -> None:
    protocol = PROTOCOLS[name]
    protocol.rule.check(protocol.replicates)
    assert set(protocol.metrics.values()) <= set(METRICS)


@pytest.mark.parametrize("name", NAMES)
def test_a_protocol_sets_only_fields_of_known_methods(name: str) -> None:
    known = set().union(*(field_validators(method_class(method)) for method in METHODS))
    assert set(PROTOCOLS[name].training(100, 16)) <= known


@pytest.mark.parametrize("name", NAMES)
def test_replicates_redraw_only_the_rows_that_their_paper_redraws(
    name: str, data: TaskData
) -> None:
    protocol = PROTOCOLS[name]
    rows = [splits_of(protocol, data, number) for number in range(protocol.replicates)]
    drawn = 5 if name == "cmlm-fewshot" else 10 if name in DRAWN else 1
    assert len({splits.train.digest for splits in rows}) == drawn
    held_out = name.startswith("lacon-")
    assert len({splits.validation.digest for splits in rows}) == (10 if held_out else 1)
    assert len({splits.test.digest for splits in rows}) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [0, 7])
def test_training_shares_no_row_with_validation_or_test(
    name: str, number: int, data: TaskData
) -> None:
    splits = splits_of(PROTOCOLS[name], data, number)
    used = [rows_of(rows) for rows in (splits.train, splits.validation, splits.test)]
    assert all(used)
    assert not used[0] & (used[1] | used[2])
    assert bool(used[1] & used[2]) == (name in {"supcl-seq", "gunel-full-overlap"})


@pytest.mark.parametrize("name", [name for name in NAMES if "imbalance" not in name])
def test_mismatched_rows_are_the_test_and_for_supcl_seq_also_the_validation(
    name: str, glue: Path
) -> None:
    splits = splits_of(PROTOCOLS[name], load_task("mnli-mm", glue), 0)
    assert (splits.test.split, len(splits.test.index)) == ("test", 1000)
    assert (splits.validation == splits.test) == (name == "supcl-seq")
    assert "the test split is not used: scores are of the validation split" not in splits.notes


@pytest.mark.parametrize("name", NAMES)
def test_no_two_replicates_share_subset_and_seed(name: str) -> None:
    protocol = PROTOCOLS[name]
    replicates = [protocol.replicate(number) for number in range(protocol.replicates + 7)]
    for purpose in ("initialization", "order", "noise"):
        own = {(replicate.subset, replicate.seeds[purpose]) for replicate in replicates}
        assert len(own) == len(replicates)


@pytest.mark.parametrize(
    ("name", "task", "metric"),
    [
        ("gunel-full", "cola", "accuracy"),
        ("supcl-seq", "cola", "mcc"),
        ("lacon", "tnews", "macro_f1"),
        ("cmlm-fewshot", "cola", "mcc"),
    ],
)
def test_the_metric_of_the_protocol_overrides_that_of_the_task(
    name: str, task: str, metric: str, labeled: Labeled
) -> None:
    known = {"cola": "mcc", "mrpc": "f1", "toy": "accuracy", "tnews": "accuracy"}
    made = labeled(task, train=[0, 1])
    data = replace(made, task=replace(made.task, metric=known[task]))
    assert PROTOCOLS[name].metric(data) == metric


@pytest.mark.parametrize(
    ("rows", "batch_size", "epochs"),
    [(1, 16, 100), (20, 16, 80), (112, 16, 15), (1000, 16, 10), (20, 128, 100), (1000, 128, 13)],
)
def test_few_shot_training_has_epochs_for_100_batches_and_at_least_10(
    rows: int, batch_size: int, epochs: int
) -> None:
    assert gunel_few_shot_training(rows, batch_size) == {"epochs": epochs, "probe_epochs": epochs}


@pytest.fixture(scope="module")
def cola(glue: Path) -> TaskData:
    return load_task("cola", glue)


def test_the_rows_of_every_protocol_are_pinned() -> None:
    assert {name for name, _ in COLA} == set(PROTOCOLS)


@pytest.mark.parametrize(("name", "number"), COLA, ids=str)
def test_the_rows_of_cola_are_pinned(cola: TaskData, name: str, number: int) -> None:
    digests = splits_of(PROTOCOLS[name], cola, number, total=100).digests
    pinned = dict(zip(("train", "validation", "test"), COLA[name, number].split(), strict=True))
    assert {which: whole[:16] for which, whole in digests.items()} == pinned


@pytest.mark.parametrize(
    ("name", "splits", "message"),
    [
        ("plain", {"train": [0, 1], "validation": [1]}, "no test rows in its validation split"),
        (
            "lacon-classes:2",
            {"train": [0, 1, 2] * 20, "test": [2]},
            "its test split with 0 rows of the first 2 classes.",
        ),
        ("supcl-seq", {"train": [0, 1], "validation": []}, "no validation rows in its"),
        ("lacon", {"train": [0], "validation": [1]}, "no train rows in its train split with 1 row"),
    ],
    ids=["one row to halve", "none of the classes", "an empty split", "one training row"],
)
def test_a_protocol_that_leaves_a_split_empty_is_refused(
    labeled: Labeled, name: str, splits: dict[str, list[int]], message: str
) -> None:
    protocol = PROTOCOLS[name]
    data = protocol.data(labeled(**splits))
    with pytest.raises(SclsearchError) as raised:
        protocol.splits(data, None, protocol.replicate(0))
    assert str(raised.value).startswith(f"toy: --protocol {name} finds no ")
    assert message in str(raised.value)


def test_f1_of_a_class_that_validation_lacks_is_refused(labeled: Labeled) -> None:
    data = labeled(train=[0, 1], validation=[0, 0, 0, 1], test=[0, 1])
    task = replace(data.task, labels=("no", "yes"), metric="f1")
    protocol = PROTOCOLS["plain"]
    protocol.splits(replace(data, task=task), None, protocol.replicate(0))
    lacking = labeled(train=[0, 1], validation=[0, 0, 0], test=[0, 1])
    with pytest.raises(
        SclsearchError, match=r"^toy, --protocol plain: the metric f1 .* 'yes', got none"
    ):
        protocol.splits(replace(lacking, task=task), None, protocol.replicate(0))
    protocol.splits(lacking, None, protocol.replicate(0))
