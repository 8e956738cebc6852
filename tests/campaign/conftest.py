"""Fixtures of the campaign: a command run in an empty folder, and checks of its result."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sclsearch.cli import main

UNSET = ("SCLSEARCH_DATA", "MLFLOW_TRACKING_URI", "FORCE_COLOR", "NO_COLOR")
MOST_LINES = 25
MOST_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a command.

    Attributes:
        code: Exit code.
        out: Standard output.
        err: Standard error.
        seconds: Wall-clock time.
    """

    code: int
    out: str
    err: str
    seconds: float

    def assert_refused(self, *words: str) -> None:
        """Assert that the command refused its input: exit code 2 and a short message.

        Args:
            *words: Texts that the message must contain, such as the file or the option at fault.
        """
        self.assert_clear()
        assert self.code == 2, f"exit code {self.code}, not 2\n{self.out}\n{self.err}"
        message = " ".join(self.err.split())
        for word in words:
            assert word in message, f"{word!r} is not in the message:\n{self.err}"

    def assert_clear(self) -> None:
        """Assert that the command ended in time, without a traceback or a wall of text."""
        assert self.seconds < MOST_SECONDS, f"took {self.seconds:.0f} s"
        for text in (self.out, self.err):
            assert "Traceback (most recent call last)" not in text, text
        if self.code:
            assert self.code in {1, 2, 3}, f"exit code {self.code}"
            assert self.err.strip(), "no message"
            assert len(self.err.splitlines()) <= MOST_LINES, self.err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty current folder."""
    monkeypatch.chdir(tmp_path)
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Return a function that runs `sclsearch ARGUMENTS` in this process, by its entry point."""

    def run(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["sclsearch", *arguments])
        capsys.readouterr()
        began = time.monotonic()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        code = ended.value.code
        return Result(
            code if isinstance(code, int) else int(code is not None),
            printed.out,
            printed.err,
            time.monotonic() - began,
        )

    return run
