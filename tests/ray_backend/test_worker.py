"""Tests of a worker: stored seed runs, errors of the machine, and nodes that do not fit."""

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sclsearch.canonical import canonical
from sclsearch.ray_backend import worker
from sclsearch.ray_backend.tuner import SeedSearcher
from sclsearch.ray_backend.worker import UnfitNodeError, model_here, seed_run_trial, versions_here
from sclsearch.search.run import rerun, worker_context
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import StudyStore
from tests.studies import MakeSpec, Prepare

Raises = Callable[[Exception], None]
Trial = Callable[[Scheduler], tuple[Any, SeedRun | None]]


@pytest.fixture
def short(make_spec: MakeSpec, prepare: Prepare) -> Scheduler:
    """Return a study of one short seed run."""
    settings = {"epochs": 1, "max_length": 16}
    prepared = prepare(make_spec(settings=settings), configs=1, seeds=1)
    return replace(prepared, weights=True).begin()


@pytest.fixture
def loss_raises(monkeypatch: pytest.MonkeyPatch) -> Raises:
    """Return a function that makes the contrastive loss raise an error."""

    def loss_raises(error: Exception) -> None:
        def raising(*_: Any, **__: Any) -> Any:
            raise error

        monkeypatch.setattr("sclsearch.methods.scl.sup_con", raising)

    return loss_raises


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> Trial:
    """Return a function that runs the next trial of the only seed run of a study.

    It returns the report to Ray Tune and the stored seed run.
    """

    def trial(prepared: Scheduler) -> tuple[Any, SeedRun | None]:
        reports: list[Any] = []
        monkeypatch.setattr("ray.tune.report", reports.append)
        searcher = SeedSearcher(replace(prepared))
        seed_run_trial(searcher.suggest("trial"), worker_context(prepared))
        report = reports[-1]  # a slow machine may report progress before
        return report, prepared.runs.get(searcher.tasks["trial"].key)

    return trial


def test_a_repetition_stores_weights_and_says_if_it_predicts_otherwise(
    short: Scheduler, trial: Trial
) -> None:
    report, run = trial(replace(short, weights=False))
    assert run is not None
    assert report["run"] == replace(run, predictions={}, rows="")
    assert not short.store.weights(run.key).exists()
    report, again = trial(short)
    expected = {"key": run.key, "run": replace(run, predictions={}), "warning": "", "done": True}
    assert report == expected
    assert again == run
    assert short.store.weights(run.key).exists()
    short.store.weights(run.key).remove()
    (rows,) = short.runs.rows([run])
    assert rows is not None
    assert rows.probabilities["test"].argmax(1).tolist() == run.predictions["test"]
    short.runs.set_aside(run.key)
    other = [1 - label for label in run.predictions["validation"]]
    short.runs.put(replace(run, predictions={**run.predictions, "validation": other}), rows)
    report, _ = trial(short)
    score = f"{run.validated(short.study.metric):.4f}"
    assert f"is {score} instead of {score}" in report["warning"]


