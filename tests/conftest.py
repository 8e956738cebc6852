"""Fixtures of all tests: one thread, no network, real data, tiny encoders, commands, buckets."""

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from sclsearch.cli import main
from tests.processes import Processes, free_port, listens, wait_for

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


pytest_plugins = ["tests.studies", "tests.made_up"]

Save = Callable[..., Path]
UNSET = ("SCLSEARCH_DATA", "SCLSEARCH_STORAGE", "MLFLOW_TRACKING_URI", "FORCE_COLOR", "NO_COLOR")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    *("the", "a", "it", "was", "film", "and", "very", "not"),
    *("good", "great", "fine", "lovely", "bad", "awful", "poor", "dull"),
)
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'\"()-"
VOCABULARY = (*SPECIAL, *WORDS, *LETTERS[1:], *(f"##{letter}" for letter in LETTERS))
SIZES: Mapping[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_dim": 32,  # intermediate_size of DistilBERT
    "max_position_embeddings": 160,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "initializer_range": 0.2,  # so that texts have different embeddings
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files that start Ray first, because they wait more than they compute."""
    with_ray = [item for item in items if item.get_closest_marker("ray")]
    paths = {item.path for item in with_ray}
    items.sort(key=lambda item: item.path not in paths)
    # Ray leaves files and sockets of its processes to the garbage collector.
    warnings = ("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
    for item in with_ray:
        item.add_marker(pytest.mark.filterwarnings(*warnings))


def real_data(name: str) -> Path:
    """Return a folder of real data; skip the test if it is missing."""
    usual = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SCLSEARCH_TEST_DATA") or usual) / name
    if not folder.is_dir():
        pytest.skip(f"no data in {folder}; set SCLSEARCH_TEST_DATA to a folder that has {name}/")
    return folder


@pytest.fixture(scope="session")
def glue() -> Path:
    """Return the folder with CoLA, RTE, …"""
    return real_data("glue")


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

    def save_tiny(
        architecture: str,
        sizes: Mapping[str, Any] = SIZES,
        vocabulary: Sequence[str] = VOCABULARY,
        **options: Any,
    ) -> Path:
        import torch
        import transformers

        folder = tmp_path_factory.mktemp(architecture.lower())
        config = getattr(transformers, f"{architecture.removesuffix('Encoder')}Config")(**sizes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            getattr(transformers, f"{architecture}Model")(config, **options).save_pretrained(folder)
        ids = {token: number for number, token in enumerate(vocabulary)}
        transformers.BertTokenizer(vocab=ids).save_pretrained(folder)
        return folder

    return save_tiny


def _tiny(architecture: str, sizes: Mapping[str, Any] = SIZES, **options: Any) -> Any:
    """Return a fixture with the folder of a tiny encoder."""

    @pytest.fixture(scope="session")
    def saved(save_tiny: Save) -> Path:
        return save_tiny(architecture, sizes, **options)

    return saved


tiny_bert = _tiny("Bert")
tiny_encoder = _tiny("Bert", {**SIZES, "hidden_size": 24})  # has room for LaCon's 6 heads
# Without pooler, like the real ones.
tiny_roberta = _tiny("Roberta", {**SIZES, "type_vocab_size": 1}, add_pooling_layer=False)
tiny_distilbert = _tiny("DistilBert")
tiny_electra = _tiny("Electra")
tiny_albert = _tiny("Albert")  # its pooler is a bare linear layer


@pytest.fixture
def bert(tiny_bert: Path) -> "Encoder":
    """Return a new copy of the tiny BERT."""
    from sclsearch.encoders.load import load_encoder

    return load_encoder(tiny_bert, "tiny")


@pytest.fixture(scope="session")
def own_methods() -> dict[str, str]:
    """Return the Python files that the page on custom methods shows, by name."""
    page = Path(__file__).parents[1] / "docs/how-to/own-method.md"
    block = re.compile(r'```python title="(.*?)"\n(.*?)```', re.DOTALL)
    return dict(block.findall(page.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Result:
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str

    def assert_refused(self, *words: str) -> None:
        """Assert exit code 2 and a short message with words, such as the option at fault."""
        self.assert_clear()
        assert self.returncode == 2, f"exit code {self.returncode}\n{self.stdout}\n{self.stderr}"
        message = " ".join(self.stderr.split())
        for word in words:
            assert word in message, f"{word!r} is not in the message:\n{self.stderr}"

    def assert_clear(self) -> None:
        """Assert that the command printed no traceback, and a short message of its failure."""
        assert "Traceback (most recent call last)" not in self.stdout + self.stderr, self.stderr
        if self.returncode:
            assert self.returncode in {1, 2, 3}, f"exit code {self.returncode}"
            assert 1 <= len(self.stderr.strip().splitlines()) <= 25, self.stderr


Call = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty current folder."""
    monkeypatch.chdir(tmp_path)
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def sclsearch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Return a function that runs `sclsearch ARGUMENTS` in this process, by its entry point."""

    def call(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["sclsearch", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return Result(
            code if isinstance(code, int) else int(code is not None), *capsys.readouterr()
        )

    return call


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Return the processes of a module's tests; kill them at the end."""
    processes = Processes()
    yield processes
    processes.kill()


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
    remote._store.cache_clear()
    name = f"test-{uuid.uuid4().hex}"
    make_bucket(name)
    yield f"s3://{name}"
    remote._store.cache_clear()


def make_bucket(name: str) -> None:
    """Create a bucket in the server of the environment variables."""
    import boto3

    boto3.client("s3").create_bucket(Bucket=name)
