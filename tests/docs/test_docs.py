"""Tests that commands, options and files in README and docs exist, and that the site builds."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import optuna
import pytest
import typer.main

import sclsearch
from sclsearch.cli import app
from sclsearch.methods import METHODS, method_summaries
from sclsearch.spaces.load import check_file
from sclsearch.study.spec import RunOptions, StudySpec
from tests.finished import finish

ROOT = Path(__file__).parents[2]
OWN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [*OWN, ROOT / "cluster/README.md"]
GROUP: Any = typer.main.get_command(app)
SHELL = re.compile(r"(?ms)^```(?:sh|console)\n(.*?)^```$")


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
            if words[:1] == ["sclsearch"]:
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
    if name.startswith("-"):
        return
    GROUP.commands[name].make_context(name, arguments)  # raises an error that names the option


@pytest.mark.parametrize("page", OWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_an_option_named_in_a_sentence_exists(page: Path) -> None:
    known = {
        option
        for command in GROUP.commands.values()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help", "--help-all", "--version", "--install-completion"}
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    named = {
        option
        for code in re.findall(r"`([^`\n]+)`", text)
        if code.startswith(("--", "sclsearch "))
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", code)
    }
    assert not named - known


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


def test_readme_fits_on_three_screens() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 160


@pytest.mark.parametrize("name", METHODS)
def test_the_table_in_readme_has_a_row_per_method(name: str) -> None:
    row = f"| `{name}` | {method_summaries()[name].rstrip('.')} |"
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert row in lines, f"README needs the row\n{row}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_linked_file_exists(page: Path) -> None:
    linked = re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8"))
    for target in linked:  # a generated page is missing where a host renders the repository
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("target", ["quickstart", "test", "docs", "docs-examples"])
def test_a_make_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_search_space_of_the_how_to_page_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "docs/how-to/own-space.md").read_text(encoding="utf-8")
    space = re.search(r"```yaml title=.*?\n(.*?)```", text, re.DOTALL)
    assert space is not None
    (tmp_path / "supcl.yaml").write_text(space[1], encoding="utf-8")
    assert check_file(tmp_path / "supcl.yaml", None) == []


def test_the_script_for_the_optuna_dashboard_writes_the_finished_configurations(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = StudySpec(method="scl", task="demo", model=str(tiny_encoder))
    finish(spec, RunOptions(study="STUDY", configs=3, seeds=2, gpus_per_trial=0))
    text = (ROOT / "docs/how-to/callbacks.md").read_text(encoding="utf-8")
    script = re.search(r'```python title="to_optuna.py"\n(.*?)```', text, re.DOTALL)
    assert script is not None
    exec(script[1], {})
    written = optuna.load_study(study_name="STUDY", storage="sqlite:///optuna.db")
    found = sclsearch.select("STUDY")
    assert [trial.value for trial in written.trials] == [one.score for one in found.configurations]
    assert [trial.params for trial in written.trials] == [
        {name: str(one) if isinstance(one, list) else one for name, one in line.values.items()}
        for line in found.configurations
    ]
