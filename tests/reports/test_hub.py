"""Tests of the upload of an export to the hub."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub.constants
import pytest

import sclsearch
from sclsearch.errors import SclsearchError
from sclsearch.reports.export import push
from tests.reports.trained import Trained

REPOSITORY = "me/my-classifier"


def test_the_exported_files_alone_are_the_files_of_a_private_repository(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []

    def create_repo(_: object, name: str, **options: Any) -> SimpleNamespace:
        calls.append((name, options))
        return SimpleNamespace(repo_id=name)

    def upload_folder(_: object, repo_id: str, **options: Any) -> str:
        assert (options["folder_path"] / "model.safetensors").is_file()
        calls.append((repo_id, options))
        return "an address"

    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", create_repo)
    monkeypatch.setattr("huggingface_hub.HfApi.upload_folder", upload_folder)
    folder = tmp_path / "winner"
    sclsearch.export("mine", folder, storage=trained.storage, force=True, push=REPOSITORY)
    assert calls == [
        (REPOSITORY, {"private": True, "exist_ok": True}),
        (REPOSITORY, {"folder_path": folder, "delete_patterns": "*"}),
    ]


def test_an_unreachable_hub_or_an_invalid_name_is_an_error(
    tmp_path: Path, dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert huggingface_hub.constants.HF_HUB_OFFLINE
    with pytest.raises(SclsearchError, match=r"did not accept the upload: .*offline"):
        push(tmp_path, REPOSITORY)
    with pytest.raises(SclsearchError, match=r"^--push a/b/c: .* upload: Repo id must"):
        push(tmp_path, "a/b/c")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    address = f"http://127.0.0.1:{dead_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    with pytest.raises(SclsearchError) as raised:
        push(tmp_path, REPOSITORY)
    message = str(raised.value)
    assert message.startswith(f"--push {REPOSITORY}: {address} did not accept the upload: ")
    assert message.endswith(f"`hf upload {REPOSITORY} {tmp_path}` uploads it.")
