"""Tests of tools/docs_examples.py, which compares the output of commands with the pages."""

from pathlib import Path

import pytest

from tools.docs_examples import check, same

PAGE = """Text.

```console
$ printf '%s\\n' \\
    one two
one
two
$ echo three; echo 4:05
three
2:14
```
"""


@pytest.mark.parametrize(
    ("recorded", "printed", "agrees"),
    [
        ("a 0.5 in 2:14\n", "a 0.5 in 0:59\n", True),
        ("a\n…\nz\n", "a\nb\nc\nz\n", True),
        ("-0.857249,-1.1026\n", "-0.85725,-1.10259\n", True),
        ("0.9917\n", "0.9918\n", False),
        ("0.9917 …\n0.5\n", "0.9917 b\n0.5\n", True),
        ("a\n", "a\nb\n", False),
    ],
)
def test_outputs_agree_apart_from_times_last_digits_and_ellipses(
    recorded: str, printed: str, agrees: bool
) -> None:
    assert same(recorded, printed) is agrees


def test_a_page_with_another_output_is_reported_and_recorded_and_a_failing_command_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert check(page, write=False)
    page.write_text(PAGE.replace("two\n$", "too\n$"), encoding="utf-8")
    assert not check(page, write=False)
    assert "-too" in capsys.readouterr().out
    assert check(page, write=True)
    assert page.read_text(encoding="utf-8") == PAGE
    page.write_text("```console\n$ exit 7\n```\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match="exit code 7"):
        check(page, write=False)
