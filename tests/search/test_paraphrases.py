"""Tests of paraphrases from EDA or a file: what reads them, keys, and files that lack some."""

import json
import shlex
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.canonical import digest
from sclsearch.encoders.load import load_tokenizer
from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation.write import select_texts
from sclsearch.protocols.papers import gunel_few_shot_training
from sclsearch.reports.report import report
from sclsearch.search.run import rerun
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.studies import seed_run_key
from sclsearch.study.study import FieldDefault, Study
from sclsearch.tasks.base import Texts
from sclsearch.tasks.custom import CustomTask, as_options
from sclsearch.tasks.paraphrases import EDA_VERSION, eda
from sclsearch.training.data import PARAPHRASES, Tokens
from tests.in_process import train_one
from tests.workspace import MakeSpec, Prepare, Resolved

ROWS = 20
LENGTH = 16
NOISY: dict[str, Any] = {"protocol": "gunel-noisy", "train_size": ROWS}
FEW_SHOT: dict[str, Any] = {"protocol": "gunel-fewshot", "train_size": ROWS}
CSSL: dict[str, Any] = {"method": "cssl", "space": None, "train_size": ROWS}
SHORT: dict[str, Any] = {"settings": {"max_length": LENGTH}}
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


def drawn_texts(study: Study, replicates: int = 10) -> set[Texts]:
    texts = study.data.splits["train"].texts
    return {texts[row] for n in range(replicates) for row in study.splits(n).train.index}


def tokens_of(study: Study) -> dict[str, Tokens]:
    return study.tokenized([study.splits(0)])[LENGTH]


def row_of(tokens: Tokens, row: int) -> list[int]:
    ids: list[int] = tokens.ids[tokens.starts[row] : tokens.starts[row + 1]].tolist()
    return ids


def keys(prepared: Scheduler) -> list[str]:
    study, splits = prepared.study, prepared.splits
    return [study.seed_run_spec({}, number, splits[number]).key for number in range(study.seeds)]


def test_a_noisy_study_differs_from_the_few_shot_one_by_paraphrases_and_epochs(
    resolved: Resolved, write: Write
) -> None:
    fields = {"settings": {"epochs": 4}}
    noisy, few = (resolved(**one, **fields).seed_run_spec({}, 3) for one in (NOISY, FEW_SHOT))
    rows = {**few.splits.digests, "paraphrases": digest(["eda", EDA_VERSION])}
    expected: dict[str, object] = {**few.identity, "joined": 3, "rows": rows}
    assert noisy.identity == expected
    study = resolved(**NOISY)
    epochs = gunel_few_shot_training(4 * ROWS, 8)["epochs"]
    assert epochs != gunel_few_shot_training(ROWS, 8)["epochs"]
    assert study.defaults["epochs"] == FieldDefault(epochs, "protocol")
    assert "training: each row is joined by 3 paraphrases from EDA" in study.notes
    notes = resolved(**NOISY, paraphrases=write(drawn_texts(study), 3)).notes
    assert notes[:2] == ["training: each row is joined by 3 paraphrases from numbers", "of a test"]


def test_paraphrases_join_only_training_rows(resolved: Resolved) -> None:
    study, few = resolved(**NOISY, **SHORT), resolved(**FEW_SHOT, **SHORT)
    tokens, before = tokens_of(study), tokens_of(few)
    total, rows = len(study.data.splits["train"]), study.splits(0).train.index
    train = tokens["train"]
    assert train.y.tolist() == before["train"].y.tolist() * 4
    read = np.flatnonzero(train.lengths)
    assert read.tolist() == [row + total * view for view in range(4) for row in rows]
    for row in rows:
        assert row_of(train, row) == row_of(before["train"], row)
    assert tokens.keys() == before.keys()
    for name in tokens.keys() - {"train"}:
        assert np.array_equal(tokens[name].ids, before[name].ids)
        assert np.array_equal(tokens[name].starts, before[name].starts)


def test_validation_rows_from_the_training_split_need_no_paraphrases(
    resolved: Resolved, write: Write, tmp_path: Path
) -> None:
    lines = [
        f"sentence {n} of the {split} split,{n % 2},{split}"
        for n, split in enumerate(["train"] * 100 + ["test"] * 20)
    ]
    path = tmp_path / "two_splits.csv"
    path.write_text("\n".join(["text,label,split", *lines]) + "\n")
    task = CustomTask(path, text=("text",), label="label", split_column="split")
    fields = {**NOISY, "task": task, **SHORT}
    study = resolved(**fields, paraphrases=write(drawn_texts(resolved(**fields)), 3))
    splits = study.splits(0)
    assert splits.validation.split == "train"
    total = len(study.data.splits["train"])
    joined = {row + total * view for row in splits.train.index for view in range(4)}
    read = {*np.flatnonzero(tokens_of(study)["train"].lengths)}
    assert read == joined | {*splits.validation.index}


def test_a_method_that_contrasts_paraphrases_also_reads_those_of_joined_rows(
    resolved: Resolved,
) -> None:
    study = resolved(**{**CSSL, **NOISY, **SHORT})
    total, row = len(study.data.splits["train"]), int(study.splits(0).train.index[0])
    (text,) = study.data.splits["train"].texts[row]
    second = eda(eda(text, 3)[2])[1]
    found = tokens_of(study)[PARAPHRASES]
    place = row + 3 * total + len(found.y) // 2
    expected = load_tokenizer(study.model)(second, truncation=True, max_length=LENGTH)
    assert row_of(found, place) == expected["input_ids"]


