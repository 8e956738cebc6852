"""Tests of gunel-noisy: three paraphrases join each training row, and nothing else changes."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.canonical import digest
from sclsearch.encoders.load import load_tokenizer
from sclsearch.errors import SclsearchError
from sclsearch.protocols.papers import gunel_few_shot_training
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.study.study import FieldDefault, Study
from sclsearch.tasks.base import Texts
from sclsearch.tasks.custom import CustomTask
from sclsearch.tasks.paraphrases import EDA_VERSION, eda
from sclsearch.training.data import PARAPHRASES, Tokens
from tests.workspace import MakeSpec, Prepare, Resolved

ROWS = 20
NOISY: dict[str, Any] = {"protocol": "gunel-noisy", "train_size": ROWS}
FEW_SHOT: dict[str, Any] = {"protocol": "gunel-fewshot", "train_size": ROWS}
CSSL: dict[str, Any] = {"method": "cssl", "space": None}
LENGTH = 16
# Start of the SHA-256 of replicate 0's tokens on the demo task, with paraphrases. If it changes,
# searches no longer find stored seed runs with EDA paraphrases.
DEMO = "7a1737b8d645515e"


@pytest.fixture
def on_demo(tiny_bert: Path) -> Study:
    settings = {"max_length": LENGTH}
    spec = StudySpec(method="ce", task="demo", model=str(tiny_bert), settings=settings, **NOISY)
    return resolve(spec, RunOptions(gpus_per_trial=0))


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a file of paraphrases: each text with a number added."""

    def write(texts: set[Texts], count: int, **header: object) -> Path:
        path = tmp_path / "paraphrases.jsonl"
        lines: list[object] = [{"paraphrases": 1, "source": "numbers", **header}]
        for text in sorted(texts):
            views = [[f"{part} {number}" for part in text] for number in range(count)]
            lines.append({"text": text, "paraphrases": views})
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return path

    return write


def drawn_texts(study: Study) -> set[Texts]:
    texts = study.data.splits["train"].texts
    return {texts[row] for number in range(10) for row in study.splits(number).train.index}


def tokens_of(study: Study) -> dict[str, Tokens]:
    return study.tokenized([study.splits(0)])[LENGTH]


def row_of(tokens: Tokens, row: int) -> list[int]:
    ids: list[int] = tokens.ids[tokens.starts[row] : tokens.starts[row + 1]].tolist()
    return ids


def test_a_noisy_seed_run_differs_from_the_few_shot_one_only_by_its_paraphrases(
    resolved: Resolved,
) -> None:
    fields = {"settings": {"epochs": 4}}
    noisy, few = (resolved(**one, **fields).seed_run_spec({}, 3) for one in (NOISY, FEW_SHOT))
    rows = {**few.splits.digests, "paraphrases": digest(["eda", EDA_VERSION])}
    expected: dict[str, object] = {**few.identity, "joined": 3, "rows": rows}
    assert noisy.identity == expected
    assert noisy.key != few.key


def test_epochs_follow_the_number_of_rows_with_their_paraphrases(resolved: Resolved) -> None:
    epochs = gunel_few_shot_training(4 * ROWS, 8)["epochs"]
    assert epochs != gunel_few_shot_training(ROWS, 8)["epochs"]
    assert resolved(**NOISY).defaults["epochs"] == FieldDefault(epochs, "protocol")


def test_notes_name_the_source_of_the_paraphrases(
    make_spec: MakeSpec, resolved: Resolved, write: Callable[..., Path]
) -> None:
    study = resolved(**NOISY)
    assert study.notes == [
        "training: each row is joined by 3 paraphrases from EDA",
        "paraphrases: EDA (random swap and deletion), not back-translation",
        *study.data.notes,
    ]
    file = write(drawn_texts(study), 3, note="of a test")
    assert resolved(**NOISY, paraphrases=file).notes == [
        "training: each row is joined by 3 paraphrases from numbers",
        "of a test",
        *study.data.notes,
    ]


