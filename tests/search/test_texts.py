"""Tests of the texts beside the labeled ones: paraphrases from EDA or a file, unlabeled texts."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.papers import augmentation
from sclsearch.protocols import find_protocol
from sclsearch.reports.report import report
from sclsearch.search.run import rerun, run
from sclsearch.search.scheduler import Scheduler
from sclsearch.study.spec import RunOptions
from sclsearch.study.study import Study
from sclsearch.tasks.base import Texts
from sclsearch.tasks.custom import CustomTask
from tests.studies import MakeSpec, Prepare, Resolved, in_process

ROWS = 20
NOISY: dict[str, Any] = {"protocol": "gunel-noisy", "train_size": ROWS}
CSSL: dict[str, Any] = {"method": "cssl", "space": None, "train_size": ROWS}
TAPT: dict[str, Any] = {**CSSL, "method": "tapt", "protocol": "cmlm-fewshot", "searched": False}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes paraphrases: each text with a number, or other ones."""

    def write(texts: Iterable[Texts], count: int = 2, *, changed: Texts | None = None) -> Path:
        path = tmp_path / "paraphrases.jsonl"
        lines: list[object] = [{"paraphrases": 1, "source": "numbers", "note": "of a test"}]
        for text in sorted({*texts}):
            more = " other" if text == changed else ""
            views = [[f"{part} {number}{more}" for part in text] for number in range(count)]
            lines.append({"text": text, "paraphrases": views})
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return path

    return write


@pytest.fixture
def mixed(toy: CustomTask, tmp_path: Path) -> CustomTask:
    """Return the toy task with 30 unlabeled rows among its rows."""
    header, *rows = toy.path.read_text().splitlines()
    unlabeled = [f"a text {number} was seen,,train" for number in range(30)]
    path = tmp_path / "mixed.csv"
    path.write_text("\n".join([header, *unlabeled[:20], *rows, *unlabeled[20:]]) + "\n")
    return replace(toy, path=path)


def drawn_texts(study: Study, replicates: int = 10) -> set[Texts]:
    texts = study.data.splits["train"].texts
    return {texts[row] for n in range(replicates) for row in study.splits(n).train.index}


def keys(prepared: Scheduler) -> list[str]:
    study, splits = prepared.study, prepared.splits
    return [study.seed_run_spec({}, number, splits[number]).key for number in range(study.seeds)]


def test_a_file_with_too_few_paraphrases_is_refused_before_storing(
    resolved: Resolved, prepare: Prepare, make_spec: MakeSpec, write: Write, tmp_path: Path
) -> None:
    texts = drawn_texts(resolved(**NOISY))
    with pytest.raises(SclsearchError, match=rf"3 paraphrases, {len(texts)} of {len(texts)} have"):
        prepare(make_spec(**NOISY, paraphrases=write(texts, 2)), seeds=10)
    # A method that contrasts paraphrases reads those of the joined rows, too.
    spec = make_spec(**{**CSSL, **NOISY}, paraphrases=write(texts, 3))
    with pytest.raises(SclsearchError, match=rf" {3 * len(texts)} of {4 * len(texts)} have fewer"):
        prepare(spec, seeds=10)
    assert not list(tmp_path.glob("storage/*/*"))
    write(texts | {(f"{text} {number}",) for (text,) in texts for number in range(3)}, 3)
    assert prepare(spec, seeds=10).study.reads_paraphrases


