"""Run the commands in the `console` blocks of Markdown pages, and compare or record their output.

A block holds commands, each after `$ `, and their standard output. All blocks of a page run in one
temporary folder, which starts with the tutorials' data files. `…` in a recorded output stands for
any text. Times are not compared. Numbers may differ in the last digits, as processors do.

    python tools/docs_examples.py docs/tutorials/own-data.md            # compare
    python tools/docs_examples.py --write docs/tutorials/own-data.md    # record
"""

import argparse
import difflib
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMES = re.compile(r"\d+:\d\d(?::\d\d)?|\d+(?:\.\d+)? (?:s|min|h)\b|under 1 min")
NUMBER = r"\d+\.\d{4,}"
TOLERANCE = 5e-5
"""Relative difference of numbers that processors may make; scores of four digits must be equal."""
DATA = Path(__file__).parents[1] / "docs" / "tutorials"


def commands(block: str) -> list[tuple[str, str]]:
    """Return pairs of a command, which may span lines that end in a backslash, and its output."""
    pairs: list[tuple[str, str]] = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        match = re.match(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", part, re.DOTALL)
        assert match is not None
        pairs.append((match[1], match[2]))
    return pairs


def run(command: str, folder: Path) -> str:
    """Run a command in a shell and return its standard output.

    Raises:
        RuntimeError: The command failed.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "80", "TERM": "dumb"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"$ {command}{done.stderr}exit code {done.returncode}")
    printed = done.stdout.replace(f"{folder}/", "")
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def same(recorded: str, printed: str) -> bool:
    """Return whether outputs agree, apart from times, last digits and what `…` stands for."""
    pattern, expected = "", []
    for part in re.split(f"(…|{NUMBER})", TIMES.sub("T", recorded)):
        if re.fullmatch(NUMBER, part):
            pattern += f"({NUMBER})"
            expected.append(float(part))
        else:
            pattern += ".*" if part == "…" else re.escape(part)
    found = re.fullmatch(pattern, TIMES.sub("T", printed), re.DOTALL)
    return found is not None and all(
        math.isclose(number, float(other), rel_tol=TOLERANCE)
        for number, other in zip(expected, found.groups(), strict=True)
    )


def check(page: Path, *, write: bool) -> bool:
    """Run the commands of a page; return whether all outputs agree, or record them."""
    text = page.read_text(encoding="utf-8")
    agree = True
    with tempfile.TemporaryDirectory() as folder:
        for file in DATA.glob("*.csv"):
            shutil.copy(file, folder)

        def replayed(match: re.Match[str]) -> str:
            nonlocal agree
            parts = []
            for command, recorded in commands(match[1]):
                printed = run(command, Path(folder))
                agrees = same(recorded, printed)
                if not agrees:
                    agree = False
                    lines = difflib.unified_diff(recorded.splitlines(), printed.splitlines())
                    sys.stdout.write("\n".join((f"{page}: $ {command}", *lines, "")))
                parts.append(f"$ {command}{recorded if agrees else printed}")
            return f"```console\n{''.join(parts)}```"

        changed = BLOCK.sub(replayed, text)
    if write and changed != text:
        page.write_text(changed, encoding="utf-8")
    return agree or write


def main() -> int:
    """Check or record the pages that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="Record the outputs.")
    parser.add_argument("pages", nargs="+", type=Path)
    arguments = parser.parse_args()
    agree = [check(page, write=arguments.write) for page in arguments.pages]
    return 0 if all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
