"""What a machine says that cannot do the seed runs of a study, and where it takes the model."""

import os
import shutil
from collections.abc import Callable
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

Preparing = Callable[..., PreparedStudy]


@pytest.fixture
def prepared(preparing: Preparing, monkeypatch: pytest.MonkeyPatch) -> PreparedStudy:
    """Returns a study that is in its storage."""
    monkeypatch.setattr(node, "UNFIT_SECONDS", 0.0)
    prepared = preparing()
    prepared.store.create(prepared.record)
    return prepared


@pytest.fixture
def mark(prepared: PreparedStudy) -> StoragePath:
    path = prepared.store.folder / "mark.json"
    create(path, {})
    return path


def test_a_machine_that_has_all_says_nothing_and_answers(
    prepared: PreparedStudy, mark: StoragePath
) -> None:
    answer = prepared.store.folder / "answer.json"
    assert node_errors(node_requirements(prepared, mark), answer, "node a") == []
    assert read(answer) == {}


@pytest.mark.slow
def test_a_machine_answers_in_an_object_store(prepared: PreparedStudy, bucket: str) -> None:
    storage = storage_path(f"{bucket}/storage")
    needs = replace(node_requirements(prepared, storage / "mark.json"), storage=str(storage))
    (fault,) = node_errors(needs, storage / "answer.json", "node a")
    assert fault.startswith(f"--storage {bucket}/storage: n")
    create(storage / "mark.json", {})
    assert node_errors(needs, storage / "answer.json", "node a") == []
    assert read(storage / "answer.json") == {}


def test_a_machine_that_does_not_see_the_storage_makes_none(
    prepared: PreparedStudy, mark: StoragePath, tmp_path: Path
) -> None:
    needs = node_requirements(prepared, mark)
    elsewhere = LocalPath(tmp_path / "elsewhere")
    (fault,) = node_errors(replace(needs, mark=elsewhere / "m"), elsewhere / "a", "node a")
    assert "node a does not see what the driver wrote there. Give a folder that" in fault
    assert not elsewhere.exists()


def test_a_machine_that_cannot_write_says_why(prepared: PreparedStudy, mark: StoragePath) -> None:
    needs = node_requirements(prepared, mark)
    (fault,) = node_errors(needs, mark / "answer.json", "node a")
    assert fault.startswith(f"--storage {needs.storage}: node ")
    assert "node a cannot read or write it: " in fault


@pytest.mark.parametrize("there", [True, False], ids=["others", "none"])
def test_a_folder_of_the_users_own_must_be_on_every_machine(
    prepared: PreparedStudy, mark: StoragePath, tmp_path: Path, there: bool
) -> None:
    other = shutil.copytree(prepared.study.model, tmp_path / "other")
    (other / "config.json").write_text("{}")
    needs = node_requirements(prepared, mark)
    needs = replace(needs, model=other if there else tmp_path / "none")
    (fault,) = node_errors(needs, prepared.store.folder / "answer.json", "node a")
    assert fault.startswith(f"--model {needs.model}: node a ")


def test_a_model_that_has_a_name_is_had_later(
    prepared: PreparedStudy, mark: StoragePath, tmp_path: Path
) -> None:
    named = replace(prepared.study, model_name="minilm", model=tmp_path / "none")
    needs = node_requirements(replace(prepared, study=named), mark)
    assert node_errors(needs, prepared.store.folder / "answer.json", "node a") == []


def test_other_versions_are_named_beside_the_drivers(
    prepared: PreparedStudy, mark: StoragePath
) -> None:
    needs = node_requirements(prepared, mark)
    needs = replace(needs, versions={**needs.versions, "python": "3.99", "ray": "1.0"})
    (fault,) = node_errors(needs, prepared.store.folder / "answer.json", "node a")
    assert fault.startswith("python 3.99, ray 1.0: node ")


def test_a_seed_run_takes_the_drivers_folder_where_it_is(prepared: PreparedStudy) -> None:
    assert model_here(prepared.study, prepared.store, versions_here()) == prepared.study.model


def test_a_seed_run_takes_the_same_model_from_where_this_machine_has_it(
    prepared: PreparedStudy, tmp_path: Path
) -> None:
    here = shutil.copytree(prepared.study.model, tmp_path / "here")
    study = replace(prepared.study, model=tmp_path / "there", model_name=str(here))
    assert model_here(study, prepared.store, versions_here()) == here


@pytest.mark.parametrize("folder", ["here", "there"], ids=["at its own place", "at the driver's"])
def test_another_model_is_not_taken_wherever_it_lies(
    prepared: PreparedStudy, tmp_path: Path, folder: str
) -> None:
    other = shutil.copytree(prepared.study.model, tmp_path / folder)
    with (other / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")  # of equal size, as every fine-tuned checkpoint is
    study = replace(prepared.study, model=tmp_path / "there", model_name=str(tmp_path / "here"))
    with pytest.raises(UnfitNodeError, match=r"the files in .* differ from those of the study"):
        model_here(study, prepared.store, versions_here())


def test_a_machine_with_other_versions_does_no_seed_run(prepared: PreparedStudy) -> None:
    driver = {**versions_here(), "torch": "1.0"}
    with pytest.raises(UnfitNodeError, match=r"^torch 1.0: .* has other versions"):
        model_here(prepared.study, prepared.store, driver)


def test_a_machine_without_the_study_does_no_seed_run(prepared: PreparedStudy) -> None:
    shutil.rmtree(str(prepared.store.folder))
    with pytest.raises(UnfitNodeError, match=r"does not see the study"):
        model_here(prepared.study, prepared.store, versions_here())
    assert not prepared.store.folder.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_whose_gpu_is_gone_does_no_seed_run(prepared: PreparedStudy) -> None:
    study = replace(prepared.study, numerics="cuda-bf16")
    with pytest.raises(UnfitNodeError, match=r"^cuda-bf16: torch finds no GPU"):
        model_here(study, prepared.store, versions_here())
