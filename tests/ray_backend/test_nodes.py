"""Tests of node checks: what a node lacks for a study, and which model folder it uses."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sclsearch.ray_backend import nodes as node
from sclsearch.ray_backend.nodes import (
    UnfitNodeError,
    model_here,
    node_errors,
    node_requirements,
    versions_here,
)
from sclsearch.store.local import LocalPath
from sclsearch.store.objects import create, read
from sclsearch.store.storage import StoragePath, storage_path
from sclsearch.study.prepared import PreparedStudy
from tests.workspace import Prepare


@pytest.fixture
def prepared(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> PreparedStudy:
    """Return a stored study."""
    monkeypatch.setattr(node, "UNFIT_SECONDS", 0.0)
    prepared = prepare()
    prepared.store.create(prepared.record)
    return prepared


@pytest.fixture
def mark(prepared: PreparedStudy) -> StoragePath:
    path = prepared.store.folder / "mark.json"
    create(path, {})
    return path


def test_a_suitable_node_has_no_errors_and_writes_its_answer(
    prepared: PreparedStudy, mark: StoragePath
) -> None:
    answer = prepared.store.folder / "answer.json"
    assert node_errors(node_requirements(prepared, mark), answer, "node a") == []
    assert read(answer) == {}


@pytest.mark.slow
def test_a_node_writes_its_answer_to_an_object_store(prepared: PreparedStudy, bucket: str) -> None:
    storage = storage_path(f"{bucket}/storage")
    needs = replace(node_requirements(prepared, storage / "mark.json"), storage=str(storage))
    (error,) = node_errors(needs, storage / "answer.json", "node a")
    assert error.startswith(f"--storage {bucket}/storage: n")
    create(storage / "mark.json", {})
    assert node_errors(needs, storage / "answer.json", "node a") == []
    assert read(storage / "answer.json") == {}


def test_a_node_that_does_not_see_the_storage_creates_none(
    prepared: PreparedStudy, mark: StoragePath, tmp_path: Path
) -> None:
    needs = node_requirements(prepared, mark)
    elsewhere = LocalPath(tmp_path / "elsewhere")
    (error,) = node_errors(replace(needs, mark=elsewhere / "m"), elsewhere / "a", "node a")
    assert "node a does not see what the driver wrote there. Give a folder that" in error
    assert not elsewhere.exists()


def test_a_node_that_cannot_write_reports_the_reason(
    prepared: PreparedStudy, mark: StoragePath
) -> None:
    needs = node_requirements(prepared, mark)
    (error,) = node_errors(needs, mark / "answer.json", "node a")
    assert error.startswith(f"--storage {needs.storage}: node ")
    assert "node a cannot read or write it: " in error


@pytest.mark.parametrize("exists", [True, False], ids=["other files", "missing"])
def test_a_model_folder_must_be_the_same_on_every_node(
    prepared: PreparedStudy, mark: StoragePath, tmp_path: Path, exists: bool
) -> None:
    other = shutil.copytree(prepared.study.model, tmp_path / "other")
    (other / "config.json").write_text("{}")
    needs = node_requirements(prepared, mark)
    needs = replace(needs, model=other if exists else tmp_path / "none")
    (error,) = node_errors(needs, prepared.store.folder / "answer.json", "node a")
    assert error.startswith(f"--model {needs.model}: node a ")


def test_a_named_model_need_not_be_on_the_node_yet(
    prepared: PreparedStudy, mark: StoragePath, tmp_path: Path
) -> None:
    named = replace(prepared.study, model_name="minilm", model=tmp_path / "none")
    needs = node_requirements(replace(prepared, study=named), mark)
    assert node_errors(needs, prepared.store.folder / "answer.json", "node a") == []


def test_versions_that_differ_from_the_drivers_are_named(
    prepared: PreparedStudy, mark: StoragePath
) -> None:
    needs = node_requirements(prepared, mark)
    needs = replace(needs, versions={**needs.versions, "python": "3.99", "ray": "1.0"})
    (error,) = node_errors(needs, prepared.store.folder / "answer.json", "node a")
    assert error.startswith("python 3.99, ray 1.0: node ")


def test_a_seed_run_uses_the_drivers_model_folder_if_it_exists(prepared: PreparedStudy) -> None:
    assert model_here(prepared.study, prepared.store, versions_here()) == prepared.study.model


def test_a_seed_run_uses_the_same_model_from_another_folder_of_the_node(
    prepared: PreparedStudy, tmp_path: Path
) -> None:
    here = shutil.copytree(prepared.study.model, tmp_path / "here")
    study = replace(prepared.study, model=tmp_path / "there", model_name=str(here))
    assert model_here(study, prepared.store, versions_here()) == here


@pytest.mark.parametrize("folder", ["here", "there"], ids=["node folder", "driver folder"])
def test_a_model_with_different_files_is_refused(
    prepared: PreparedStudy, tmp_path: Path, folder: str
) -> None:
    other = shutil.copytree(prepared.study.model, tmp_path / folder)
    with (other / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")  # the size stays equal, as for a fine-tuned checkpoint
    study = replace(prepared.study, model=tmp_path / "there", model_name=str(tmp_path / "here"))
    with pytest.raises(UnfitNodeError, match=r"the files in .* differ from those of the study"):
        model_here(study, prepared.store, versions_here())


def test_a_node_with_other_versions_trains_no_seed_run(prepared: PreparedStudy) -> None:
    driver = {**versions_here(), "torch": "1.0"}
    with pytest.raises(UnfitNodeError, match=r"^torch 1.0: .* has other versions"):
        model_here(prepared.study, prepared.store, driver)


def test_a_node_that_does_not_see_the_study_trains_no_seed_run(prepared: PreparedStudy) -> None:
    shutil.rmtree(str(prepared.store.folder))
    with pytest.raises(UnfitNodeError, match=r"does not see the study"):
        model_here(prepared.study, prepared.store, versions_here())
    assert not prepared.store.folder.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_node_without_the_required_gpu_trains_no_seed_run(prepared: PreparedStudy) -> None:
    study = replace(prepared.study, numerics="cuda-bf16")
    with pytest.raises(UnfitNodeError, match=r"^cuda-bf16: torch finds no GPU"):
        model_here(study, prepared.store, versions_here())
