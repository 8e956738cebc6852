"""Tests of the entry point: imports, errors, help and interruption."""

import errno
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from sclsearch import cli
from sclsearch.cli import COMMANDS
from sclsearch.errors import INTERRUPTED, STOPPED
from sclsearch.tasks import data_folder
from tests.cli.conftest import SEARCH, finish_study
from tests.conftest import Call
from tests.studies import SPACE

HEAVY = {"torch", "transformers", "datasets", "pandas", "scipy", "ray", "optuna", "mlflow"}
PRINT_MODULES = """
import sys
from sclsearch.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def run(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    ["tune --help", "reproduce ls", "ls spaces", "ls models", "ls studies"],
)
def test_commands_that_only_print_import_no_slow_package_and_write_nothing(
    arguments: str, tmp_path: Path
) -> None:
    result = run(tmp_path, sys.executable, "-c", PRINT_MODULES, *arguments.split())
    assert result.returncode == 0
    *messages, modules = result.stderr.splitlines()
    assert messages in ([], ["sclsearch-storage holds no studies."])
    assert not HEAVY.intersection(modules.split())
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]


def test_command_and_module_print_the_version_and_an_error_as_one_message(tmp_path: Path) -> None:
    command = str(Path(sys.executable).with_name("sclsearch"))
    assert run(tmp_path, command, "--version").stdout == f"sclsearch {version('sclsearch')}\n"
    refused = run(tmp_path, sys.executable, "-m", "sclsearch", "rm")
    message = "studies: names none. Name one, or pass --unused.\n"
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", message)


def test_a_path_may_start_with_a_tilde(
    sclsearch: Call, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = workdir / "encoder"
    monkeypatch.setenv("HOME", str(home))
    (home / "mine.yaml").write_text(SPACE)
    (home / "rows.csv").write_text("t,l\n" + "".join(f"a {n},x\nb {n},y\n" for n in range(30)))
    own = ("--task", "~/rows.csv", "--text", "t", "--label", "l", "--space", "~/mine.yaml")
    result = sclsearch("tune", "--method", "scl", *own, "--model", "~", "--dry-run")
    assert (result.returncode, result.stderr) == (0, "")
    finish_study("scl", "mine")
    assert sclsearch("show", "mine", "--format", "csv", "--output=~/a.csv").returncode == 0
    assert (home / "a.csv").is_file()
    assert not (workdir / "~").exists()
    monkeypatch.setenv("SCLSEARCH_DATA", "~")
    assert data_folder(None) == home


@pytest.mark.parametrize("name", [command.__name__ for command in COMMANDS])
def test_every_command_has_a_help_without_cut_words_at_80_columns(
    sclsearch: Call, name: str
) -> None:
    result = sclsearch(name, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert re.findall(r"\S*\S…", result.stdout) == []
    assert "--sampler" not in result.stdout
    assert name != "tune" or "--sampler" in sclsearch(name, "--help-all").stdout
    assert name != "export" or "'sclsearch[onnx]'" in result.stdout


def test_errors_print_square_brackets_and_the_storage_may_be_set_in_the_environment(
    sclsearch: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    sclsearch("show", "mine", "--rule", "[red]").assert_refused("Unknown rule '[red]'.")
    monkeypatch.setenv("SCLSEARCH_STORAGE", "elsewhere")
    assert "elsewhere" in sclsearch("ls", "studies").stderr


def test_a_full_disk_is_one_message_and_a_bug_keeps_its_traceback(
    sclsearch: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter((errno.ENOSPC, errno.EACCES, errno.ENOENT))

    def app() -> None:
        raise OSError(next(errors), "No space left on device", "/there/runs")

    monkeypatch.setattr(cli, "app", app)
    for _ in range(2):
        sclsearch().assert_refused("/there/runs", "No space left on device", "are not lost")
    with pytest.raises(OSError, match="No space"):
        cli.main()


def test_ctrl_c_in_a_destructor_ends_the_command_too() -> None:
    entry = """
import signal, sclsearch.cli, sclsearch.__main__ as entry
class Dropping:
    def __del__(self): signal.raise_signal(signal.SIGINT)
def run(): Dropping(); signal.pause()
sclsearch.cli.main = run; entry.main()
"""
    command = [sys.executable, "-c", entry]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stderr) == (INTERRUPTED, f"{STOPPED}\n")


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.2, 2.0])
def test_ctrl_c_ends_a_command_with_one_line_at_any_time(seconds: float, workdir: Path) -> None:
    entry = "print('up', flush=True); from sclsearch.__main__ import main; main()"
    command, pipe = [sys.executable, "-c", entry, *SEARCH], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    # The signal may also end the process directly; a shell then shows 130, too.
    assert process.returncode in {INTERRUPTED, -signal.SIGINT}
    assert stderr.splitlines() == [STOPPED]
