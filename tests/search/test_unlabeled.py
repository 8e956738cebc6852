"""Tests of unlabeled texts: option, records, paraphrases, repetitions, and rows of a file."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation.write import select_texts
from sclsearch.search.plan import plan_prepared
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import rerun
from sclsearch.study.resolve import resolve
from sclsearch.study.restore import restore_spec
from sclsearch.study.spec import RunOptions
from sclsearch.study.state import SearchState
from sclsearch.study.study import Study
from sclsearch.tasks.custom import CustomTask, as_options
from sclsearch.tracking.records import new_records
from tests.in_process import train_one
from tests.workspace import MakeSpec, Prepare, Resolved

FEW: Mapping[str, Any] = {
    "space": None,
    "protocol": "cmlm-fewshot",
    "train_size": 20,
    "searched": False,
}
MIXED: Mapping[str, Any] = {
    **FEW,
    "train_size": 60,
    "settings": {"epochs": 1, "post_epochs": 1, "max_length": 16, "pooling": "mean"},
}
NOTE = "stages without labels: 20 texts beside the 20 training rows"


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
        settings = {name: MIXED["settings"][name] for name in ("epochs", "max_length", "pooling")}
        own = {} if method == "tapt" else {"settings": settings}
        spec = make_spec(
            **{**MIXED, "task": files, "method": method, "unlabeled": unlabeled, **own}
        )
        return resolve(spec, RunOptions(gpus_per_trial=0))

    return study_of


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_size": None, "protocol": None}, "--unlabeled 40: needs a training size"),
        ({"method": "ce"}, "--unlabeled 40: ce has no stage without labels"),
        ({"protocol": "gunel-noisy"}, "cannot be combined with --protocol gunel-noisy"),
    ],
    ids=str,
)
def test_an_unlabeled_count_that_does_not_fit_is_refused(
    make_spec: MakeSpec, prepare: Prepare, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SclsearchError) as raised:
        prepare(make_spec(**{**FEW, "method": "tapt", "unlabeled": 40, **changes}), seeds=None)
    assert message in str(raised.value)


def test_unlabeled_texts_change_the_keys_of_the_study_and_its_seed_runs(resolved: Resolved) -> None:
    without, with_ = (resolved(**FEW, method="tapt", unlabeled=n) for n in (None, 40))
    assert "unlabeled" not in without.identity
    assert {**without.identity, "unlabeled": 40} == with_.identity
    assert without.default_name() != with_.default_name()
    before, after = without.seed_run_spec({}, 0).identity, with_.seed_run_spec({}, 0).identity
    assert after["rows"].pop("unlabeled")  # type: ignore[attr-defined]
    assert before == after


def test_plan_and_mlflow_show_the_number_of_unlabeled_texts(
    make_spec: MakeSpec, prepare: Prepare, tmp_path: Path
) -> None:
    spec = make_spec(**FEW, method="tapt", unlabeled=40)
    options = RunOptions(storage=tmp_path, gpus_per_trial=0)
    planned = plan_prepared(prepare_study(spec, options, dry=True))
    assert planned["rows"] == (20, 20, 20, 40)
    assert NOTE in planned["notes"]
    prepared = prepare(spec)
    assert prepared.replicates[0].rows == prepared.splits[0].digests
    state = SearchState(prepared.record, prepared.replicates, prepared.study.rule)
    (shown,) = new_records(state)
    assert shown.params["unlabeled"] == 40


def test_fresh_replicates_draw_new_texts(make_spec: MakeSpec, prepare: Prepare) -> None:
    before = prepare(make_spec(**FEW, method="tapt", unlabeled=40))
    origin = json.loads(json.dumps(before.record.origin))
    fresh = prepare(restore_spec(origin, {}, fresh=2), seeds=None)
    for name in ("train", "unlabeled"):
        chose = {before.study.splits(number).digests[name] for number in range(15)}
        new = {splits.digests[name] for splits in fresh.splits.values()}
        assert (len(new), len(chose), new & chose) == (2, 5, set())


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        (
            {"unlabeled": 40},
            "--train-size 20 --protocol cmlm-fewshot --replicates 1 --unlabeled 40",
        ),
        ({"protocol": None, "train_size": None}, "--protocol plain --replicates 1"),
        (
            {"protocol": None, "train_size": None, "unlabeled": "all"},
            "--protocol plain --replicates 1 --unlabeled all",
        ),
    ],
    ids=["unlabeled", "labeled", "all"],
)
def test_a_paraphrase_file_that_lacks_texts_names_the_command_to_write_them(
    make_spec: MakeSpec,
    prepare: Prepare,
    mixed: CustomTask,
    tmp_path: Path,
    changes: dict[str, Any],
    options: str,
) -> None:
    path = tmp_path / "paraphrases.jsonl"
    path.write_text('{"paraphrases": 1, "source": "by hand"}\n', encoding="utf-8")
    fields = {"method": "cssl", "task": mixed, "paraphrases": path, **changes}
    spec = make_spec(**{**FEW, **fields})
    with pytest.raises(SclsearchError) as raised:
        prepare(spec, seeds=1)
    files = shlex.join(as_options(mixed))
    assert f"`sclsearch augment {files} {options} --backend …` writes" in str(raised.value)


@pytest.mark.parametrize("unlabeled", [None, 20, 40])
@pytest.mark.parametrize("repeated", [{}, {"fresh": 3}])
def test_augment_paraphrases_the_texts_that_a_study_and_its_repetition_read(
    make_spec: MakeSpec, prepare: Prepare, unlabeled: int | None, repeated: dict[str, int]
) -> None:
    spec = make_spec(**FEW, method="cssl", unlabeled=unlabeled, **repeated)
    found = prepare(spec, seeds=repeated.get("fresh", 15))
    rows = [splits.unlabeled or splits.train for splits in found.splits.values()]
    texts = found.study.data.splits["train"].texts
    read = {texts[row] for one in rows for row in one.index}
    options = spec.task, FEW["protocol"], FEW["train_size"], None
    drawn = set(select_texts(*options, 15, unlabeled).texts(found.study.data))
    assert (drawn == read) == (not repeated)
    again = select_texts(*options, 15 + len(found.splits) * bool(repeated), unlabeled)
    assert read <= set(again.texts(found.study.data))


def test_without_the_option_unlabeled_rows_change_only_a_note(
    toy: CustomTask, mixed: CustomTask, study_of: Callable[..., Study]
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
    ("method", "changes", "regression"),
    [("cssl", {}, False), ("tapt", {"train_size": None, "protocol": None}, True)],
    ids=["few rows", "all rows of a regression"],
)
def test_a_seed_run_with_unlabeled_texts_can_be_repeated(
    make_spec: MakeSpec,
    prepare: Prepare,
    mixed: CustomTask,
    tmp_path: Path,
    method: str,
    changes: dict[str, Any],
    regression: bool,
) -> None:
    if regression:
        mixed.path.write_text(mixed.path.read_text().replace(",n,", ",0.5,").replace(",y,", ",2,"))
    task = replace(mixed, regression=regression)
    spec = make_spec(**{**MIXED, "task": task, "method": method, "unlabeled": 90, **changes})
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
        next(iter(one.study.tokenized(one.splits.values()).values()))["train"]
        for one in (with_, without)
    )
    assert np.array_equal(own.ids, its.ids)
    assert np.array_equal(own.starts, its.starts)
