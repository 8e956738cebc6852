"""Tests of nodes: what one lacks for a study, its model folder and its recorded commit."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sclsearch.ray_backend import worker
from sclsearch.ray_backend.worker import (
    UnfitNodeError,
    model_here,
    versions_here,
)
from sclsearch.search.scheduler import Scheduler
from tests.workspace import Prepare


@pytest.fixture
def prepared(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    """Return a stored study."""
    monkeypatch.setattr(worker, "UNFIT_SECONDS", 0.0)
    prepared = prepare()
    prepared.store.create(prepared.record)
    return prepared


def test_a_seed_run_uses_the_drivers_model_folder_if_it_exists(prepared: Scheduler) -> None:
    assert model_here(prepared.study, prepared.store, versions_here()) == prepared.study.model


def test_a_seed_run_uses_the_same_model_from_another_folder_of_the_node(
    prepared: Scheduler, tmp_path: Path
) -> None:
    here = shutil.copytree(prepared.study.model, tmp_path / "here")
    study = replace(prepared.study, model=tmp_path / "there", model_name=str(here))
    assert model_here(study, prepared.store, versions_here()) == here


@pytest.mark.parametrize("folder", ["here", "there"], ids=["node folder", "driver folder"])
def test_a_model_with_different_files_is_refused(
    prepared: Scheduler, tmp_path: Path, folder: str
) -> None:
    other = shutil.copytree(prepared.study.model, tmp_path / folder)
    with (other / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")  # the size stays equal, as for a fine-tuned checkpoint
    study = replace(prepared.study, model=tmp_path / "there", model_name=str(tmp_path / "here"))
    with pytest.raises(UnfitNodeError, match=r"the files in .* differ from those of the study"):
        model_here(study, prepared.store, versions_here())


def test_a_node_with_other_versions_trains_no_seed_run(prepared: Scheduler) -> None:
    driver = {**versions_here(), "torch": "1.0"}
    with pytest.raises(UnfitNodeError, match=r"^torch 1.0: .* has other versions"):
        model_here(prepared.study, prepared.store, driver)


def test_a_node_that_does_not_see_the_study_trains_no_seed_run(prepared: Scheduler) -> None:
    shutil.rmtree(str(prepared.store.folder))
    with pytest.raises(UnfitNodeError, match=r"does not see the study"):
        model_here(prepared.study, prepared.store, versions_here())
    assert not prepared.store.folder.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_node_without_the_required_gpu_trains_no_seed_run(prepared: Scheduler) -> None:
    study = replace(prepared.study, numerics="cuda-bf16")
    with pytest.raises(UnfitNodeError, match=r"^cuda-bf16: torch finds no GPU"):
        model_here(study, prepared.store, versions_here())


def test_an_image_records_the_commit_of_its_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "__file__", str(tmp_path / "sclsearch/ray_backend/worker.py"))
    monkeypatch.setenv("SCLSEARCH_COMMIT", "abc")
    assert worker.commit.__wrapped__() == "abc"
    monkeypatch.setenv("SCLSEARCH_COMMIT", "")  # the default of the build argument
    assert worker.commit.__wrapped__() is None
