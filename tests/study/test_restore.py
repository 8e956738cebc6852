"""Tests of restoring a study's specification from its stored records."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.studies import ConfigurationRecord
from sclsearch.study.restore import restore_data_dir, restore_spec
from sclsearch.tasks.custom import CustomTask
from tests.studies import MakeSpec, Prepare


def origin_of(prepared: Scheduler) -> Mapping[str, Any]:
    origin: Mapping[str, Any] = json.loads(json.dumps(prepared.record.origin))
    return origin


def winner_of(prepared: Scheduler) -> ConfigurationRecord:
    scheduler = replace(prepared)
    scheduler.refill()
    stored = json.loads(json.dumps(asdict(scheduler.state.configurations[-1])))
    return ConfigurationRecord(**stored)


def keys(prepared: Scheduler, values: Mapping[str, Any]) -> list[str]:
    study = prepared.study
    return [study.seed_run_spec(values, r, splits).key for r, splits in prepared.splits.items()]


@pytest.fixture
def files(toy: CustomTask, tmp_path: Path) -> CustomTask:
    """Return the toy task with a file for each split."""
    header, *rows = toy.path.read_text(encoding="utf-8").splitlines()
    files: dict[str, Any] = {
        name: tmp_path / f"{name}.csv" for name in ("path", "validation", "test")
    }
    for number, path in enumerate(files.values()):
        path.write_text("\n".join([header, *rows[number::3]]), encoding="utf-8")
    return replace(toy, **files, split_column=None)


@pytest.mark.parametrize(
    "changes",
    [
        {"train_size": 20},
        {"shots": 4, "scale": "laptop", "model": None, "space": None},
        {"method": "tapt", "space": None, "train_size": 20, "unlabeled": 40},
        {"method": "supcl-seq", "space": "paper"},  # a field is a list
        {"protocol": "supcl-seq", "settings": {"pooling": "cls_raw"}},
        {"protocol": "lacon-classes:2"},
        {"task": "files", "metric": "macro_f1"},
    ],
    ids=str,
)
def test_a_restored_configuration_has_the_same_seed_runs(
    make_spec: MakeSpec,
    prepare: Prepare,
    files: CustomTask,
    request: pytest.FixtureRequest,
    changes: dict[str, Any],
) -> None:
    if "task" in changes:
        changes = {"task": files}
    if "model" in changes:
        request.getfixturevalue("minilm")
    before = prepare(make_spec(**changes), seeds=3)
    winner = winner_of(before)
    origin = origin_of(before)
    assert origin["model"] == ("minilm" if "model" in changes else str(before.study.model))
    spec = restore_spec(origin, winner.fields)
    again = prepare(spec, seeds=3)
    assert keys(again, {}) == keys(before, winner.values)
    assert again.study.fields({}) == before.study.fields(winner.values)
    assert not again.study.space.parameters
    once_more = restore_spec(origin_of(again), winner_of(again).fields)
    assert prepare(once_more, seeds=3).study.default_name() == again.study.default_name()


def test_the_data_folder_is_the_given_or_stored_one_and_refused_if_unused() -> None:
    cola, demo = ({"task": task, "data_dir": "before"} for task in ("cola", "demo"))
    assert restore_data_dir(cola, Path("now")) == Path("now")
    assert [restore_data_dir(one, None) for one in (cola, demo)] == [Path("before")] * 2
    with pytest.raises(SclsearchError, match=r"^--data-dir now: .* got demo"):
        restore_data_dir(demo, Path("now"))
