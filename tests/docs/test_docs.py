"""README and docs name only commands, options and files that exist, and the site builds."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from sclsearch.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "cluster/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GROUP: Any = typer.main.get_command(app)
SHELL = re.compile(r"(?ms)^```(?:sh|console)\n(.*?)^```$")
# Options of other programs that pages name in running text.
FOREIGN = {"--no-deps", "--with-registry"}


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
    command = GROUP.commands[name]
    try:
        command.make_context(name, arguments)
    except typer.BadParameter.__bases__ as error:
        pytest.fail(f"sclsearch {' '.join(words)}: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
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
    assert not named - known - FOREIGN


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
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
