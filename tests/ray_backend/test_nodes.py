"""Tests of nodes: what one lacks for a study, its model folder and its recorded commit."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sclsearch.ray_backend import worker
from sclsearch.ray_backend.worker import UnfitNodeError, model_here, versions_here
from sclsearch.search.scheduler import Scheduler
from tests.workspace import Prepare


@pytest.fixture
def prepared(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    """Return a stored study."""
    monkeypatch.setattr(worker, "UNFIT_SECONDS", 0.0)
    return prepare().begin()


def found_model(prepared: Scheduler, **changes: Any) -> Path:
    """Return the model's folder on this node for a study with changes."""
    return model_here(replace(prepared.study, **changes), prepared.store, versions_here())


def test_a_seed_run_uses_the_drivers_model_folder_or_the_same_model_of_the_node(
    prepared: Scheduler, tmp_path: Path
) -> None:
    assert found_model(prepared) == prepared.study.model
    here = shutil.copytree(prepared.study.model, tmp_path / "here")
    assert found_model(prepared, model=tmp_path / "there", model_name=str(here)) == here


@pytest.mark.parametrize("folder", ["here", "there"], ids=["node folder", "driver folder"])
def test_a_model_with_different_files_is_refused(
    prepared: Scheduler, tmp_path: Path, folder: str
) -> None:
    other = shutil.copytree(prepared.study.model, tmp_path / folder)
    with (other / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")  # the size stays equal, as for a fine-tuned checkpoint
    with pytest.raises(UnfitNodeError, match=r"the files in .* differ from those of the study"):
        found_model(prepared, model=tmp_path / "there", model_name=str(tmp_path / "here"))


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
