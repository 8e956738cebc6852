"""Tests of the upload of an export, to a local server with the hub's protocol."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

import sclsearch
from sclsearch.errors import SclsearchError
from sclsearch.reports.export import push
from tests.reports.trained import Trained

REPOSITORY = "me/my-classifier"


@dataclass
class Hub:
    """State of the server: privacy of each repository, uploaded files, received tokens."""

    address: str = ""
    private: dict[str, bool] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    tokens: set[str | None] = field(default_factory=set)
    rejects: bool = False


class Handler(BaseHTTPRequestHandler):
    """Request handler with the endpoints that an upload uses."""

    hub: Hub

    def do_GET(self) -> None:
        if "/tree/" not in self.path:
            self.answer({"error": "Not found."}, 404)
            return
        files = [{"type": "file", "path": p, "oid": "0", "size": 1} for p in self.hub.files]
        self.answer(files)

    def do_POST(self) -> None:
        self.hub.tokens.add(self.headers["Authorization"])
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.hub.rejects:
            self.answer({"error": "Invalid username or password."}, 401)
            return
        answers: dict[str, Callable[[bytes], None]] = {
            "/create": self.create,
            "/preupload/": self.preupload,
            "/commit/": self.commit,
            "/validate-yaml": lambda _: self.answer({"errors": [], "warnings": []}),
        }
        next(answer for part, answer in answers.items() if part in self.path)(body)

    def create(self, body: bytes) -> None:
        request = json.loads(body)
        name = f"{request['organization']}/{request['name']}"
        known = name in self.hub.private
        self.hub.private.setdefault(name, request["visibility"] == "private")
        self.answer({"url": f"{self.hub.address}/{name}"}, 409 if known else 200)

    def preupload(self, body: bytes) -> None:
        paths = [one["path"] for one in json.loads(body)["files"]]
        files = [{"path": p, "uploadMode": "regular", "shouldIgnore": False} for p in paths]
        self.answer({"files": files})

    def commit(self, body: bytes) -> None:
        for entry in map(json.loads, body.decode().splitlines()):
            if entry["key"] == "file":
                content = base64.b64decode(entry["value"]["content"])
                self.hub.files[entry["value"]["path"]] = content
            elif entry["key"] == "deletedFile":
                del self.hub.files[entry["value"]["path"]]
        url = f"{self.hub.address}/{REPOSITORY}/commit/abc"
        self.answer({"commitUrl": url, "commitOid": "abc", "hookOutput": ""})

    def answer(self, content: Any, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """Yield the state of a server that huggingface_hub uses as the hub."""
    state = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": state}))
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    # The library reads HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE when it is first imported.
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", state.address)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", state.address)
    # A file in the home of the user, with what the library has read from the hub.
    cache = "huggingface_hub.constants.AGENT_HARNESSES_PATH"
    monkeypatch.setattr(cache, str(tmp_path / "agents.json"))
    monkeypatch.setenv("HF_TOKEN", "hf_a_test")
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_exported_files_are_the_files_of_a_private_repository(
    hub: Hub, trained: Trained, tmp_path: Path
) -> None:
    hub.files |= {"encoder/config.json": b"of an earlier export"}
    folder = tmp_path / "winner"
    sclsearch.export("mine", folder, storage=trained.storage, force=True, push=REPOSITORY)
    assert hub.private == {REPOSITORY: True}
    assert hub.tokens == {"Bearer hf_a_test"}
    assert "model.safetensors" in hub.files
    assert hub.files == {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_rejected_upload_names_the_hub_and_the_upload_command(hub: Hub, tmp_path: Path) -> None:
    hub.rejects = True
    with pytest.raises(SclsearchError) as raised:
        push(tmp_path, REPOSITORY)
    message = str(raised.value)
    assert message.startswith(f"--push {REPOSITORY}: {hub.address} did not accept the upload: ")
    assert message.endswith(f"`hf upload {REPOSITORY} {tmp_path}` uploads it.")


def test_an_unreachable_hub_or_an_invalid_name_is_an_error(
    tmp_path: Path, dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert huggingface_hub.constants.HF_HUB_OFFLINE
    with pytest.raises(SclsearchError, match=r"did not accept the upload: .*offline"):
        push(tmp_path, REPOSITORY)
    with pytest.raises(SclsearchError, match=r"^--push a/b/c: .* upload: Repo id must"):
        push(tmp_path, "a/b/c")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{dead_port}")
    with pytest.raises(SclsearchError, match=f"127.0.0.1:{dead_port} did not accept the upload"):
        push(tmp_path, REPOSITORY)
