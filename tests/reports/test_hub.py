"""An export is uploaded to the hub, and errors of the hub name the way out."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import huggingface_hub.constants
import pytest
from huggingface_hub.errors import HfHubHTTPError
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.errors import SclsearchError
from sclsearch.reports.hub import push

REPOSITORY = "me/my-classifier"


@dataclass
class Hub:
    """A hub in memory, with the calls of `HfApi` that an upload makes."""

    endpoint = "https://hub.test"
    private: dict[str, bool] = field(default_factory=dict)
    uploads: list[tuple[str, Path]] = field(default_factory=list)
    refuses: bool = False

    def create_repo(self, name: str, *, private: bool, exist_ok: bool) -> SimpleNamespace:
        assert exist_ok
        if self.refuses:
            raise HfHubHTTPError("Invalid username or password.", response=MagicMock(headers={}))
        self.private.setdefault(name, private)
        return SimpleNamespace(repo_id=name)

    def model_info(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(private=self.private[name])

    def upload_folder(self, *, repo_id: str, folder_path: Path, commit_message: str) -> str:
        assert commit_message
        self.uploads.append((repo_id, folder_path))
        return f"{self.endpoint}/{repo_id}/commit/abc"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    """Return the hub that uploads of this process use."""
    found = Hub()
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: found)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "winner"
    (folder / "encoder").mkdir(parents=True)
    (folder / "README.md").write_text("---\nlibrary_name: sclsearch\n---\n# A card\n")
    (folder / "encoder" / "config.json").write_text("{}")
    return folder


def test_a_folder_is_uploaded_to_a_new_private_repository(hub: Hub, folder: Path) -> None:
    assert push(folder, REPOSITORY) == f"{hub.endpoint}/{REPOSITORY}/commit/abc"
    assert hub.private == {REPOSITORY: True}
    assert hub.uploads == [(REPOSITORY, folder)]


def test_a_public_repository_is_used_only_on_request(hub: Hub, folder: Path) -> None:
    hub.private[REPOSITORY] = False
    with pytest.raises(SclsearchError) as raised:
        push(folder, REPOSITORY)
    assert str(raised.value).startswith(f"--push {REPOSITORY}: the repository is public. Pass ")
    assert not hub.uploads
    push(folder, REPOSITORY, public=True)
    assert hub.uploads


def test_a_refusal_names_the_hub_and_the_way_out(hub: Hub, folder: Path) -> None:
    hub.refuses = True
    with pytest.raises(SclsearchError) as raised:
        push(folder, REPOSITORY)
    message = str(raised.value)
    assert message.startswith(f"--push {REPOSITORY}: {hub.endpoint} did not accept the upload: ")
    assert message.endswith(f"`hf upload {REPOSITORY} {folder}` uploads it.")


def test_a_hub_that_cannot_be_reached_is_one_error(
    folder: Path, dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert huggingface_hub.constants.HF_HUB_OFFLINE
    with pytest.raises(SclsearchError, match=r"did not accept the upload: .*offline"):
        push(folder, REPOSITORY)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{dead_port}")
    with pytest.raises(SclsearchError, match=f"127.0.0.1:{dead_port} did not accept the upload"):
        push(folder, REPOSITORY)


def test_a_name_that_no_repository_can_have_is_refused_before_the_export(tmp_path: Path) -> None:
    with pytest.raises(SclsearchError, match=r"^push a/b/c: must be owner/name"):
        sclsearch.export("mine", tmp_path / "out", storage=tmp_path, push="a/b/c")
    refused = CliRunner().invoke(app, ["export", "mine", str(tmp_path / "o"), "--push", "a b"])
    assert isinstance(refused.exception, SclsearchError)
    assert str(refused.exception).startswith("--push a b: must be owner/name")
