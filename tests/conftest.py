"""What every test shares: one torch thread, and the folder of real data."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _real_data() -> Path:
    given = os.environ.get("SCLSEARCH_TEST_DATA")
    return Path(given) if given else Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def glue() -> Path:
    """Returns the folder with CoLA, RTE, …; skips where it is missing."""
    folder = _real_data() / "glue"
    if not folder.is_dir():
        pytest.skip(f"no GLUE data in {folder}; set SCLSEARCH_TEST_DATA to a folder that has glue/")
    return folder
