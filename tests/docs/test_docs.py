"""Tests that commands, options and files in README and docs exist, and that the site builds."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import nbclient
import nbformat
import optuna
import pytest
import typer.main

import sclsearch
from sclsearch.cli import app
from sclsearch.spaces.load import load_space
from sclsearch.study.spec import RunOptions, StudySpec
from tests.studies import finish
from tools import command_reference, python_reference

ROOT = Path(__file__).parents[2]
OWN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [*OWN, ROOT / "cluster/README.md"]
GROUP: Any = typer.main.get_command(app)
SHELL = re.compile(r"(?ms)^```(?:sh|console)\n(.*?)^```$")
OPTIONS = {"--help", "--help-all", "--version", "--install-completion"} | {
    option
    for command in GROUP.commands.values()
    for parameter in command.params
    for option in (*parameter.opts, *parameter.secondary_opts)
}


def _commands(page: Path) -> list[list[str]]:
    """Return the words of each `sclsearch` command in a page's shell blocks."""
    found = []
    for block in SHELL.findall(page.read_text(encoding="utf-8")):
        console = block.startswith("$ ")
        for line in block.replace("\\\n", " ").splitlines():
            text = line.removeprefix("$ ")
            if console and text == line:
                continue  # output
            words = shlex.split(text, comments=True)
            words = words[: words.index("|")] if "|" in words else words
            if words[:1] == ["sclsearch"] and not words[1].startswith("-"):
                found.append(words[1:])
    return found


CASES = [
    pytest.param(words, id=f"{page.relative_to(ROOT)}: {' '.join(words)}"[:120])
    for page in PAGES
    for words in _commands(page)
]


@pytest.mark.parametrize("words", CASES)
def test_a_command_on_a_page_parses(words: list[str]) -> None:
    name, *arguments = words
    GROUP.commands[name].make_context(name, arguments)  # raises an error that names the option


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_an_option_named_in_a_sentence_and_a_linked_file_exist(page: Path) -> None:
    content = page.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", content, flags=re.MULTILINE | re.DOTALL)
    named = {
        option
        for code in re.findall(r"`([^`\n]+)`", text)
        if code.startswith(("--", "sclsearch "))
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", code)
    }
    assert not named - OPTIONS or page not in OWN
    for target in re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", content):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    methods = (tmp_path / "reference" / "methods.html").read_text(encoding="utf-8")
    assert "supcl-seq" in methods


@pytest.mark.parametrize("tool", [command_reference, python_reference])
def test_a_generated_page_is_current(tool: ModuleType) -> None:
    written = tool.PAGE.read_text(encoding="utf-8")
    assert written == tool.page(), f"run python tools/{tool.__name__.partition('.')[2]}.py"


def _block(page: str, start: str) -> str:
    """Return the code block of a page that begins with a text."""
    text = (ROOT / "docs/how-to" / page).read_text(encoding="utf-8")
    found = re.search(rf"```{start}.*?\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_search_space_of_the_how_to_page_is_valid(tmp_path: Path) -> None:
    (tmp_path / "supcl.yaml").write_text(
        _block("own-method.md", "yaml title=.supcl"), encoding="utf-8"
    )
    assert load_space(tmp_path / "supcl.yaml", None).parameters


def test_the_script_for_the_optuna_dashboard_writes_the_finished_configurations(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = StudySpec(method="scl", task="demo", model=str(tiny_encoder))
    finish(spec, RunOptions(study="STUDY", configs=3, seeds=2, gpus_per_trial=0))
    exec(_block("results.md", 'python title="to_optuna.py"'), {})
    written = optuna.load_study(study_name="STUDY", storage="sqlite:///optuna.db")
    found = sclsearch.select("STUDY")
    assert [trial.value for trial in written.trials] == [one.score for one in found.configurations]
    assert [trial.params for trial in written.trials] == [
        {name: str(one) if isinstance(one, list) else one for name, one in line.values.items()}
        for line in found.configurations
    ]


IN_PROCESS = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.studies import in_process
without_ray = in_process()
without_ray.__enter__()
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_notebook_runs_and_shows_a_report(tiny_encoder: Path, tmp_path: Path) -> None:
    read: Any = nbformat.read
    notebook = read(ROOT / "examples/search.ipynb", as_version=4)
    assert sum(bool(cell.get("outputs")) for cell in notebook.cells) == 5, "store the outputs"
    smaller = {'"minilm"': f'"{tiny_encoder}"', 'refit="all"': 'refit="all", force=True'}
    for cell in notebook.cells:
        for old, new in smaller.items():
            cell.source = cell.source.replace(old, new)
    new_code_cell: Any = nbformat.v4.new_code_cell
    notebook.cells.insert(0, new_code_cell(IN_PROCESS))
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=500, resources=place).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    shown = [one["data"] for one in outputs if one.output_type == "execute_result"]
    assert "text/html" in shown[0], "a report shows itself as a table"
    assert len(shown) >= 5
