"""Rows of one's own file that have no label are read by stages without labels, and by nothing."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.search.options import How, What
from sclsearch.search.plan import plan
from sclsearch.search.prepare import Prepared
from sclsearch.search.rerun import rerun
from sclsearch.search.resolve import resolve
from sclsearch.search.study import Study
from sclsearch.search.tokenised import tokenised
from sclsearch.search.trial import Bench, attempt
from sclsearch.tasks.own import OwnFiles

FEW: Mapping[str, Any] = {
    "space": None,
    "protocol": "cmlm-fewshot",
    "train_size": 60,
    "searched": False,
    "settings": {"epochs": 1, "post_epochs": 1, "max_length": 16, "pooling": "mean"},
}
METHODS = ("tapt", "cmlm", "cssl", "simcse")

Asked = Callable[..., What]
Preparing = Callable[..., Prepared]


@pytest.fixture
def mixed(toy: OwnFiles, tmp_path: Path) -> OwnFiles:
    """Returns the toy's rows with 30 among them that have no label."""
    header, *rows = toy.path.read_text().splitlines()
    bare = [f"a text {number} was seen,,train" for number in range(30)]
    path = tmp_path / "mixed.csv"
    path.write_text("\n".join([header, *bare[:20], *rows, *bare[20:]]) + "\n")
    return replace(toy, path=path)


@pytest.fixture
def study_of(asked: Asked) -> Callable[..., Study]:
    """Returns what makes the study of some files."""

    def study_of(files: OwnFiles, method: str, unlabelled: Any) -> Study:
        settings = {name: FEW["settings"][name] for name in ("epochs", "max_length", "pooling")}
        own = {} if method == "tapt" else {"settings": settings}
        what = asked(**{**FEW, "task": files, "method": method, "unlabelled": unlabelled, **own})
        return resolve(what, How(gpus_per_trial=0))

    return study_of


def test_figures_without_them_are_those_of_the_labelled_rows_alone(
    toy: OwnFiles, mixed: OwnFiles, study_of: Callable[..., Study]
) -> None:
    with_, without = (study_of(files, "ce", None) for files in (mixed, toy))
    assert with_.data.digest == without.data.digest
    assert [with_.job({}, n).identity["rows"] for n in range(3)] == [
        without.job({}, n).identity["rows"] for n in range(3)
    ]
    note = "training rows without a label that are not read: 30"
    assert with_.notes == [note, *without.notes]
    reader = study_of(mixed, "tapt", None).notes
    assert f"{note}; --unlabelled all gives them to the stages that read no labels" in reader
    assert study_of(mixed, "tapt", "all").notes == study_of(toy, "tapt", 60).notes


def test_all_of_them_are_read_where_all_are_asked_for(
    mixed: OwnFiles, study_of: Callable[..., Study]
) -> None:
    parts = study_of(mixed, "tapt", 90).parts(0)
    assert parts.digests == study_of(mixed, "tapt", "all").parts(0).digests
    assert parts.unlabelled is not None
    assert parts.unlabelled.index.tolist() == list(range(90))
    assert parts.train.index.max() < 60
    some = study_of(mixed, "tapt", 75).parts(0).unlabelled
    assert some is not None
    assert (len(some.index), int((some.index < 60).sum())) == (75, 60)


def test_their_texts_are_part_of_the_key_of_what_reads_them(
    mixed: OwnFiles, study_of: Callable[..., Study]
) -> None:
    before = {n: study_of(mixed, "tapt", n) for n in (None, 90)}
    mixed.path.write_text(mixed.path.read_text().replace("a text 7 was", "a text 7 is"))
    after = {n: study_of(mixed, "tapt", n) for n in (None, 90)}
    same = {n: before[n].job({}, 0).key == after[n].job({}, 0).key for n in before}
    assert same == {None: True, 90: False}
    names = {n: before[n].default_name() == after[n].default_name() for n in same}
    assert names == same


