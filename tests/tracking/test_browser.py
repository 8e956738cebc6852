"""Test of the MLflow UI in a browser: its first page shows the winning configuration."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from html import unescape
from pathlib import Path
from urllib.request import urlopen

import pytest

import sclsearch
from tests.machines.machines import wait_for
from tests.reports.trained import Trained

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FOLDER = "SCLSEARCH_SCREENSHOTS"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]


@pytest.fixture
def page(trained: Trained, port: int, tmp_path: Path) -> Iterator[str]:
    """Start `sclsearch ui` and yield the address that it prints for the study's experiment."""
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    sclsearch.track("mine", storage=trained.storage, tracking=uri, register="sentiment")
    command = [sys.executable, "-m", "sclsearch", "ui", "--port", str(port)]
    with (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [*command, "--tracking", uri],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        experiment, address = process.stdout.readline(), process.stdout.readline().strip()
        assert experiment.startswith("demo, 8 examples")
        wait_for("the server", lambda: _answers(f"http://127.0.0.1:{port}/health"))
        yield address
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)


def test_the_experiment_and_its_winner_are_shown(
    page: str, trained: Trained, tmp_path: Path
) -> None:
    folder = Path(os.environ.get(FOLDER, tmp_path / "screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    score = sclsearch.select("mine", storage=trained.storage).configurations[0].score
    text = _text(page, folder / "experiment.png", tmp_path)
    for expected in (
        "Winner:",
        "Sort: score",
        f"accuracy {score:.4f}",
        "configuration 0",
        "1 matching run",
    ):
        assert expected in text, text
    (run,) = set(re.findall(r"/runs/([0-9a-f]{32})", _dom(page, tmp_path)))
    winner = page.partition("/runs?")[0] + f"/runs/{run}?workflowType=machine_learning"
    text = _text(winner, folder / "configuration.png", tmp_path)
    for expected in ("configuration 0", "Child runs", "seed 0", "seed 1", "test_std"):
        assert expected in text, text


def _text(address: str, screenshot: Path, scratch: Path) -> str:
    """Return the text of a page and save its screenshot."""
    _chromium(scratch, "--window-size=1700,1000", f"--screenshot={screenshot}", address)
    assert screenshot.stat().st_size > 20_000
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", _dom(address, scratch))).split())


def _dom(address: str, scratch: Path) -> str:
    return _chromium(scratch, "--window-size=1700,1000", "--dump-dom", address)


def _chromium(scratch: Path, *options: str) -> str:
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={scratch / 'chromium'}", "--virtual-time-budget=25000", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def _answers(address: str) -> bool:
    with suppress(OSError), urlopen(address, timeout=5):
        return True
    return False
