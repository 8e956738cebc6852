"""Tests of a study's identity: default name, record and seed run keys."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.encoders.load import load_tokenizer
from sclsearch.errors import SclsearchError
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions
from sclsearch.tasks.custom import CustomTask
from tests.workspace import MakeSpec, Prepare, Resolved


def test_the_default_name_depends_only_on_the_identity(
    make_spec: MakeSpec, resolved: Resolved
) -> None:
    name = resolved().default_name()
    assert name.startswith("scl-toy-")
    options = RunOptions(gpus_per_trial=0, seeds=2, rule="best", concurrency=7, configs=3)
    assert resolve(make_spec(), options).default_name() == name
    whole, real = (resolved(settings={"tau": tau}) for tau in (1, 1.0))
    assert whole.default_name() == real.default_name() != name


def test_the_same_bytes_give_the_same_study_under_every_path(
    make_spec: MakeSpec,
    prepare: Prepare,
    tiny_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = shutil.copytree(tiny_encoder, tmp_path / "bert-large")
    options = {"method": "lacon", "space": None}
    before = prepare(make_spec(model=tiny_encoder, **options)).begin()
    elsewhere = prepare(make_spec(model=str(copy), **options))
    assert elsewhere.name == before.name
    assert elsewhere.study.space == before.study.space
    assert elsewhere.next() == before.next()
    monkeypatch.chdir(tiny_encoder.parent)
    after = prepare(make_spec(model=f"./{tiny_encoder.name}", **options))
    assert after.record == before.record


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("added_tokens.json", {"good film": 114}),
        ("special_tokens_map.json", {"additional_special_tokens": ["good film"]}),
    ],
)
def test_files_that_add_tokens_change_the_ids_of_texts_and_the_keys_of_seed_runs(
    resolved: Resolved, tiny_bert: Path, tmp_path: Path, file: str, content: dict[str, Any]
) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "more")
    (folder / file).write_text(json.dumps(content))
    before, after = (load_tokenizer(one)("a good film")["input_ids"] for one in (tiny_bert, folder))
    assert before != after
    one, other = (resolved(model=str(model)) for model in (tiny_bert, folder))
    assert one.seed_run_spec({}, 0).key != other.seed_run_spec({}, 0).key


@pytest.mark.parametrize("stem", ["отзывы", "_", "long" * 40])
def test_every_file_name_gives_a_valid_study_name(
    prepare: Prepare, make_spec: MakeSpec, toy: CustomTask, tmp_path: Path, stem: str
) -> None:
    file = tmp_path / f"{stem}.csv"
    file.write_bytes(toy.path.read_bytes())
    prepared = prepare(make_spec(task=replace(toy, path=file)))
    assert prepared.name == prepared.study.default_name()


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
    before = prepare(study="mine").begin()
    assert resolved(**changes).default_name() != before.study.default_name()
    with pytest.raises(SclsearchError, match=r"^--study mine: \w+ must stay .* Give another --stu"):
        prepare(make_spec(**changes), study="mine", seeds=None)


def test_settings_and_notes_of_space_and_rows_are_recorded(
    make_spec: MakeSpec, prepare: Prepare
) -> None:
    spec = make_spec(settings={"lam": 0.5, "dropout": 0.2})
    origin = prepare(spec).record.origin
    assert origin["settings"] == {"lam": 0.5, "dropout": 0.2}
    assert origin["space"] == f"{spec.space}, as --space says"
    assert origin["notes"] == [
        "7 of 20 validation texts are also training texts",
        "4 of 20 test texts are also training texts",
    ]