def test_a_worker_reports_what_another_machine_has_stored_first(
    short: Scheduler, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(*given: Any, **options: Any) -> Any:
        run, result = attempt(*given, **options)
        short.runs.put(replace(run, seconds=99.0))
        return run, result

    attempt = worker.attempt
    monkeypatch.setattr(worker, "attempt", overtaken)
    report, _ = trial(replace(short, weights=False))
    assert report["run"].seconds == 99.0


def test_an_error_of_the_machine_is_reported_or_raised_and_stores_nothing(
    short: Scheduler, loss_raises: Raises, trial: Trial
) -> None:
    loss_raises(torch.OutOfMemoryError("a test has no more"))
    report, run = trial(short)
    assert report["failure"][0] == "out-of-memory"
    assert "a test has no more" in report["failure"][1]
    assert run is None
    loss_raises(OSError(116, "Stale file handle"))
    with pytest.raises(OSError, match=r"Stale file handle"):
        trial(short)
    assert short.runs.keys() == []


def test_scores_are_stored_even_if_the_weights_cannot_be(
    short: Scheduler, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StudyStore, "weights", full)
    report, run = trial(short)
    assert "failure" not in report
    assert run is not None
    assert run.failure is None
    assert "its weights cannot be kept: [Errno 28] No space left" in report["warning"]


@pytest.mark.parametrize("method", ["scl", "supcl-seq", "lacon", "tapt"])
def test_a_later_test_equals_a_test_at_the_end_of_training(
    make_spec: MakeSpec, prepare: Prepare, trial: Trial, tmp_path: Path, method: str
) -> None:
    settings = {"epochs": 1, "max_length": 16} | ({"heads": 4} if method == "lacon" else {})
    spec = make_spec(method=method, space=None, settings=settings, searched=False)
    at_once, later = (
        prepare(spec, configs=1, seeds=1, storage=tmp_path / name).begin()
        for name in ("once", "later")
    )
    later = replace(later, tests_all=False)
    _, expected = trial(at_once)
    _, trained = trial(later)
    assert expected is not None
    assert trained is not None
    assert [*trained.predictions] == ["validation"]
    # A new training must not mix with results that another machine stored.
    elsewhere = tuple({**one, "loss": {"ce": 9.0}} for one in trained.evaluations)
    (trained_rows,) = later.runs.rows([trained])
    assert trained_rows is not None
    later.runs.put_test(replace(trained, evaluations=elsewhere), trained_rows)
    _, tested = trial(later)
    assert tested is not None
    others = {"started", "seconds", "origin"}
    for name, content in asdict(expected).items():
        assert name in others or canonical(asdict(tested)[name]) == canonical(content)
    (rows,), (later_rows,) = at_once.runs.rows([expected]), later.runs.rows([tested])
    assert rows is not None
    assert later_rows is not None
    assert rows.encoded() == later_rows.encoded()
    assert rerun(later.storage, tested.key).same
    assert replace(later).next() is None


def test_a_method_that_raises_in_a_later_test_keeps_its_validation_scores(
    short: Scheduler, trial: Trial, loss_raises: Raises
) -> None:
    later = replace(short, tests_all=False)
    _, trained = trial(later)
    loss_raises(ValueError("an own error"))
    report, untested = trial(later)
    assert untested == trained
    cause, message = report["failure"]
    assert cause == "untestable"
    assert message.startswith("ValueError: an own error (test_worker.py:")


@pytest.fixture
def prepared(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    """Return a stored study."""
    monkeypatch.setattr(worker, "UNFIT_SECONDS", 0.0)
    return prepare().begin()


def found_model(prepared: Scheduler, **changes: Any) -> Path:
    """Return the model's folder on this node for a study with changes."""
    return model_here(replace(prepared.study, **changes), prepared.store, versions_here())


def test_a_node_may_have_the_same_model_elsewhere_but_no_other_one(
    prepared: Scheduler, tmp_path: Path
) -> None:
    assert found_model(prepared) == prepared.study.model
    here = shutil.copytree(prepared.study.model, tmp_path / "here")
    assert found_model(prepared, model=tmp_path / "there", model_name=str(here)) == here
    other = shutil.copytree(here, tmp_path / "other")
    with (other / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")  # the size stays equal, as for a fine-tuned checkpoint
    for changes in ({"model": other}, {"model": tmp_path / "there", "model_name": str(other)}):
        with pytest.raises(UnfitNodeError, match=r"the files in .* differ from those of the study"):
            found_model(prepared, **changes)


def test_a_node_with_other_versions_or_without_the_study_trains_no_seed_run(
    prepared: Scheduler,
) -> None:
    driver = {**versions_here(), "torch": "1.0"}
    with pytest.raises(UnfitNodeError, match=r"^torch 1.0: .* has other versions"):
        model_here(prepared.study, prepared.store, driver)
    shutil.rmtree(str(prepared.store.folder))
    with pytest.raises(UnfitNodeError, match=r"does not see the study"):
        found_model(prepared)
    assert not prepared.store.folder.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_node_without_the_required_gpu_trains_no_seed_run(prepared: Scheduler) -> None:
    with pytest.raises(UnfitNodeError, match=r"^cuda-bf16: torch finds no GPU"):
        found_model(prepared, numerics="cuda-bf16")
