"""Tests of the page and of MLflow's first page in Chromium: `make browser` keeps the pictures."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import free_port, listens, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(1200)]

METHODS = ("ce", "scl", "lacon", "dropout-aug", "leam")
PICTURES = Path(__file__).parents[2] / "browser"
MEASURE = """<script>
const root = document.documentElement;
if (innerWidth < 600) document.body.style.maxWidth = "390px";  // Chromium's windows are wider
const lead = document.querySelector(".lead").getBoundingClientRect().bottom;
document.title = ["measured", root.scrollHeight, root.scrollWidth, Math.round(lead)].join(" ");
</script>"""

Look = Callable[..., str]


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage with one study of each method, on real texts with MiniLM."""
    folder = tmp_path_factory.mktemp("browser")
    search = ["--task=demo", "--train-size=40", "--model=minilm", "--configs=2", "--seeds=3"]
    sclsearch(folder, "tune", f"--method={','.join(METHODS)}", *search, "--epochs=1")
    return folder


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Return a function that keeps the picture of a page and returns its HTML, scripts run."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser, "no Chromium: apt install chromium"
    command = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]
    command += [f"--user-data-dir={tmp_path}", "--virtual-time-budget=30000"]
    PICTURES.mkdir(exist_ok=True)

    def look(address: str, name: str, width: int = 1280, height: int = 800) -> str:
        window = [*command, f"--window-size={width},{height}"]
        output(*window, f"--screenshot={PICTURES / name}.png", address)
        return output(*window, "--dump-dom", address)

    return look


def output(*command: str, cwd: Path | None = None) -> str:
    """Return what a command prints; show its errors if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sclsearch(folder: Path, *arguments: str) -> None:
    output(sys.executable, "-m", "sclsearch", *arguments, cwd=folder)


@pytest.mark.parametrize(("number", "limit"), [(1, 6000), (len(METHODS), 8000)])
def test_the_page_answers_in_its_first_400_pixels_and_fits_screens_and_phones(
    studies: Path, look: Look, number: int, limit: int
) -> None:
    names = sorted(path.name for path in (studies / "sclsearch-storage" / "studies").iterdir())
    sclsearch(studies, "report", *names[:number], f"--output=report-{number}")
    page = studies / f"report-{number}" / "index.html"
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{MEASURE}</body>"))
    for device, width in (("screen", 1280), ("phone", 500)):
        html = look(page.as_uri(), f"report-{number}-{device}", width)
        title = re.search(r"<title>measured (\d+) (\d+) (\d+)</title>", html)
        assert title, html[:1000]
        height, used, lead = map(int, title.groups())
        assert used <= width, "the page is wider than the window"
        if device == "screen":
            assert lead <= 400
            assert height <= limit
            look(page.as_uri(), f"report-{number}-whole", width, height)


def test_the_first_page_of_mlflow_names_methods_and_scores_in_its_table(
    studies: Path, look: Look
) -> None:
    log, port = studies / "ui.txt", free_port()
    command = [sys.executable, "-m", "sclsearch", "ui", f"--port={port}"]
    with log.open("wb") as file:
        server = subprocess.Popen(command, cwd=studies, stdout=file, stderr=file)
    try:
        wait_for("the server", lambda: listens(port) or server.poll() is not None)
        [address] = re.findall(r"http://\S+", log.read_text(encoding="utf-8"))
        html = look(address, "mlflow")
    finally:
        server.terminate()
        server.wait(timeout=60)
    assert all(re.search(rf">{method} #\d lr=", html) for method in METHODS)
    for column in ("method", "val", "test", "seeds"):
        assert re.search(rf">{column}<", html), column
    requests = [line for line in log.read_text(encoding="utf-8").splitlines() if "GET /" in line]
    assert not requests
