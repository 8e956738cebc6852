"""Tests of unlabeled rows in a user's file: only stages without labels read them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.search.rerun import rerun
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions
from sclsearch.study.study import Study
from sclsearch.study.tokenized import tokenized
from sclsearch.tasks.custom import CustomTask
from tests.in_process import train_one
from tests.workspace import MakeSpec, Prepare

FEW: Mapping[str, Any] = {
    "space": None,
    "protocol": "cmlm-fewshot",
    "train_size": 60,
    "searched": False,
    "settings": {"epochs": 1, "post_epochs": 1, "max_length": 16, "pooling": "mean"},
}


@pytest.fixture
def mixed(toy: CustomTask, tmp_path: Path) -> CustomTask:
    """Return the toy task with 30 unlabeled rows among its rows."""
    header, *rows = toy.path.read_text().splitlines()
    unlabeled = [f"a text {number} was seen,,train" for number in range(30)]
    path = tmp_path / "mixed.csv"
    path.write_text("\n".join([header, *unlabeled[:20], *rows, *unlabeled[20:]]) + "\n")
    return replace(toy, path=path)


@pytest.fixture
def study_of(make_spec: MakeSpec) -> Callable[..., Study]:
    """Return a function that resolves a study of some files."""

    def study_of(files: CustomTask, method: str, unlabeled: Any) -> Study:
        settings = {name: FEW["settings"][name] for name in ("epochs", "max_length", "pooling")}
        own = {} if method == "tapt" else {"settings": settings}
        spec = make_spec(**{**FEW, "task": files, "method": method, "unlabeled": unlabeled, **own})
        return resolve(spec, RunOptions(gpus_per_trial=0))

    return study_of


def test_without_the_option_unlabeled_rows_change_only_a_note(
    toy: CustomTask, mixed: CustomTask, study_of: Callable[..., Study]
) -> None:
    with_, without = (study_of(files, "ce", None) for files in (mixed, toy))
    assert with_.data.digest == without.data.digest
    assert [with_.seed_run_spec({}, n).identity["rows"] for n in range(3)] == [
        without.seed_run_spec({}, n).identity["rows"] for n in range(3)
    ]
    note = "training rows without a label that are not read: 30"
    assert with_.notes == [note, *without.notes]
    reader = study_of(mixed, "tapt", None).notes
    assert f"{note}; --unlabeled all gives them to the stages that read no labels" in reader
    assert study_of(mixed, "tapt", "all").notes == study_of(toy, "tapt", 60).notes


def test_unlabeled_all_reads_every_unlabeled_row(
    mixed: CustomTask, study_of: Callable[..., Study]
) -> None:
    splits = study_of(mixed, "tapt", 90).splits(0)
    assert splits.digests == study_of(mixed, "tapt", "all").splits(0).digests
    assert splits.unlabeled is not None
    assert splits.unlabeled.index.tolist() == list(range(90))
    assert splits.train.index.max() < 60
    some = study_of(mixed, "tapt", 75).splits(0).unlabeled
    assert some is not None
    assert (len(some.index), int((some.index < 60).sum())) == (75, 60)


def test_unlabeled_texts_are_part_of_the_key_only_if_they_are_read(
    mixed: CustomTask, study_of: Callable[..., Study]
) -> None:
    before = {n: study_of(mixed, "tapt", n) for n in (None, 90)}
    mixed.path.write_text(mixed.path.read_text().replace("a text 7 was", "a text 7 is"))
    after = {n: study_of(mixed, "tapt", n) for n in (None, 90)}
    same = {
        n: before[n].seed_run_spec({}, 0).key == after[n].seed_run_spec({}, 0).key for n in before
    }
    assert same == {None: True, 90: False}
    names = {n: before[n].default_name() == after[n].default_name() for n in same}
    assert names == same


@pytest.mark.parametrize(
    ("method", "changes", "of_file"),
    [
        ("cssl", {}, {}),
        ("simcse", {}, {}),
        ("tapt", {"train_size": None, "protocol": None}, {}),
        ("cmlm", {"settings": {**FEW["settings"], "batch_sampling": "balanced"}}, {}),
        ("tapt", {}, {"regression": True}),
    ],
    ids=str,
)
def test_a_seed_run_with_unlabeled_texts_can_be_repeated(
    make_spec: MakeSpec,
    prepare: Prepare,
    mixed: CustomTask,
    tmp_path: Path,
    method: str,
    changes: dict[str, Any],
    of_file: dict[str, Any],
) -> None:
    if of_file:
        mixed.path.write_text(mixed.path.read_text().replace(",n,", ",0.5,").replace(",y,", ",2,"))
    fields = dict(FEW["settings"])
    if method == "simcse":
        del fields["post_epochs"]
    task = replace(mixed, **of_file)
    spec = make_spec(
        **{**FEW, "settings": fields, "task": task, "method": method, "unlabeled": 90, **changes}
    )
    run = train_one(prepare(spec, seeds=1))
    assert rerun(tmp_path / "storage", run.key).differing == ()


def test_paraphrases_join_only_the_labeled_rows(
    make_spec: MakeSpec, prepare: Prepare, toy: CustomTask, mixed: CustomTask
) -> None:
    few = {"space": None, "protocol": "gunel-noisy", "train_size": 20, "searched": False}
    with_, without = (
        prepare(make_spec(**few, task=files, method="ce"), study=files.path.stem, seeds=3)
        for files in (mixed, toy)
    )
    assert with_.study.seed_run_spec({}, 0).key == without.study.seed_run_spec({}, 0).key
    own, its = (
        next(iter(tokenized(one.study, one.splits.values()).values())).splits["train"]
        for one in (with_, without)
    )
    assert np.array_equal(own.ids, its.ids)
    assert np.array_equal(own.starts, its.starts)