def test_a_file_with_too_few_paraphrases_is_refused_before_storing(
    resolved: Resolved, prepare: Prepare, make_spec: MakeSpec, write: Write, tmp_path: Path
) -> None:
    texts = drawn_texts(resolved(**NOISY))
    with pytest.raises(SclsearchError, match=rf"3 paraphrases, {len(texts)} of {len(texts)} have"):
        prepare(make_spec(**NOISY, paraphrases=write(texts, 2)), seeds=10)
    spec = make_spec(**{**CSSL, **NOISY}, paraphrases=write(texts, 3))
    with pytest.raises(SclsearchError, match=rf" {3 * len(texts)} of {4 * len(texts)} have fewer"):
        prepare(spec, seeds=10)
    assert not list(tmp_path.glob("storage/*/*"))
    every = texts | {(f"{text} {number}",) for (text,) in texts for number in range(3)}
    write(every, 3)
    assert prepare(spec, seeds=10).study.reads_paraphrases


@pytest.mark.parametrize("unlabeled", [None, 40])
@pytest.mark.parametrize("fresh", [None, 3])
def test_augment_writes_the_texts_that_a_study_and_its_repetition_read(
    make_spec: MakeSpec, prepare: Prepare, write: Write, unlabeled: int | None, fresh: int | None
) -> None:
    few = {**CSSL, "protocol": "cmlm-fewshot", "searched": False}
    spec = make_spec(**few, unlabeled=unlabeled, fresh=fresh)
    found = prepare(spec, seeds=fresh or 15)
    rows = [splits.unlabeled or splits.train for splits in found.splits.values()]
    texts = found.study.data.splits["train"].texts
    read = {texts[row] for one in rows for row in one.index}
    data, options = found.study.data, (spec.task, few["protocol"], ROWS, None)
    drawn = set(select_texts(*options, 15, unlabeled).texts(data))
    assert (drawn == read) == (fresh is None)
    assert read <= set(select_texts(*options, 15 + (fresh or 0), unlabeled).texts(data))
    with pytest.raises(SclsearchError) as raised:
        prepare(replace(spec, paraphrases=write(())), seeds=fresh or 1, study="other")
    assert not isinstance(spec.task, str)
    command = f"sclsearch augment {shlex.join(as_options(spec.task))} --train-size 20 --protocol "
    more = f" --unlabeled {unlabeled}" if unlabeled else ""
    count = 15 + fresh if fresh else 1
    assert f"`{command}cmlm-fewshot --replicates {count}{more} --backend …`" in str(raised.value)


def test_paraphrases_for_more_seeds_do_not_change_finished_seed_runs(
    make_spec: MakeSpec, prepare: Prepare, resolved: Resolved, write: Write
) -> None:
    study = resolved(**CSSL)
    spec = make_spec(**CSSL, paraphrases=write(drawn_texts(study, 2)))
    before = prepare(spec, seeds=2).begin()
    write(drawn_texts(study, 4))
    after = prepare(spec, seeds=4)
    assert after.record == before.record
    assert keys(after)[:2] == keys(before)
    assert len({*keys(after)}) == 4
    configuration = after.study.configuration(0, {}, "given")
    assert keys(after) == [
        seed_run_key(after.record, configuration, replicate) for replicate in after.replicates
    ]


def test_changed_paraphrases_of_a_text_that_is_read_give_another_study(
    make_spec: MakeSpec, prepare: Prepare, resolved: Resolved, write: Write
) -> None:
    study = resolved(**CSSL, task="demo")
    first, both = drawn_texts(study, 1), drawn_texts(study, 2)
    spec = make_spec(**CSSL, task="demo", paraphrases=write(both))
    before = prepare(spec, study="mine", seeds=2).begin()
    write(both, changed=min(first))
    assert prepare(spec, seeds=2).study.default_name() != before.study.default_name()
    with pytest.raises(SclsearchError, match=r"^--study mine: paraphrases \(.*\) changed since"):
        prepare(spec, study="mine", seeds=2)
    write(both, changed=min(both - first))
    assert keys(prepare(spec, study="other", seeds=2))[0] == keys(before)[0]
    with pytest.raises(SclsearchError, match=r"^--study mine: paraphrases of replicate 1 .* chang"):
        prepare(spec, study="mine", seeds=2)


def test_a_seed_run_with_paraphrases_of_a_file_is_noted_and_can_be_rerun(
    make_spec: MakeSpec, prepare: Prepare, resolved: Resolved, write: Write
) -> None:
    settings = {"epochs": 1, "post_epochs": 1, "max_length": LENGTH, "pooling": "mean"}
    file = write(drawn_texts(resolved(**CSSL), 1))
    spec = make_spec(**CSSL, settings=settings, searched=False, paraphrases=file)
    prepared = prepare(spec, seeds=1, configs=1)
    run = train_one(prepared)
    assert "of a test" in report(prepared.storage, prepared.name).notes
    assert {reading["stage"] for reading in run.stages} == {"post-training"}
    assert rerun(prepared.storage, run.key).differing == ()