@pytest.mark.parametrize(
    ("method", "changes", "of_file"),
    [
        *((method, {}, {}) for method in METHODS),
        ("tapt", {"train_size": None, "protocol": None}, {}),
        ("cmlm", {"settings": {**FEW["settings"], "batch_sampling": "balanced"}}, {}),
        ("tapt", {}, {"regression": True}),
    ],
    ids=str,
)
def test_a_seed_run_that_reads_them_is_trained_and_trained_again(
    asked: Asked,
    preparing: Preparing,
    mixed: OwnFiles,
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
    what = asked(
        **{**FEW, "settings": fields, "task": task, "method": method, "unlabelled": 90, **changes}
    )
    prepared = preparing(what, seeds=1)
    prepared.begin()
    prepared.board().open_up()
    bench = Bench(
        study=prepared.study,
        name=prepared.record.name,
        storage=tmp_path / "storage",
        tokens=tokenised(prepared.study, prepared.parts.values()),
        parts=prepared.parts,
        threads=1,
        origin=prepared.record.origin,
    )
    run, _ = attempt(prepared.study.job({}, 0, prepared.parts[0]), bench, 0)
    assert run.failure is None
    prepared.runs.put(run)
    assert rerun(tmp_path / "storage", run.key).differing == ()


def test_paraphrases_join_the_labelled_rows_alone(
    asked: Asked, preparing: Preparing, toy: OwnFiles, mixed: OwnFiles
) -> None:
    few = {"space": None, "protocol": "gunel-noisy", "train_size": 20, "searched": False}
    with_, without = (
        preparing(asked(**few, task=files, method="ce"), study=files.path.stem, seeds=3)
        for files in (mixed, toy)
    )
    assert with_.study.job({}, 0).key == without.study.job({}, 0).key
    own, its = (
        next(iter(tokenised(one.study, one.parts.values()).values())).splits["train"]
        for one in (with_, without)
    )
    assert np.array_equal(own.ids, its.ids)
    assert np.array_equal(own.starts, its.starts)


def test_a_test_text_among_them_is_told_as_what_it_is(
    mixed: OwnFiles, study_of: Callable[..., Study]
) -> None:
    text = mixed.path.read_text().replace("a text 7 was seen,,train", "seen,,train\nseen,y,test")
    mixed.path.write_text(text)
    notes = study_of(mixed, "tapt", 90).notes
    assert "1 of 21 test texts are also texts without a label" in notes
    assert not any(note.startswith("1 of 21") and "training texts" in note for note in notes)


def test_a_file_without_any_label_is_told_so(
    mixed: OwnFiles, study_of: Callable[..., Study]
) -> None:
    mixed.path.write_text("text,label,split\na,,train\nb,,train\nc,y,test\n")
    with pytest.raises(SclsearchError, match="training rows with a label must be there"):
        study_of(mixed, "tapt", None)


def test_a_dry_run_counts_them(asked: Asked, mixed: OwnFiles, tmp_path: Path) -> None:
    what = asked(**FEW, task=mixed, method="tapt", unlabelled=90)
    planned = plan(what, How(storage=tmp_path, gpus_per_trial=0))
    assert planned.rows == (60, 20, 20, 90)
    assert "stages without labels: 30 texts beside the 60 training rows" in planned.notes


def test_a_text_without_label_must_hold_something_and_be_for_training(
    mixed: OwnFiles, study_of: Callable[..., Study]
) -> None:
    text = mixed.path.read_text()
    mixed.path.write_text(text.replace("a text 0 was seen", " "))
    with pytest.raises(SclsearchError, match="line 2: every text must hold something, but one is"):
        study_of(mixed, "tapt", 90)
    mixed.path.write_text(text.replace("a text 0 was seen,,train", "a text,,test"))
    with pytest.raises(SclsearchError, match="line 2: the label must be there, but it is empty"):
        study_of(mixed, "tapt", 90)
