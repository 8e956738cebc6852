"""Tests of a study's identity: default name, record and plan."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions
from sclsearch.tasks.custom import CustomTask
from tests.workspace import MakeSpec, Prepare, Resolved, WriteSpace


def test_the_default_name_depends_only_on_the_identity(
    make_spec: MakeSpec, resolved: Resolved
) -> None:
    name = resolved().default_name()
    assert name.startswith("scl-toy-")
    options = RunOptions(
        gpus_per_trial=0, seeds=2, rule="best", concurrency=7, time_budget=1.0, configs=3
    )
    assert resolve(make_spec(), options).default_name() == name


def test_absolute_and_relative_paths_of_an_encoder_give_the_same_study(
    make_spec: MakeSpec, prepare: Prepare, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = prepare(make_spec(model=str(tiny_bert)))
    before.store.create(before.record)
    monkeypatch.chdir(tiny_bert.parent)
    after = prepare(make_spec(model=f"./{tiny_bert.name}"))
    assert after.record == before.record
    named = prepare(make_spec(model=f"./{tiny_bert.name}"), study=before.store.name)
    assert named.record == before.record


def test_a_study_that_release_0_1_0_named_by_a_path_is_found(
    make_spec: MakeSpec, prepare: Prepare, tiny_bert: Path
) -> None:
    before = prepare(make_spec(model=str(tiny_bert)))
    name = before.study.default_name(str(tiny_bert))
    assert name != before.store.name
    early = prepare(make_spec(model=str(tiny_bert)), study=name)
    early.store.create(early.record)
    assert prepare(make_spec(model=str(tiny_bert))).store.name == name


def test_a_whole_number_set_by_hand_is_the_same_study(resolved: Resolved) -> None:
    whole, real = (resolved(settings={"tau": tau}) for tau in (1, 1.0))
    assert whole.default_name() == real.default_name()


@pytest.mark.parametrize("stem", ["отзывы", "é", "_", "long" * 40])
def test_every_file_name_gives_a_valid_study_name(
    prepare: Prepare, make_spec: MakeSpec, toy: CustomTask, tmp_path: Path, stem: str
) -> None:
    file = tmp_path / f"{stem}.csv"
    file.write_bytes(toy.path.read_bytes())
    prepared = prepare(make_spec(task=replace(toy, path=file)))
    assert prepared.store.name == prepared.study.default_name()


@pytest.mark.parametrize(
    "changes",
    [
        {"search_seed": 1},
        {"sampler": "random"},
        {"settings": {"epochs": 2}},
        {"protocol": "supcl-seq"},
        {"train_size": 20},
        {"searched": False},
    ],
    ids=str,
)
def test_a_changed_identity_has_another_name_and_is_refused_under_the_old_one(
    make_spec: MakeSpec, resolved: Resolved, prepare: Prepare, changes: dict[str, Any]
) -> None:
    before = prepare(study="mine")
    before.store.create(before.record)
    assert resolved(**changes).default_name() != before.study.default_name()
    with pytest.raises(SclsearchError, match=r"^--study mine: \w+ must stay .* Give another --stu"):
        prepare(make_spec(**changes), study="mine", seeds=None)


def test_a_study_of_the_same_identity_keeps_its_record(prepare: Prepare) -> None:
    before = prepare(study="mine")
    before.store.create(before.record)
    assert prepare(study="mine", seeds=3, configs=9).record == before.record


def test_the_notes_of_the_space_and_the_rows_are_recorded(
    make_spec: MakeSpec, prepare: Prepare, write_space: WriteSpace
) -> None:
    path = write_space("method: scl\nsource: a test\nnote: made up\npublished: []\nspace: {}\n")
    notes = prepare(make_spec(space=path)).record.origin["notes"]
    assert notes == [
        "search space: made up",
        "7 of 20 validation texts are also training texts",
        "4 of 20 test texts are also training texts",
    ]


def test_settings_are_recorded_but_not_for_fresh_replicates(
    make_spec: MakeSpec, prepare: Prepare
) -> None:
    spec = make_spec(settings={"lam": 0.5, "dropout": 0.2})
    assert prepare(spec).record.origin["settings"] == {"lam": 0.5, "dropout": 0.2}
    again = replace(spec, searched=False, restored=True, fresh=2)
    assert prepare(again).record.origin["settings"] == {}
