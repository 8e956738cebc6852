"""Tests of unlabeled texts: option, records, repetitions, and rows of a file."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.search.plan import plan_prepared
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import rerun
from sclsearch.study.restore import restore_spec
from sclsearch.study.spec import RunOptions
from sclsearch.study.state import SearchState
from sclsearch.study.study import Study
from sclsearch.tasks.custom import CustomTask
from sclsearch.tracking.records import new_records
from tests.in_process import train_one
from tests.workspace import MakeSpec, Prepare, Resolved

FEW: Mapping[str, Any] = {
    "method": "tapt",
    "space": None,
    "protocol": "cmlm-fewshot",
    "train_size": 20,
    "searched": False,
}
StudyOf = Callable[..., Study]


@pytest.fixture
def mixed(toy: CustomTask, tmp_path: Path) -> CustomTask:
    """Return the toy task with 30 unlabeled rows among its rows."""
    header, *rows = toy.path.read_text().splitlines()
    unlabeled = [f"a text {number} was seen,,train" for number in range(30)]
    path = tmp_path / "mixed.csv"
    path.write_text("\n".join([header, *unlabeled[:20], *rows, *unlabeled[20:]]) + "\n")
    return replace(toy, path=path)


@pytest.fixture
def study_of(resolved: Resolved) -> StudyOf:
    """Return a function that resolves a study of all labeled rows of some files."""

    def study_of(files: CustomTask, method: str, unlabeled: Any) -> Study:
        fields = {**FEW, "train_size": 60, "task": files, "method": method}
        return resolved(**fields, unlabeled=unlabeled)

    return study_of


def test_unlabeled_texts_change_names_and_keys_and_are_shown_by_plan_and_mlflow(
    make_spec: MakeSpec, prepare: Prepare, resolved: Resolved, tmp_path: Path
) -> None:
    without, with_ = (resolved(**FEW, unlabeled=n) for n in (None, 40))
    assert {**without.identity, "unlabeled": 40} == with_.identity
    assert without.default_name() != with_.default_name()
    before, after = without.seed_run_spec({}, 0).identity, with_.seed_run_spec({}, 0).identity
    assert after["rows"].pop("unlabeled")  # type: ignore[attr-defined]
    assert before == after
    spec = make_spec(**FEW, unlabeled=40)
    options = RunOptions(storage=tmp_path, gpus_per_trial=0)
    planned = plan_prepared(prepare_study(spec, options, dry=True))
    assert planned["rows"] == (20, 20, 20, 40)
    assert "stages without labels: 20 texts beside the 20 training rows" in planned["notes"]
    prepared = prepare(spec)
    state = SearchState(prepared.record, prepared.replicates, prepared.study.rule)
    (shown,) = new_records(state)
    assert shown.params["unlabeled"] == 40


def test_fresh_replicates_draw_new_texts(make_spec: MakeSpec, prepare: Prepare) -> None:
    before = prepare(make_spec(**FEW, unlabeled=40))
    origin = json.loads(json.dumps(before.record.origin))
    fresh = prepare(restore_spec(origin, {}, fresh=2), seeds=None)
    for name in ("train", "unlabeled"):
        chosen = {before.study.splits(number).digests[name] for number in range(15)}
        new = {splits.digests[name] for splits in fresh.splits.values()}
        assert (len(new), len(chosen), new & chosen) == (2, 5, set())


def test_without_the_option_unlabeled_rows_change_only_a_note(
    toy: CustomTask, mixed: CustomTask, resolved: Resolved, study_of: StudyOf
) -> None:
    with_, without = (study_of(files, "ce", None) for files in (mixed, toy))
    assert with_.data.digest == without.data.digest
    assert [with_.seed_run_spec({}, n).identity["rows"] for n in range(3)] == [
        without.seed_run_spec({}, n).identity["rows"] for n in range(3)
    ]
    note = "training rows without a label that are not used: 30"
    assert with_.notes == [note, *without.notes]
    reader = study_of(mixed, "tapt", None).notes
    assert f"{note}; --unlabeled all adds them to the stages without labels" in reader
    assert study_of(mixed, "tapt", "all").notes == study_of(toy, "tapt", 60).notes
    noisy = {**FEW, "method": "ce", "protocol": "gunel-noisy"}
    its, own = (resolved(**noisy, task=files) for files in (toy, mixed))
    assert own.seed_run_spec({}, 0).key == its.seed_run_spec({}, 0).key
    before, after = (
        next(iter(one.tokenized([one.splits(0)]).values()))["train"] for one in (its, own)
    )
    assert np.array_equal(before.ids, after.ids)
    assert np.array_equal(before.starts, after.starts)


def test_unlabeled_texts_are_part_of_the_key_only_if_they_are_read(
    mixed: CustomTask, study_of: StudyOf
) -> None:
    before = {n: study_of(mixed, "tapt", n) for n in (None, "all")}
    rows = before["all"].splits(0).unlabeled
    assert rows is not None
    assert rows.index.tolist() == list(range(90))
    mixed.path.write_text(mixed.path.read_text().replace("a text 7 was", "a text 7 is"))
    for number, changed in ((None, False), ("all", True)):
        after = study_of(mixed, "tapt", number)
        same = before[number].seed_run_spec({}, 0).key == after.seed_run_spec({}, 0).key
        assert same != changed
        assert (before[number].default_name() == after.default_name()) != changed


@pytest.mark.parametrize(
    ("method", "changes", "regression"),
    [("cssl", {"train_size": 60}, False), ("tapt", {"train_size": None, "protocol": None}, True)],
    ids=["few rows", "all rows of a regression"],
)
def test_a_seed_run_with_unlabeled_texts_can_be_repeated(
    make_spec: MakeSpec,
    prepare: Prepare,
    mixed: CustomTask,
    method: str,
    changes: dict[str, Any],
    regression: bool,
) -> None:
    if regression:
        mixed.path.write_text(mixed.path.read_text().replace(",n,", ",0.5,").replace(",y,", ",2,"))
    task = replace(mixed, regression=regression)
    settings = {"epochs": 1, "post_epochs": 1, "max_length": 16, "pooling": "mean"}
    fields = {**FEW, "settings": settings, "task": task, "method": method, "unlabeled": 90}
    prepared = prepare(make_spec(**{**fields, **changes}), seeds=1)
    assert rerun(prepared.storage, train_one(prepared).key).differing == ()
