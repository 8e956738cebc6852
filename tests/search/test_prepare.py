"""Tests of prepared studies: record, concurrency, advice, checks and baselines."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class
from sclsearch.search.plan import plan_prepared
from sclsearch.search.prepare import prepare_study, reading_notes
from sclsearch.search.run import complete_baselines, delete_other_weights
from sclsearch.store.remote import UnavailableError
from sclsearch.store.studies import StudyStore
from sclsearch.study.spec import RunOptions
from sclsearch.tasks.custom import CustomTask
from tests.studies import MakeSpec, Prepare, Resolved, Workers


def test_the_records_of_a_faster_driver_are_kept_unless_it_runs_another_study(
    prepare: Prepare, make_spec: MakeSpec, workers: Workers
) -> None:
    late, other = prepare(study="mine"), prepare(make_spec(search_seed=1), study="mine")
    faster = prepare(study="mine", concurrency=8).begin()
    late = late.begin()
    assert late.record.created == faster.record.created
    values = {"tau": 0.5, "lam": 0.5, "learning_rate": 0.002}
    faster.store.add(faster.study.configuration(0, values, "sampled"))
    assert workers.running(late)[0].configuration.values == values
    with pytest.raises(SclsearchError, match=r"^--study mine: search_seed must stay 0, got 1"):
        other.begin()


def test_a_dry_run_trains_a_custom_method_for_one_update_and_writes_nothing(
    make_spec: MakeSpec, resolved: Resolved, own_methods: dict[str, str], tmp_path: Path
) -> None:
    mine = tmp_path / "mine.py"
    method = f"{mine}:Smoothed"
    text = own_methods["mine.py"]
    mine.write_text(text.replace('{"ce": cross', '{"ce": 0 * cross'), encoding="utf-8")
    spec = make_spec(method=method, space=None, searched=False)
    options = RunOptions(storage=tmp_path / "storage", gpus_per_trial=0, tracking="none")
    assert plan_prepared(prepare_study(spec, options, dry=True))["missing"]
    mine.write_text(text.replace("batch.y", "batch.y[1:]"), encoding="utf-8")
    with pytest.raises(
        SclsearchError, match=rf"^--method {method}: .*ValueError: .* \(mine\.py:\d+\)\. "
    ):
        plan_prepared(prepare_study(spec, options, dry=True))
    assert not (tmp_path / "storage").exists()
    with pytest.raises(SclsearchError, match="has no search space"):
        resolved(method=method, space=None)


def test_every_listed_value_must_fit_the_encoder(
    resolved: Resolved, tiny_bert: Path, tmp_path: Path
) -> None:
    lines = "method: lacon\nsource: a test\npublished: [{heads: 4}]\n"
    space = tmp_path / "mine.yaml"
    space.write_text(f"{lines}space: {{heads: {{type: choice, values: [1, 4, 5]}}}}\n")
    study = resolved(method="lacon", space=space)
    with pytest.raises(SclsearchError, match=r"^heads: must divide the width .* 16, got 5"):
        study.check(load_encoder(tiny_bert, "tiny"))
    cases: Any = (
        ("lacon", {"head_lr_mult": 10.0}, "head_lr_mult: lacon trains no module"),
        ("supcl-seq", {"patience": 2}, "patience: protocol supcl-seq reports the last evaluation"),
    )
    for method, settings, message in cases:
        study = resolved(method=method, space=None, protocol="supcl-seq", settings=settings)
        with pytest.raises(SclsearchError, match=f"^{message}"):
            study.check(load_encoder(tiny_bert, "tiny"))


def test_a_regression_has_a_correlation_needs_a_method_for_it_and_notes_unusual_scores(
    resolved: Resolved, glue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCLSEARCH_DATA", str(glue))
    able = ", ".join(name for name in METHODS if method_class(name).regression)
    with pytest.raises(SclsearchError, match=rf"^--method scl: .* regr.* Use one of {able}\.$"):
        resolved(task="stsb", space=None)
    with pytest.raises(SclsearchError, match=r"^class_weights: 'balanced' needs classes"):
        resolved(method="ce", task="stsb", space=None, settings={"class_weights": "balanced"})
    study = resolved(method="ce", task="stsb", space=None)
    assert study.metric == "pearson"
    train = study.data.splits["train"]
    for factor, shift, noted in ((1, 0, False), (20, 0, True), (1, 100, True), (0.01, 0, True)):
        scaled = replace(train, y=np.asarray(train.y * factor + shift, np.float64))
        data = replace(study.data, splits={**study.data.splits, "train": scaled})
        notes = reading_notes(replace(study, data=data), study.splits(0))
        assert any(note.startswith("the training scores have mean ") for note in notes) == noted


def test_an_outage_of_the_store_after_a_search_fails_neither_clean_up_nor_baselines(
    prepare: Prepare, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise UnavailableError("s3://a/b: its store does not respond")

    scheduler = replace(prepare(configs=1, seeds=1), weights=True)
    workers.run_out(scheduler)
    printed = io.StringIO()
    for name in ("sizes", "baselines"):
        monkeypatch.setattr(StudyStore, name, away)
    delete_other_weights(scheduler)
    complete_baselines(scheduler, Console(file=printed))
    assert printed.getvalue() == "Baselines not evaluated: s3://a/b: its store does not respond\n"


@pytest.mark.parametrize("classes", [3, 12])
def test_the_practical_space_of_scl_balances_batches_if_many_rows_would_be_alone_in_their_class(
    classes: int, resolved: Resolved, tmp_path: Path
) -> None:
    file = tmp_path / "many.csv"
    rows = [f"text number {row},class {row % classes}" for row in range(12 * classes)]
    file.write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    task = CustomTask(file, "text", "label")
    study = resolved(method="scl", task=task, space="practical")
    assert study.fields({})["rows_per_class"] == (2 if classes == 12 else 1)
    given = {"rows_per_class": 1, "batch_size": 16}
    study = resolved(method="scl", task=task, space="practical", settings=given)
    notes = reading_notes(study, study.splits(0))
    share = (1 - 1 / classes) ** 15
    expected = f"about {share:.0%} of the texts of a batch are alone in their class"
    assert any(expected in note for note in notes) == (classes == 12)


def test_every_seed_trains_on_the_extra_rows_which_nothing_validates(
    resolved: Resolved, tmp_path: Path
) -> None:
    file, extra = tmp_path / "rows.csv", tmp_path / "names.csv"
    rows = [f"text number {row},{'ab'[row % 2]}" for row in range(40)]
    file.write_text("\n".join(["text,label", *rows, "no label,"]), encoding="utf-8")
    keys = set()
    for name in ("first", "second"):
        extra.write_text(f"text,label\nabout the {name},b\n", encoding="utf-8")
        task = CustomTask(file, "text", "label", extra=extra)
        study = resolved(method="scl", task=task, space="practical")
        assert study.data.splits["train"].labeled == 40
        for number in range(5):
            splits = study.splits(number)
            assert splits.train.texts(study.data)[-1] == (f"about the {name}",)
            assert splits.train.labels(study.data)[-1] == 1
            assert len(splits.train.index) == 33
            assert max(splits.validation.index.max(), splits.test.index.max()) < 40
        keys.add(study.seed_run_spec({}, 0).key)
        assert not any("--extra" in note for note in reading_notes(study, study.splits(0)))
    assert len(keys) == 2
    few = tmp_path / "few.csv"
    few.write_text("\n".join(["text,label", *rows[:16]]), encoding="utf-8")
    study = resolved(method="scl", task=CustomTask(few, "text", "label"), space="practical")
    notes = reading_notes(study, study.splits(0))
    assert any(note.startswith("a class has 6 training texts on average") for note in notes)
    task = CustomTask(file, "text", "label", extra=extra)
    for row, fault in (
        ("about neither,c", r"names\.csv: row 1: the label must be one of a, b"),
        ("text number 4,a", r"--extra .*: 1 of its texts are also in the task's rows, the first"),
    ):
        extra.write_text(f"text,label\n{row}\n", encoding="utf-8")
        with pytest.raises(SclsearchError, match=fault):
            resolved(method="scl", task=task, space="practical")
