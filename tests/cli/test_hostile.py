"""Tests of nonsense options, control characters and missing permissions in any command."""

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import SEARCH
from tests.conftest import Call

HUGE = "9" * 400
RED = "\x1b[31mred\x9b\u202e"
REFUSED = [
    ("predict model rows.csv --batch-size", HUGE),
    ("predict model rows.csv --device", RED),
    ("predict model", "pipe.csv"),
    ("export mine out --refit all --seeds", HUGE),
    ("export mine out --push", RED),
    ("confirm mine --seeds", HUGE),
    ("train --method scl --task demo --model", "loop"),
    ("reproduce lacon/table-6 --cells", "x" * 9_999),
]


@pytest.mark.parametrize(("command", "value"), REFUSED, ids=[one for one, _ in REFUSED])
def test_a_nonsense_value_is_refused_in_one_short_line(
    sclsearch: Call, workdir: Path, command: str, value: str
) -> None:
    (workdir / "loop").symlink_to("loop")
    os.mkfifo(workdir / "pipe.csv")
    result = sclsearch(*command.split(), value)
    result.assert_refused()
    assert len(result.stderr) < 2_500
    assert not set(RED[0] + RED[-2:]) & set(result.stderr)


def test_control_characters_of_names_and_data_reach_no_terminal(
    sclsearch: Call, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    rows = "".join(f"a {number},{RED}\nb {number},black\n" for number in range(30))
    (workdir / "own.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    own = ("--task", "own.csv", "--text", "text", "--label", "label")
    for arguments in (
        (*SEARCH, *own, "--dry-run"),
        (*SEARCH, "--data-dir", RED),
    ):
        result = sclsearch(*arguments)
        shown = result.stdout + result.stderr
        assert r"\x1b[31mred\x9b\u202e" in shown
        assert re.findall(r"[^\n\t -~\xa0-\u2029\u2030-\uffff]", shown) == []


@pytest.fixture
def bound_by_permissions() -> Iterator[None]:
    """Let the permissions of files bind this thread, even if root runs it."""
    libc, overrides = ctypes.CDLL(None), 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    before = sets[0]
    sets[0] &= ~overrides
    libc.capset(header, sets)
    yield
    sets[0] = before
    libc.capset(header, sets)


@pytest.mark.usefixtures("bound_by_permissions")
def test_a_missing_permission_is_named_with_its_folder_or_database(
    sclsearch: Call, storage: Path, finished: tuple[str, ...]
) -> None:
    folder, database = storage / "studies/mine", storage / "mlflow.db"
    folder.chmod(0o555)
    refused = sclsearch(*finished)
    folder.chmod(0o755)
    user = f"of user {os.getuid()}"
    refused.assert_refused(f"{folder}: cannot be", f"its permissions are dr-xr-xr-x {user}.")
    database.touch(0o444)
    sclsearch("ui").assert_refused(f"{database} must be writable", f"-r--r--r-- {user}")
    database.chmod(0o644)
    storage.chmod(0o555)
    sclsearch(*finished).assert_refused("is not a folder that can be written: ", " denied")
    sclsearch("ui").assert_refused(f"--tracking: {storage} must be writable", f"r-x {user}")
    storage.chmod(0o755)
