"""Test of the notebook in examples/."""

from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]


def test_the_notebook_runs_and_shows_a_report(tmp_path: Path) -> None:
    read: Any = nbformat.read
    notebook = read(ROOT / "examples/search.ipynb", as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [
        output["data"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]
    assert "text/html" in shown[0], "a report shows itself as a table"
    assert len(shown) >= 5
