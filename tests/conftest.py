"""Fixtures of all tests: one thread, no network, real data, tiny encoders, an S3 server."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests import tiny
from tests.processes import free_port, listens, wait_for
from tests.tiny import SIZES

if TYPE_CHECKING:
    from sclsearch.encoders.encoder import Encoder

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# A background job of a shell ignores Ctrl-C, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# By default Ray's workers have low priority, and tests would wait for them too long.
os.environ.setdefault("RAY_worker_niceness", "0")

# Hypothesis must not fail slow examples, because test machines also do other work.
settings.register_profile("sclsearch", deadline=None)
settings.load_profile("sclsearch")


pytest_plugins = ["tests.workspace"]

Save = Callable[..., Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files that start Ray first, because they wait more than they compute."""
    with_ray = [item for item in items if item.get_closest_marker("ray")]
    paths = {item.path for item in with_ray}
    items.sort(key=lambda item: item.path not in paths)
    # Ray leaves files and sockets of its processes to the garbage collector.
    warnings = ("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
    for item in with_ray:
        item.add_marker(pytest.mark.filterwarnings(*warnings))


def _real_data(name: str) -> Path:
    """Return a folder of real data; skip the test if it is missing."""
    usual = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SCLSEARCH_TEST_DATA") or usual) / name
    if not folder.is_dir():
        pytest.skip(f"no data in {folder}; set SCLSEARCH_TEST_DATA to a folder that has {name}/")
    return folder


@pytest.fixture(scope="session")
def glue() -> Path:
    """Return the folder with CoLA, RTE, …"""
    return _real_data("glue")


@pytest.fixture(scope="session")
def fewclue() -> Path:
    """Return the folder with eprstmt and tnews."""
    return _real_data("fewclue")


@pytest.fixture(scope="session")
def minilm() -> Path:
    """Return the folder of all-MiniLM-L6-v2; skip the test without package and hub."""
    from sclsearch.encoders.models import model_folder
    from sclsearch.errors import SclsearchError

    try:
        return model_folder("minilm")
    except SclsearchError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def save_tiny(tmp_path_factory: pytest.TempPathFactory) -> Save:
    """Return a function that saves a tiny random encoder of an architecture with a tokenizer."""
    folder = tmp_path_factory.mktemp
    return lambda kind, *sizes, **options: tiny.save_tiny(
        folder(kind.lower()), kind, *sizes, **options
    )


def _tiny(architecture: str, sizes: Mapping[str, Any] = SIZES, **options: Any) -> Any:
    """Return a fixture with the folder of a tiny encoder."""

    @pytest.fixture(scope="session")
    def saved(save_tiny: Save) -> Path:
        return save_tiny(architecture, sizes, **options)

    return saved


tiny_bert = _tiny("Bert")
# A width that has room for LaCon's 6 heads.
tiny_encoder = _tiny("Bert", {**SIZES, "hidden_size": 24})
# Without pooler, like the real ones.
tiny_roberta = _tiny("Roberta", {**SIZES, "type_vocab_size": 1}, add_pooling_layer=False)
tiny_distilbert = _tiny("DistilBert")
tiny_electra = _tiny("Electra")
# Its pooler is a bare linear layer.
tiny_albert = _tiny("Albert")


@pytest.fixture
def bert(tiny_bert: Path) -> "Encoder":
    """Return a new copy of the tiny BERT."""
    from sclsearch.encoders.load import load_encoder

    return load_encoder(tiny_bert, "tiny")


@pytest.fixture(scope="session")
def own_method_files() -> dict[str, str]:
    """Return the Python files that the page on custom methods shows, by name."""
    page = Path(__file__).parents[1] / "docs/how-to/own-method.md"
    block = re.compile(r'```python title="(.*?)"\n(.*?)```', re.DOTALL)
    return dict(block.findall(page.read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def custom_method(own_method_files: dict[str, str]) -> str:
    """Return the text of the first custom method that the documentation shows."""
    return own_method_files["mine.py"]


@pytest.fixture
def bound_by_permissions() -> Iterator[None]:
    """Let the permissions of files bind this thread, even if root runs it."""
    libc, overrides = ctypes.CDLL(None), 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    before = sets[0]
    sets[0] &= ~overrides
    libc.capset(header, sets)
    yield
    sets[0] = before
    libc.capset(header, sets)


@pytest.fixture
def port() -> int:
    """Return a free port."""
    return free_port()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Return the address of an S3 server of this test process."""
    pytest.importorskip("moto")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as server:
        wait_for("the server", lambda: listens(port) or server.poll() is not None, 120)
        assert server.poll() is None
        yield f"http://127.0.0.1:{port}"
        server.kill()


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the URI of a new bucket, with its settings in environment variables."""
    from sclsearch.store import remote

    for name, value in {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ACCESS_KEY_ID": "a-test",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    remote._files.cache_clear()
    name = f"test-{uuid.uuid4().hex}"
    remote._files("s3").mkdir(name)
    yield f"s3://{name}"
    remote._files.cache_clear()