@pytest.mark.parametrize("unlabeled", [None, 40])
@pytest.mark.parametrize("fresh", [None, 3])
def test_augment_writes_the_texts_that_a_study_and_its_repetition_read(
    make_spec: MakeSpec, prepare: Prepare, write: Write, unlabeled: int | None, fresh: int | None
) -> None:
    spec = make_spec(**{**TAPT, "method": "cssl"}, unlabeled=unlabeled, fresh=fresh)
    found = prepare(spec, seeds=fresh or 15)
    rows = [splits.unlabeled or splits.train for splits in found.splits.values()]
    texts = found.study.data.splits["train"].texts
    read = {texts[row] for one in rows for row in one.index}
    options = (found.study.data, find_protocol("cmlm-fewshot"), found.study.size)
    drawn = set(augmentation.drawn_texts(*options, 15, unlabeled))
    assert (drawn == read) == (fresh is None)
    assert read <= set(augmentation.drawn_texts(*options, 15 + (fresh or 0), unlabeled))
    with pytest.raises(SclsearchError) as raised:
        prepare(replace(spec, paraphrases=write(())), seeds=fresh or 1, study="other")
    assert f" --seeds {15 + fresh if fresh else 1} " in str(raised.value)


def test_changed_paraphrases_of_a_text_that_is_read_give_another_study_and_more_do_not(
    make_spec: MakeSpec, prepare: Prepare, resolved: Resolved, write: Write
) -> None:
    study = resolved(**CSSL, task="demo")
    first, both, more = (drawn_texts(study, seeds) for seeds in (1, 2, 4))
    spec = make_spec(**CSSL, task="demo", paraphrases=write(both))
    before = prepare(spec, study="mine", seeds=2).begin()
    write(more)
    after = prepare(spec, study="mine", seeds=4)
    assert after.record == before.record
    assert keys(after)[:2] == keys(before)
    write(both, changed=min(first))
    assert prepare(spec, seeds=2).study.default_name() != before.study.default_name()
    with pytest.raises(SclsearchError, match=r"^--study mine: paraphrases \(.*\) changed since"):
        prepare(spec, study="mine", seeds=2)
    write(both, changed=min(both - first))
    assert keys(prepare(spec, study="other", seeds=2))[0] == keys(before)[0]
    with pytest.raises(SclsearchError, match=r"^--study mine: paraphrases of replicate 1 .* chang"):
        prepare(spec, study="mine", seeds=2)


def test_changed_unlabeled_rows_give_another_study_only_if_they_are_read(
    mixed: CustomTask, resolved: Resolved
) -> None:
    all_rows = {**TAPT, "train_size": 60, "task": mixed}
    before = {n: resolved(**all_rows, unlabeled=n) for n in (None, "all")}
    assert "training rows without a label that are not used: 30" in "\n".join(before[None].notes)
    rows = before["all"].splits(0).unlabeled
    assert rows is not None
    assert rows.index.tolist() == list(range(90))
    mixed.path.write_text(mixed.path.read_text().replace("a text 7 was", "a text 7 is"))
    for unlabeled, study in before.items():
        after = resolved(**all_rows, unlabeled=unlabeled)
        same = unlabeled is None
        assert (keys_of(study) == keys_of(after)) == same
        assert (study.default_name() == after.default_name()) == same


def keys_of(study: Study) -> list[str]:
    return [study.seed_run_spec({}, number).key for number in range(3)]


def test_a_seed_run_with_paraphrases_and_unlabeled_texts_can_be_rerun(
    make_spec: MakeSpec, prepare: Prepare, write: Write, mixed: CustomTask, tmp_path: Path
) -> None:
    settings = {"epochs": 1, "post_epochs": 1, "max_length": 16, "pooling": "mean"}
    changes = {"method": "cssl", "train_size": 60, "unlabeled": 90, "task": mixed}
    spec = make_spec(**{**TAPT, "settings": settings, **changes})
    texts = {*prepare(spec, seeds=1).study.data.splits["train"].texts}
    storage = tmp_path / "storage"
    with in_process():
        options = RunOptions(storage=storage, seeds=1, gpus_per_trial=0, tracking="none")
        name = run(replace(spec, paraphrases=write(texts)), options, Console(quiet=True)).name
    found = report(storage, name)
    assert "of a test" in found.notes
    assert rerun(storage, found.configurations[0].seeds[0].key).differing == ()
