"""Tests of unlabeled texts: option, records, paraphrases and repetitions of a study."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation.texts import select_texts
from sclsearch.search.plan import plan
from sclsearch.study.restore import restore_spec
from sclsearch.study.spec import RunOptions
from sclsearch.study.state import SearchState
from sclsearch.study.tokenized import tokenized
from sclsearch.tasks.custom import CustomTask, as_options
from sclsearch.tracking.records import new_records
from tests.workspace import MakeSpec, Prepare, Resolved

FEW: Mapping[str, Any] = {
    "space": None,
    "protocol": "cmlm-fewshot",
    "train_size": 20,
    "searched": False,
}
NOTE = "stages without labels: 20 texts beside the 20 training rows"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_size": None, "protocol": None}, "--unlabeled 40: needs a training size"),
        ({"method": "ce"}, "--unlabeled 40: ce has no stage without labels"),
        ({"protocol": "gunel-noisy"}, "cannot be combined with --protocol gunel-noisy"),
        ({"train_size": 41}, "--unlabeled: must be between 41, the training rows"),
        ({"unlabeled": 61}, "and 60, all rows of toy's training split outside validation, got 61."),
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
    assert "unlabelled" not in without.identity
    assert {**without.identity, "unlabelled": 40} == with_.identity
    assert without.default_name() != with_.default_name()
    before, after = without.seed_run_spec({}, 0).identity, with_.seed_run_spec({}, 0).identity
    assert after["rows"].pop("unlabelled")  # type: ignore[attr-defined]
    assert before == after


def test_as_many_texts_as_training_rows_give_the_same_seed_runs(resolved: Resolved) -> None:
    without, with_ = (resolved(**FEW, method="tapt", unlabeled=n) for n in (None, 20))
    assert without.seed_run_spec({}, 0).key == with_.seed_run_spec({}, 0).key


def test_plan_and_mlflow_show_the_number_of_unlabeled_texts(
    make_spec: MakeSpec, prepare: Prepare, tmp_path: Path
) -> None:
    spec = make_spec(**FEW, method="tapt", unlabeled=40)
    planned = plan(spec, RunOptions(storage=tmp_path, gpus_per_trial=0))
    assert planned.rows == (20, 20, 20, 40)
    assert NOTE in planned.notes
    prepared = prepare(spec)
    assert prepared.replicates[0].rows == prepared.splits[0].digests
    state = SearchState(prepared.record, prepared.replicates, prepared.study.rule)
    (shown,) = new_records(state)
    assert shown.params["unlabelled"] == 40


def test_fresh_replicates_draw_new_texts_and_crossings_vary_them_by_subset(
    make_spec: MakeSpec, prepare: Prepare
) -> None:
    before = prepare(make_spec(**FEW, method="tapt", unlabeled=40))
    origin = json.loads(json.dumps(before.record.origin))
    fresh = prepare(restore_spec(origin, {}, fresh=2), seeds=None)
    crossed = prepare(restore_spec(origin, {}, crossed={"subset": 2, "order": 2}), seeds=None)
    for name in ("train", "unlabelled"):
        chose = {before.study.splits(number).digests[name] for number in range(15)}
        new = {splits.digests[name] for splits in fresh.splits.values()}
        assert (len(new), len(chose), new & chose) == (2, 5, set())
    assert [splits.digests["unlabelled"] for splits in crossed.splits.values()] == [
        before.splits[number].digests["unlabelled"] for number in (0, 0, 1, 1)
    ]


def test_unlabeled_texts_need_paraphrases_too(
    make_spec: MakeSpec, prepare: Prepare, tmp_path: Path
) -> None:
    spec = make_spec(**FEW, method="cssl", unlabeled=40)
    by_eda = prepare(spec)
    texts = by_eda.study.data.splits["train"].texts
    (tokens,) = tokenized(by_eda.study, [by_eda.splits[0]]).values()
    assert tokens.paraphrases is not None
    unlabeled = by_eda.splits[0].unlabeled
    assert unlabeled is not None
    assert (tokens.paraphrases.lengths[unlabeled.index] > 0).all()
    path = tmp_path / "paraphrases.jsonl"
    rows = {texts[row] for row in by_eda.splits[0].train.index}
    lines = [{"paraphrases": 1, "source": "by hand"}]
    lines += [{"text": row, "paraphrases": [["so"], ["it"]]} for row in rows]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    by_file = {"method": "cssl", "paraphrases": path}
    assert prepare(make_spec(**FEW, **by_file), seeds=1).splits
    with pytest.raises(SclsearchError, match=r"text must have 2 paraphrases, \d+ of \d+ have"):
        prepare(make_spec(**FEW, **by_file, unlabeled=40), seeds=1)


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
    toy: CustomTask,
    tmp_path: Path,
    changes: dict[str, Any],
    options: str,
) -> None:
    path = tmp_path / "paraphrases.jsonl"
    path.write_text('{"paraphrases": 1, "source": "by hand"}\n', encoding="utf-8")
    mixed = replace(toy, path=tmp_path / "mixed.csv")
    mixed.path.write_text(f"{toy.path.read_text()}a text without a label,,train\n")
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
