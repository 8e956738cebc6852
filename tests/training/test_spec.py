"""Tests of which attributes of a seed run change its key."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.canonical import digest
from sclsearch.encoders.load import load_tokenizer
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.fields import field_validators
from sclsearch.protocols.base import Rows
from sclsearch.tasks.base import TaskData
from sclsearch.training import spec as spec_module
from sclsearch.training.engine import train
from sclsearch.training.spec import SeedRunSpec
from tests.training.conftest import WorkFor

METHOD_FIELDS = [
    (name, field) for name in METHODS for field in field_validators(method_class(name))
]

WITH_EFFECT: dict[str, object] = {
    "data_digest": "f" * 64,
    "metric": "mcc",
    "evaluate": 20,
    "keep": "last",
    "method_name": "another",
    "model_digest": "0" * 64,
    "numerics": "cuda-bf16",
    "max_updates": 7,
    "last_updates": 7,
    "method_digest": "1" * 64,
    "joined": 3,
}
WITHOUT_EFFECT: dict[str, object] = {
    "model_name": "another",
    "model": Path("elsewhere"),
    "unlabeled_digest": "2" * 64,
}


@pytest.fixture
def spec(work_for: WorkFor) -> SeedRunSpec:
    return work_for("ce").spec


def another(value: Any) -> object:
    """Return a different value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"not {value}"
    return (*value, 0.3) if isinstance(value, tuple) else value + 1


@pytest.mark.parametrize(("name", "field"), METHOD_FIELDS)
def test_a_key_changes_with_every_field(work_for: WorkFor, name: str, field: str) -> None:
    spec = work_for(name).spec
    holder = "method" if hasattr(spec.method, field) else "training"
    thing = getattr(spec, holder)
    changes: dict[str, Any] = {field: another(getattr(thing, field))}
    changed: dict[str, Any] = {holder: replace(thing, **changes)}
    assert replace(spec, **changed).key != spec.key


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_a_key_changes_with_the_rows(spec: SeedRunSpec, part: str) -> None:
    rows: Rows = getattr(spec.splits, part)
    for other in (Rows(rows.split, rows.index[:-1]), Rows("elsewhere", rows.index)):
        changed: dict[str, Any] = {part: other}
        assert replace(spec, splits=replace(spec.splits, **changed)).key != spec.key


def test_a_key_changes_with_the_unlabeled_rows(spec: SeedRunSpec) -> None:
    assert {*spec.splits.digests} == {"train", "validation", "test"}
    keys = {spec.key}
    for index in ([0, 1], [0, 2]):
        rows = Rows("train", np.array(index))
        keys.add(replace(spec, splits=replace(spec.splits, unlabeled=rows)).key)
    assert len(keys) == 3


@pytest.mark.parametrize("purpose", ["initialization", "order", "noise"])
def test_a_key_changes_with_the_seeds(spec: SeedRunSpec, purpose: str) -> None:
    changed: dict[str, Any] = {purpose: 7}
    assert replace(spec, replicate=replace(spec.replicate, **changed)).key != spec.key


@pytest.mark.parametrize("name", [*WITH_EFFECT, *WITHOUT_EFFECT])
def test_a_key_changes_with_the_attributes_that_affect_results(
    spec: SeedRunSpec, name: str
) -> None:
    changed: dict[str, Any] = {name: {**WITH_EFFECT, **WITHOUT_EFFECT}[name]}
    assert (replace(spec, **changed).key != spec.key) == (name in WITH_EFFECT)


def test_a_key_changes_with_the_version_of_the_engine(
    spec: SeedRunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = spec.key
    monkeypatch.setattr(spec_module, "ENGINE_VERSION", spec_module.ENGINE_VERSION + 1)
    assert spec.key != before


def test_a_key_does_not_depend_on_names_and_numbers(
    spec: SeedRunSpec,
) -> None:
    same = replace(
        spec,
        task=replace(spec.task, name="another", summary="another"),
        splits=replace(spec.splits, notes=("another",)),
        replicate=replace(spec.replicate, number=7, subset=7),
    )
    assert same.key == spec.key
    copied = Rows(spec.splits.train.split, np.array(spec.splits.train.index.tolist()))
    assert replace(spec, splits=replace(spec.splits, train=copied)).key == spec.key


def test_these_tests_cover_every_attribute() -> None:
    tried = {"method", "training", "splits", "replicate", "task", *WITH_EFFECT, *WITHOUT_EFFECT}
    assert set(SeedRunSpec.__dataclass_fields__) == tried


def test_unused_options_are_not_in_the_identity(spec: SeedRunSpec) -> None:
    optional = {"max_updates", "method_file", "joined", "unlabeled_digest"}
    assert optional.isdisjoint(spec.identity)
    splits = replace(spec.splits, unlabeled=spec.splits.train)
    given = replace(spec, max_updates=7, method_digest="1", joined=3, unlabeled_digest="2")
    used = replace(given, splits=splits)
    assert used.identity.keys() - spec.identity.keys() == optional


def test_a_key_changes_with_the_paraphrases_of_its_rows(spec: SeedRunSpec) -> None:
    read = [replace(spec, splits=replace(spec.splits, paraphrases=digest)) for digest in ("2", "3")]
    assert len({spec.key, *(one.key for one in read)}) == 3
    assert all(one.shared_identity == spec.shared_identity for one in read)
    assert "paraphrases" not in spec.splits.digests


def test_a_key_is_the_hash_of_the_identity(spec: SeedRunSpec) -> None:
    assert spec.key == digest(spec.identity)
    assert set(spec.shared_identity) < set(spec.identity)


def test_a_note_counts_the_texts_that_reach_max_length(toy: TaskData, work_for: WorkFor) -> None:
    tokenizer = load_tokenizer(work_for().spec.model)
    lengths = [len(tokenizer(*texts)["input_ids"]) for texts in toy.splits["test"].texts]
    full = sum(length >= 6 for length in lengths)
    assert 0 < full < len(lengths)
    note = f"max_length=6: {full} of 30 test texts reach it; longer texts are truncated"
    assert train(*work_for(max_length=6, epochs=1)).notes == (note,)
    assert train(*work_for(epochs=1)).notes == ()