def test_paraphrases_join_only_training_rows(resolved: Resolved) -> None:
    study, few = resolved(**NOISY), resolved(**FEW_SHOT)
    tokens, before = tokens_of(study), tokens_of(few)
    total, rows = len(study.data.splits["train"]), study.splits(0).train.index
    train = tokens["train"]
    assert train.y.tolist() == before["train"].y.tolist() * 4
    read = np.flatnonzero(train.lengths)
    assert read.tolist() == [row + total * view for view in range(4) for row in rows]
    for row in rows:
        assert row_of(train, row) == row_of(before["train"], row)
    others = tokens.keys() - {"train"}
    assert others == before.keys() - {"train"}
    for name in others:
        assert np.array_equal(tokens[name].ids, before[name].ids)
        assert np.array_equal(tokens[name].starts, before[name].starts)


def test_the_tokens_of_joined_rows_are_pinned(on_demo: Study) -> None:
    tokens, splits = tokens_of(on_demo)["train"], on_demo.splits(0)
    whole = hashlib.sha256(tokens.ids.tobytes() + np.flatnonzero(tokens.lengths).tobytes())
    assert len(np.flatnonzero(tokens.lengths)) == 4 * len(splits.train.index)
    assert whole.hexdigest()[:16] == DEMO


def test_a_file_with_too_few_paraphrases_is_refused(
    resolved: Resolved, prepare: Prepare, make_spec: MakeSpec, write: Callable[..., Path]
) -> None:
    texts = drawn_texts(resolved(**NOISY))
    message = rf"every text must have 3 paraphrases, {len(texts)} of {len(texts)} have fewer"
    with pytest.raises(SclsearchError, match=message):
        prepare(make_spec(**NOISY, paraphrases=write(texts, 2)), seeds=10)


def test_validation_rows_from_the_training_split_need_no_paraphrases(
    resolved: Resolved, write: Callable[..., Path], tmp_path: Path
) -> None:
    lines = [
        f"sentence {n} of the {split} split,{n % 2},{split}"
        for n, split in enumerate(["train"] * 100 + ["test"] * 20)
    ]
    path = tmp_path / "two_splits.csv"
    path.write_text("\n".join(["text,label,split", *lines]) + "\n")
    task = CustomTask(path, text=("text",), label="label", split_column="split")
    fields = {**NOISY, "task": task, "settings": {"max_length": LENGTH}}
    file = write(drawn_texts(resolved(**fields)), 3)
    study = resolved(**fields, paraphrases=file)
    splits = study.splits(0)
    assert splits.validation.split == "train"
    read = set(np.flatnonzero(tokens_of(study)["train"].lengths))
    total = len(study.data.splits["train"])
    joined = {row + total * view for row in splits.train.index for view in range(4)}
    assert read == joined | set(splits.validation.index)


def test_a_method_that_contrasts_paraphrases_also_reads_those_of_joined_rows(
    resolved: Resolved,
) -> None:
    study = resolved(**CSSL, **NOISY, settings={"max_length": LENGTH})
    tokens = tokens_of(study)
    total, row = len(study.data.splits["train"]), int(study.splits(0).train.index[0])
    (text,) = study.data.splits["train"].texts[row]
    second = eda(eda(text, 3)[2])[1]
    found = tokens[PARAPHRASES]
    place = row + 3 * total + len(found.y) // 2
    expected = load_tokenizer(study.model)(second, truncation=True, max_length=LENGTH)
    assert row_of(found, place) == expected["input_ids"]


def test_a_file_without_paraphrases_of_paraphrases_is_refused_before_storing(
    resolved: Resolved, prepare: Prepare, make_spec: MakeSpec, write: Callable[..., Path]
) -> None:
    texts = drawn_texts(resolved(**NOISY))
    file = write(texts, 3)
    spec = make_spec(**CSSL, **NOISY, paraphrases=file)
    with pytest.raises(SclsearchError) as caught:
        prepare(spec, seeds=10)
    assert str(caught.value).startswith(
        f"{file}: every text and every paraphrase that joins the training rows must have 3 "
        f"paraphrases, {3 * len(texts)} of {4 * len(texts)} have fewer, the first "
    )
    assert not list(file.parent.glob("storage/*/*"))
    every = texts | {(f"{text} {number}",) for (text,) in texts for number in range(3)}
    assert prepare(replace(spec, paraphrases=write(every, 3)), seeds=10).study.reads_paraphrases


def test_a_paraphrase_file_that_nothing_reads_is_refused(
    resolved: Resolved, tmp_path: Path
) -> None:
    with pytest.raises(SclsearchError, match=r"neither scl nor gunel-fewshot reads paraphrases"):
        resolved(**FEW_SHOT, paraphrases=tmp_path / "paraphrases.jsonl")
