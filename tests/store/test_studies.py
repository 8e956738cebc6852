"""Tests of stored studies: names, records, changed identities and damaged files."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.store.storage import DamagedError, read_each
from sclsearch.store.studies import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyRecord,
    StudyStore,
    existing_study,
    study_names,
    uneven_seeds,
)

RECORD = StudyRecord(
    name="first",
    identity={
        **{"task": "cola", "model": "bert", "protocol": "plain", "size": None},
        "space": {"parameters": [], "tau": [0.1, 0.3]},
    },
    training={"method": "scl", "metric": "mcc", "data": "d", "engine": 1, "evaluate": 20},
    origin={"data_dir": "here", "rule": "mean", "notes": []},
    open_configurations=3,
    created=1_700_000_000.5,
)
SPACE_OF_TUPLES = {"parameters": (), "tau": (0.1, 0.3)}


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return StudyStore(tmp_path, "first")


@pytest.mark.parametrize("name", ["a", "7", "cola-scl_1.0", "x" * 100])
def test_a_valid_study_name_is_accepted(tmp_path: Path, name: str) -> None:
    assert str(StudyStore(tmp_path, name).folder) == str(tmp_path / "studies" / name)


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "-a", "a/b", "a b", "ä", "a\n", "x" * 101])
def test_an_invalid_study_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SclsearchError, match=r"^--study .*: must be at most 100 letters, digits"):
        StudyStore(tmp_path, name)


def test_a_study_comes_back_exactly_and_is_created_once(store: StudyStore) -> None:
    assert store.record() is None
    store.create(RECORD)
    store.create(replace(RECORD, created=0.0))
    assert store.record() == RECORD


def test_the_record_of_another_study_is_damage(store: StudyStore, tmp_path: Path) -> None:
    store.create(RECORD)
    shutil.copytree(tmp_path / "studies" / "first", tmp_path / "studies" / "copy")
    with pytest.raises(DamagedError, match=r"is the record of 'first', not of 'copy'\. Move"):
        StudyStore(tmp_path, "copy").record()


def test_the_stored_record_is_used_if_only_the_origin_differs(store: StudyStore) -> None:
    store.create(RECORD)
    now = replace(
        RECORD,
        identity={**RECORD.identity, "space": SPACE_OF_TUPLES},  # JSON stores tuples as lists
        origin={**RECORD.origin, "data_dir": "there"},
        open_configurations=9,
        created=2.0,
    )
    assert store.check(now) == RECORD


def test_other_class_names_are_refused(store: StudyStore) -> None:
    def labeled(*labels: str) -> StudyRecord:
        return replace(RECORD, origin={**RECORD.origin, "labels": labels})

    store.create(labeled("neg", "pos"))
    store.check(labeled("neg", "pos"))
    message = r"^--study first: classes must stay .*'neg', 'pos'.*, got .*'spam'.* Give another"
    with pytest.raises(SclsearchError, match=message):
        store.check(labeled("neg", "spam"))


@pytest.mark.parametrize(
    ("part", "field", "now", "message"),
    [
        ("identity", "task", "rte", "task must stay 'cola', got 'rte'"),
        ("identity", "space", {"tau": [0.1]}, r"space must stay .*\[0.1, 0.3\].*, got .*"),
        ("identity", "sampler", "tpe", "sampler must stay None, got 'tpe'"),
        ("training", "engine", 2, "engine must stay 1, got 2"),
    ],
)
def test_a_changed_identity_is_refused_with_the_name_of_the_field(
    store: StudyStore, part: str, field: str, now: Any, message: str
) -> None:
    store.create(RECORD)
    changes: dict[str, Any] = {part: {**getattr(RECORD, part), field: now}}
    changed = replace(RECORD, **changes)
    with pytest.raises(SclsearchError, match=f"--study first: {message}. Give another --study"):
        store.check(changed)


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ({"data": "a" * 64}, {"data": "b" * 64}, "rows (toy.csv) changed"),
        ({"weights": "a" * 64}, {"weights": "b" * 64}, "weights (bert) changed"),
        ({}, {"paraphrases": "b" * 64}, "paraphrases (p.tsv) were added"),
        ({"paraphrases": "a" * 64}, {}, "paraphrases are missing"),
    ],
    ids=["data", "weights", "added", "left out"],
)
def test_changed_contents_are_named_by_source_and_not_by_digest(
    store: StudyStore, was: dict[str, str], now: dict[str, str], message: str
) -> None:
    origin = {**RECORD.origin, "source": "toy.csv", "model": "bert"}
    origin |= {"paraphrases": "p.tsv"} if "paraphrases" in now else {}
    store.create(replace(RECORD, training={**RECORD.training, **was}, origin=origin))
    with pytest.raises(SclsearchError) as caught:
        store.check(replace(RECORD, training={**RECORD.training, **now}, origin=origin))
    after = "since the study began. Give another --study, or restore them."
    assert str(caught.value) == f"--study first: {message} {after}"


@pytest.mark.parametrize("content", ["", "null", "[]", "{}"])
def test_a_damaged_record_is_an_error_with_advice_and_hides_no_other_study(
    tmp_path: Path, content: str
) -> None:
    for name in ("bad", "good"):
        StudyStore(tmp_path, name).create(replace(RECORD, name=name))
    path = tmp_path / "studies" / "bad" / "study.json"
    shutil.copytree(path.parent, tmp_path / "studies" / "bad (copy)")
    path.write_text(content)
    assert study_names(tmp_path) == ["bad", "good"]
    with pytest.raises(SclsearchError, match=r"Did you mean 'good'\?"):
        existing_study(tmp_path, "gold")
    with pytest.raises(SclsearchError) as caught:
        existing_study(tmp_path, "bad")
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith(
        "the command that began the study writes it again and resumes."
    )


def test_a_long_difference_is_shortened(store: StudyStore) -> None:
    store.create(RECORD)
    changed = replace(RECORD, identity={**RECORD.identity, "task": "t" * 500})
    with pytest.raises(SclsearchError, match=r"got 't{76}\.\.\.\. Give"):
        store.check(changed)


def test_records_come_back_exactly_in_the_order_of_their_numbers(store: StudyStore) -> None:
    configurations = [ConfigurationRecord(n, {"tau": n / 7}, {}, "sampled") for n in range(12)]
    replicates = [
        ReplicateRecord(n, {"train": f"{n}"}, {"order": n}, ("a note",)) for n in range(12)
    ]
    for number in reversed(range(12)):
        store.add(configurations[number])
        store.add(replicates[number])
    assert store.configurations() == configurations
    assert store.replicates() == replicates


def test_a_stored_configuration_is_not_replaced(store: StudyStore) -> None:
    first = ConfigurationRecord(0, {"tau": 0.1}, {"tau": 0.1}, "published")
    store.add(first)
    store.add(replace(first, origin="sampled"))
    assert store.configurations() == [first]


def test_studies_are_listed_by_name_and_unknown_names_suggest_the_nearest(tmp_path: Path) -> None:
    assert study_names(tmp_path) == []
    for name in ("second", "first"):
        StudyStore(tmp_path, name).create(replace(RECORD, name=name))
    (tmp_path / "studies" / "no-record").mkdir()
    assert study_names(tmp_path) == ["first", "second"]
    assert existing_study(tmp_path, "first")[1] == RECORD
    with pytest.raises(
        SclsearchError, match=r"Unknown study 'frist' .* Did you mean 'first'\? Known: first, secon"
    ):
        existing_study(tmp_path, "frist")


def test_training_sets_with_unequal_numbers_of_seeds_are_noted() -> None:
    def replicates(*subsets: str) -> list[ReplicateRecord]:
        return [ReplicateRecord(n, {"train": one}, {}, ()) for n, one in enumerate(subsets)]

    assert uneven_seeds(replicates("a", "b", "a", "b")) == []
    assert uneven_seeds(replicates("a", "b", "c")) == []
    (note,) = uneven_seeds(replicates("a", "b", "c", "a"))
    assert note.startswith("seeds: 4 on 3 training sets, and some have more than others")


def test_a_configuration_that_a_search_adds_while_another_process_reads_is_no_damage(
    store: StudyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(ConfigurationRecord(0, {}, {}, "sampled"))

    def meanwhile(*arguments: Any) -> list[Any]:
        store.add(ConfigurationRecord(1, {}, {}, "sampled"))
        return read_each(*arguments)

    monkeypatch.setattr("sclsearch.store.studies.read_each", meanwhile)
    found, faults = store.valid_configurations()
    assert ([one.number for one in found], faults) == ([0], [])
