"""Tests of which attributes of a seed run change its key."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.canonical import digest
from sclsearch.encoders.load import load_tokenizer
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.fields import field_validators
from sclsearch.protocols.base import Rows
from sclsearch.tasks.base import TaskData
from sclsearch.training import spec as spec_module
from sclsearch.training.engine import train
from sclsearch.training.spec import SeedRunSpec, seed_run_costs
from tests.training.conftest import WorkFor

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


@pytest.mark.parametrize("name", METHODS)
def test_a_key_changes_with_every_field(work_for: WorkFor, name: str) -> None:
    spec = work_for(name).spec
    keys = {spec.key}
    names = [*field_validators(method_class(name))]
    for field in names:
        holder = "method" if hasattr(spec.method, field) else "training"
        thing = getattr(spec, holder)
        other: Any = replace(thing, **{field: another(getattr(thing, field))})
        keys.add(replace(spec, **{holder: other}).key)
    assert len(keys) == 1 + len(names)


def test_a_key_changes_exactly_with_the_attributes_that_affect_results(spec: SeedRunSpec) -> None:
    changes: dict[str, Any] = {**WITH_EFFECT, **WITHOUT_EFFECT}
    keys = {name: replace(spec, **{name: one}).key for name, one in changes.items()}
    assert {name for name, key in keys.items() if key != spec.key} == {*WITH_EFFECT}
    others = {"method", "training", "splits", "replicate", "task"}  # tried by the other tests
    assert {*SeedRunSpec.__dataclass_fields__} == {*changes, *others}


def test_a_key_changes_with_rows_paraphrases_seeds_and_engine_but_not_with_names_and_numbers(
    spec: SeedRunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits, rows = spec.splits, spec.splits.train
    parts: list[dict[str, Any]] = [
        {part: changed}
        for part, given in splits.rows.items()
        for changed in (Rows(given.split, given.index[:-1]), Rows("elsewhere", given.index))
    ]
    changes: list[dict[str, Any]] = [{"splits": replace(splits, **part)} for part in parts]
    changes += [
        {"splits": replace(splits, unlabeled=Rows("train", rows.index[:n]))} for n in (1, 2)
    ]
    changes += [{"splits": replace(splits, paraphrases=paraphrases)} for paraphrases in ("2", "3")]
    seeds: list[dict[str, Any]] = [{use: 7} for use in ("initialization", "order", "noise")]
    changes += [{"replicate": replace(spec.replicate, **seed)} for seed in seeds]
    keys = {spec.key, *(replace(spec, **change).key for change in changes)}
    assert len(keys) == 1 + len(changes)
    same = replace(
        spec,
        task=replace(spec.task, name="another", summary="another"),
        splits=replace(splits, notes=("another",)),
        replicate=replace(spec.replicate, number=7, subset=7),
    )
    assert same.key == spec.key == digest(spec.identity)
    monkeypatch.setattr(spec_module, "ENGINE_VERSION", spec_module.ENGINE_VERSION + 1)
    assert spec.key not in keys


def test_the_cost_counts_views_paraphrases_evaluations_and_frozen_features(
    work_for: WorkFor,
) -> None:
    forward = spec_module.FORWARD
    spec = work_for("ce", epochs=2).spec
    joined = replace(spec, joined=1, evaluate="end")  # 11 updates of 8 rows per epoch
    assert seed_run_costs(joined) == pytest.approx((176 + forward * 30, forward * 30))
    views = work_for("supcl-seq", epochs=2, dropouts=(0.0, 0.1, 0.2)).spec
    assert seed_run_costs(views) == pytest.approx((3 * 96 + forward * (44 + 30 + 30), 0))


def test_a_note_counts_the_texts_that_reach_max_length(toy: TaskData, work_for: WorkFor) -> None:
    tokenizer = load_tokenizer(work_for().spec.model)
    lengths = [len(tokenizer(*texts)["input_ids"]) for texts in toy.splits["test"].texts]
    full = sum(length >= 6 for length in lengths)
    assert 0 < full < len(lengths)
    (note,) = train(*work_for(max_length=6, epochs=1)).notes
    assert note.startswith(f"max_length=6: {full} of 30 test texts")
    assert train(*work_for(epochs=1)).notes == ()
