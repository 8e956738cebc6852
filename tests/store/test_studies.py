"""Tests of stored studies: names, records, changed identities, damaged files and pinned keys."""

import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.encoders.savings import CHUNK, LIMIT
from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.base import Training
from sclsearch.methods.fields import resolved
from sclsearch.protocols.base import Rows, Splits, all_seeds
from sclsearch.store.storage import DamagedError
from sclsearch.store.studies import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyRecord,
    StudyStore,
    existing_study,
    seed_run_key,
    study_names,
    uneven_seeds,
)
from sclsearch.tasks.base import Task
from sclsearch.training.data import GPU_WIDTHS
from sclsearch.training.evaluation import GPU_TOKENS
from sclsearch.training.spec import ENGINE_VERSION, GPU_ENGINE_VERSION, SeedRunSpec
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
    )
    assert store.check(now) == RECORD
    for name in ("copy", "first copy"):
        shutil.copytree(tmp_path / "studies" / "first", tmp_path / "studies" / name)
    assert study_names(tmp_path) == ["copy", "first"]
    with pytest.raises(DamagedError, match=r"it is the record of 'first'\. Move"):
        StudyStore(tmp_path, "copy").record()


def test_a_prefix_may_also_mean_a_damaged_study(store: StudyStore, tmp_path: Path) -> None:
    store.create(RECORD)
    (tmp_path / "studies" / "fine").mkdir()
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
    (store.folder / "configurations" / "7.json").remove()
    found, (fault,) = store.valid_configurations()
    assert found == [*configurations[:7], *configurations[8:]]
    assert "configurations/7.json: was deleted" in fault


def test_training_sets_with_unequal_numbers_of_seeds_are_noted() -> None:
    for subsets, notes in (("abab", 0), ("abc", 0), ("abca", 1)):
        records = [ReplicateRecord(n, {"train": s}, {}, ()) for n, s in enumerate(subsets)]
        assert [note[:40] for note in uneven_seeds(records)] == [
            "seeds: 4 on 3 training sets, and some ha"
        ] * notes


# Stored seed runs are found by these keys; a new engine version or a new field changes them.
PINNED = {
    "ce": "f977598094bc69558272212c957845900d82beaab3d71d08e2cc17a4c56d641c",
    "cssl": "c2617efb0d9f5128c6a51ecba3219ad14af2340ce9120e9a5cb00bdc4e38a2e6",
}


@pytest.fixture(params=METHODS)
def spec(request: pytest.FixtureRequest) -> SeedRunSpec:
    return SeedRunSpec(
        task=Task("toy", "labels alone", ("no", "yes"), "accuracy"),
        data_digest="d" * 64,
        splits=Splits(
            Rows("train", np.arange(8)),
            Rows("validation", np.arange(0, 6, 2)),
            Rows("validation", np.arange(1, 6, 2)),
            ("a note",),
        ),
        metric="accuracy",
        evaluate=20,
        keep="best",
        method_name=request.param,
        method=method_class(request.param)(),
        training=Training(learning_rate=0.1 + 0.2),
        replicate=all_seeds(3),
        model_name="tiny",
        model=Path("tiny"),
        model_digest="e" * 64,
        numerics="cpu-fp32",
    )


def test_records_read_from_disk_give_the_pinned_key_of_the_specification(
    tmp_path: Path, spec: SeedRunSpec
) -> None:
    store = StudyStore(tmp_path, "first")
    store.create(replace(RECORD, training=spec.shared_identity))
    store.add(ConfigurationRecord(0, {}, resolved(spec.method, spec.training), "published"))
    store.add(ReplicateRecord(0, spec.splits.digests, spec.replicate.seeds, spec.splits.notes))
    study = store.record()
    assert study is not None
    records = study, store.configurations()[0], store.replicates()[0]
    assert seed_run_key(*records) == spec.key == PINNED.get(spec.method_name, spec.key)


def test_batch_sizes_match_the_engine_versions() -> None:
    assert (ENGINE_VERSION, LIMIT, CHUNK) == (7, 2**15, 2**13)
    assert (GPU_ENGINE_VERSION, GPU_WIDTHS, GPU_TOKENS) == (8, 32, 2**15)
