"""A key changes with everything that determines the figures, and with nothing else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.canonical import digest
from sclsearch.encoders.load import load_tokenizer
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.fields import field_types
from sclsearch.protocols.base import Rows
from sclsearch.tasks.base import TaskData
from sclsearch.training import job as job_module
from sclsearch.training.engine import train
from sclsearch.training.job import Job, Work

METHOD_FIELDS = [(name, field) for name in METHODS for field in field_types(method_class(name))]

MATTER: dict[str, object] = {
    "data_digest": "f" * 64,
    "metric": "mcc",
    "evaluate": 20,
    "keep": "last",
    "method_name": "another",
    "model_digest": "0" * 64,
    "numerics": "cuda-bf16",
    "most_updates": 7,
    "method_digest": "1" * 64,
    "joined": 3,
}
MATTER_NOT: dict[str, object] = {
    "model_name": "another",
    "model": Path("elsewhere"),
    "bare_digest": "2" * 64,
}


@pytest.fixture
def job(work_for: Callable[..., Work]) -> Job:
    return work_for("ce").job


def another(value: Any) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"not {value}"
    return (*value, 0.3) if isinstance(value, tuple) else value + 1


@pytest.mark.parametrize(("name", "field"), METHOD_FIELDS)
def test_a_key_changes_with_every_field(
    work_for: Callable[..., Work], name: str, field: str
) -> None:
    job = work_for(name).job
    holder = "method" if hasattr(job.method, field) else "training"
    thing = getattr(job, holder)
    changes: dict[str, Any] = {field: another(getattr(thing, field))}
    changed: dict[str, Any] = {holder: replace(thing, **changes)}
    assert replace(job, **changed).key != job.key


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_a_key_changes_with_the_rows(job: Job, part: str) -> None:
    rows: Rows = getattr(job.parts, part)
    for other in (Rows(rows.split, rows.index[:-1]), Rows("elsewhere", rows.index)):
        changed: dict[str, Any] = {part: other}
        assert replace(job, parts=replace(job.parts, **changed)).key != job.key


def test_a_key_has_unlabelled_rows_only_where_there_are_some(job: Job) -> None:
    assert {*job.parts.digests} == {"train", "validation", "test"}
    keys = {job.key}
    for index in ([0, 1], [0, 2]):
        rows = Rows("train", np.array(index))
        keys.add(replace(job, parts=replace(job.parts, unlabelled=rows)).key)
    assert len(keys) == 3


@pytest.mark.parametrize("purpose", ["initialisation", "order", "noise"])
def test_a_key_changes_with_the_seeds(job: Job, purpose: str) -> None:
    changed: dict[str, Any] = {purpose: 7}
    assert replace(job, replicate=replace(job.replicate, **changed)).key != job.key


@pytest.mark.parametrize("ingredient", MATTER)
def test_a_key_changes_with_all_else_that_matters(job: Job, ingredient: str) -> None:
    changed: dict[str, Any] = {ingredient: MATTER[ingredient]}
    assert replace(job, **changed).key != job.key


def test_a_key_changes_with_the_version_of_the_engine(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = job.key
    monkeypatch.setattr(job_module, "ENGINE_VERSION", job_module.ENGINE_VERSION + 1)
    assert job.key != before


@pytest.mark.parametrize("ingredient", MATTER_NOT)
def test_a_key_does_not_change_with_what_does_not_matter(job: Job, ingredient: str) -> None:
    changed: dict[str, Any] = {ingredient: MATTER_NOT[ingredient]}
    assert replace(job, **changed).key == job.key


def test_a_key_does_not_change_with_names_and_numbers_of_what_gave_the_rows(job: Job) -> None:
    same = replace(
        job,
        task=replace(job.task, name="another", summary="another"),
        parts=replace(job.parts, notes=("another",)),
        replicate=replace(job.replicate, number=7, subset=7),
    )
    assert same.key == job.key


def test_equal_rows_in_other_arrays_are_the_same_rows(job: Job) -> None:
    copied = Rows(job.parts.train.split, np.array(job.parts.train.index.tolist()))
    assert replace(job, parts=replace(job.parts, train=copied)).key == job.key


def test_every_ingredient_is_in_these_tests() -> None:
    tried = {"method", "training", "parts", "replicate", "task", *MATTER, *MATTER_NOT}
    assert set(Job.__dataclass_fields__) == tried


def test_what_is_not_used_is_not_in_the_identity(job: Job) -> None:
    optional = {"most_updates", "method_file", "joined", "without_label"}
    assert optional.isdisjoint(job.identity)
    parts = replace(job.parts, unlabelled=job.parts.train)
    given = replace(job, most_updates=7, method_digest="1", joined=3, bare_digest="2")
    used = replace(given, parts=parts)
    assert used.identity.keys() - job.identity.keys() == optional


def test_a_key_changes_with_the_paraphrases_of_its_rows(job: Job) -> None:
    read = [replace(job, parts=replace(job.parts, paraphrases=digest)) for digest in ("2", "3")]
    assert len({job.key, *(one.key for one in read)}) == 3
    assert all(one.shared_identity == job.shared_identity for one in read)
    assert "paraphrases" not in job.parts.digests


def test_a_key_is_the_hash_of_an_identity_that_json_can_hold(job: Job) -> None:
    assert job.key == digest(job.identity)
    assert set(job.shared_identity) < set(job.identity)


def test_texts_that_reach_the_greatest_length_are_counted(
    toy: TaskData, work_for: Callable[..., Work]
) -> None:
    tokenizer = load_tokenizer(work_for().job.model)
    lengths = [len(tokenizer(*texts)["input_ids"]) for texts in toy.splits["test"].texts]
    full = sum(length >= 6 for length in lengths)
    assert 0 < full < len(lengths)
    told = f"max_length=6: {full} of 30 test texts reach it; what is longer is cut"
    assert train(work_for(max_length=6, epochs=1)).notes == (told,)
    assert train(work_for(epochs=1)).notes == ()
