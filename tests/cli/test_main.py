"""Tests of the entry point: imports, errors, help and interruption."""

import errno
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from sclsearch import cli
from sclsearch.cli import COMMANDS
from sclsearch.errors import INTERRUPTED, STOPPED
from sclsearch.tasks import data_folder
from tests.cli.conftest import SEARCH, SPACE
from tests.workspace import Call

ENTRY = "from sclsearch.__main__ import main; main()"

COMMAND = (str(Path(sys.executable).with_name("sclsearch")),)
KINDS = ("tasks", "protocols", "spaces", "models", "studies")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("tune", "--help"), ("reproduce", "ls"), *(("ls", kind) for kind in KINDS)],
    ids=" ".join,
)
def test_commands_that_only_print_import_no_slow_package(
    heavy_imports: Callable[..., set[str]], arguments: tuple[str, ...], tmp_path: Path
) -> None:
    assert heavy_imports(*arguments) == set()
    assert not list(tmp_path.iterdir())


def test_an_error_is_one_message_on_standard_error_and_exit_code_2(tmp_path: Path) -> None:
    result = subprocess.run(
        [*COMMAND, "rm"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == "studies: names none. Name one, or pass --unused.\n"


def test_the_command_and_the_module_print_the_version(sclsearch: Call) -> None:
    version_line = f"sclsearch {version('sclsearch')}\n"
    assert sclsearch("--version").stdout == version_line
    module = [sys.executable, "-m", "sclsearch", "--version"]
    assert subprocess.run(module, capture_output=True, text=True, check=True).stdout == version_line


def test_a_path_may_start_with_a_tilde(
    sclsearch: Call, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(workdir / "encoder"))
    (workdir / "encoder" / "mine.yaml").write_text(SPACE)
    (workdir / "encoder" / "rows.csv").write_text("t,l\n" + "a,x\nb,y\n" * 30)
    own = ("--task", "~/rows.csv", "--text", "t", "--label", "l", "--space", "~/mine.yaml")
    result = sclsearch("tune", "--method", "scl", *own, "--model", "~", "--dry-run")
    assert (result.returncode, result.stderr) == (0, "")
    assert not (workdir / "~").exists()
    nobody = ("--task", "~nobody-here/rows.csv", "--text", "t", "--label", "l")
    result = sclsearch("tune", "--method", "scl", *nobody, "--space", "~/mine.yaml")
    assert "~nobody-here/rows.csv" in result.stderr
    assert result.returncode == 2
    monkeypatch.setenv("SCLSEARCH_DATA", "~")
    assert data_folder(None) == workdir / "encoder"


@pytest.mark.parametrize("name", [command.__name__ for command in COMMANDS])
def test_no_word_of_a_help_is_cut_at_80_columns(sclsearch: Call, name: str) -> None:
    assert re.findall(r"\S*\S…", sclsearch(name, "--help").stdout) == []


def test_square_brackets_of_an_error_are_printed_as_text(sclsearch: Call) -> None:
    assert "Unknown rule '[red]'." in sclsearch("show", "mine", "--rule", "[red]").stderr


def test_a_full_disk_is_one_message_and_a_bug_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def raising(error: Exception) -> Callable[[], None]:
        def app() -> None:
            raise error

        return app

    full = OSError(errno.ENOSPC, "No space left on device", "/there/runs")
    monkeypatch.setattr(cli, "app", raising(full))
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "/there/runs: cannot be read or written: No space left on device. Fix that and run the "
        "same command again; finished seed runs are not lost.\n"
    )
    monkeypatch.setattr(cli, "app", raising(FileNotFoundError(errno.ENOENT, "a bug")))
    with pytest.raises(FileNotFoundError):
        cli.main()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.2, 0.5, 1.0, 2.0])
def test_ctrl_c_ends_a_command_with_one_line_at_any_time(seconds: float, workdir: Path) -> None:
    command = [sys.executable, "-c", f"print('up', flush=True); {ENTRY}", *SEARCH]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    # The signal may also end the process directly; a shell then shows 130, too.
    assert process.returncode in {INTERRUPTED, -signal.SIGINT}
    assert stderr.splitlines() == [STOPPED]


def test_help_shows_the_first_options_and_help_all_every_option(sclsearch: Call) -> None:
    short, long = (sclsearch("tune", option).stdout for option in ("--help", "--help-all"))
    assert "--race" in short
    assert "--help-all" in short
    assert "--sampler" not in short
    assert "--sampler" in long
    assert len(short.splitlines()) <= 90


def test_the_storage_may_be_set_in_the_environment(
    sclsearch: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCLSEARCH_STORAGE", "elsewhere")
    assert "elsewhere" in sclsearch("ls", "studies").stderr
