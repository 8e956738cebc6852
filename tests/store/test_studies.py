"""Tests of stored studies: names, records, changed identities and damaged files."""

import shutil
from dataclasses import asdict, replace
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
from tests.studies import FIELDS, RECORD


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return StudyStore(tmp_path, "first")


def test_a_study_comes_back_exactly_and_is_created_once(store: StudyStore, tmp_path: Path) -> None:
    assert store.record() is None
    store.create(RECORD)
    store.create(replace(RECORD, created=0.0))
    assert store.record() == RECORD
    now = replace(
        RECORD,
        # JSON stores tuples as lists.
        identity={**RECORD.identity, "space": {"parameters": (), "tau": (0.1, 0.3)}},
        origin={**RECORD.origin, "data_dir": "there"},
        open_configurations=9,
    )
    assert store.check(now) == RECORD
    for name in ("copy", "first copy"):
        shutil.copytree(tmp_path / "studies" / "first", tmp_path / "studies" / name)
    assert study_names(tmp_path) == ["copy", "first"]
    with pytest.raises(DamagedError, match=r"it is the record of 'first'\. Move"):
        StudyStore(tmp_path, "copy").record()


def test_a_prefix_may_mean_a_damaged_study_and_means_no_repetition_of_another(
    store: StudyStore, tmp_path: Path
) -> None:
    for name, fresh in (("first", 0), ("first-again", 7), ("fine", 0)):
        origin = {**RECORD.origin, "fresh": fresh}
        StudyStore(tmp_path, name).create(replace(RECORD, name=name, origin=origin))
    assert existing_study(tmp_path, "fir")[0].name == "first"
    (tmp_path / "studies" / "fine" / "study.json").write_text("{", encoding="utf-8")
    with pytest.raises(SclsearchError, match=r"^'fi': must be .*, got that of fine, first\."):
        existing_study(tmp_path, "fi")


ADVICE = "since the study began. Give another --study, or restore them."


@pytest.mark.parametrize(
    ("part", "was", "now", "message"),
    [
        ("identity", {}, {"task": "rte"}, "task must stay 'cola', got 'rte'. Give another --study"),
        ("identity", {}, {"sampler": "tpe"}, "sampler must stay None, got 'tpe'"),
        ("identity", {}, {"task": "t" * 500}, f"task must stay 'cola', got '{'t' * 76}.... Give"),
        ("training", {}, {"engine": 2}, "engine must stay 1, got 2"),
        ("training", {"data": "a" * 64}, {"data": "b" * 64}, f"rows (toy.csv) changed {ADVICE}"),
        ("training", {}, {"paraphrases": "b" * 64}, "paraphrases (p.tsv) were added"),
        ("training", {"paraphrases": "a" * 64}, {}, "paraphrases are missing"),
        ("origin", {"labels": ("no", "yes")}, {"labels": ("no", "spam")}, "classes must stay ["),
    ],
)
def test_a_changed_identity_is_refused_with_the_name_of_the_field(
    store: StudyStore, part: str, was: dict[str, Any], now: dict[str, Any], message: str
) -> None:
    origin = {**RECORD.origin, "source": "toy.csv", "model": "bert"}
    base = replace(
        RECORD, origin=origin | ({"paraphrases": "p.tsv"} if "paraphrases" in now else {})
    )
    stored, changed = (
        StudyRecord(**{**asdict(base), part: {**getattr(base, part), **change}})
        for change in (was, now)
    )
    store.create(stored)
    store.check(stored)
    with pytest.raises(SclsearchError) as caught:
        store.check(changed)
    assert str(caught.value).startswith(f"--study first: {message}")


def test_records_come_back_exactly_in_the_order_of_their_numbers(store: StudyStore) -> None:
    configurations = [ConfigurationRecord(n, {"tau": n / 7}, FIELDS, "sampled") for n in range(12)]
    replicates = [
        ReplicateRecord(n, {"train": f"{n}"}, {"order": n}, ("a note",)) for n in range(12)
    ]
    for number in (*reversed(range(11)), 11):
        store.add(configurations[number])
        store.add(replicates[number])
    assert not store.add(replace(configurations[0], origin="published"))
    assert store.configurations() == configurations
    assert store.replicates() == replicates
    (store.folder / "configurations" / "11.json").remove()  # the last one
    found, (fault,) = store.valid_configurations()
    assert found == configurations[:11]
    assert "configurations/11.json: was deleted" in fault


def test_training_sets_with_unequal_numbers_of_seeds_are_noted() -> None:
    for subsets, notes in (("abab", 0), ("abc", 0), ("abca", 1)):
        records = [ReplicateRecord(n, {"train": s}, {}, ()) for n, s in enumerate(subsets)]
        assert [note[:40] for note in uneven_seeds(records)] == [
            "seeds: 4 on 3 training sets, and some ha"
        ] * notes


def test_a_configuration_that_a_search_adds_while_another_process_reads_is_no_damage(
    store: StudyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(ConfigurationRecord(0, {}, FIELDS, "sampled"))

    def meanwhile(*arguments: Any) -> list[Any]:
        store.add(ConfigurationRecord(1, {}, FIELDS, "sampled"))
        return read_each(*arguments)

    monkeypatch.setattr("sclsearch.store.studies.read_each", meanwhile)
    found, faults = store.valid_configurations()
    assert ([one.number for one in found], faults) == ([0], [])
