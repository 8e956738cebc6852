"""Test of tools/docs_examples.py, which compares the output of commands with the pages."""

from pathlib import Path

import pytest

from tools.docs_examples import check

PAGE = """Text.

```console
$ printf '%s\\n' \\
    one two 0.85725 0.9918 several lines
one
two
0.857249
0.9918
…
lines
$ echo three; echo 4:05
three
2:14
```
"""


@pytest.mark.parametrize(
    ("before", "after"), [("two\n0", "too\n0"), ("0.9918\n", "0.9917\n"), ("three\n2", "2")]
)
def test_a_page_with_other_output_than_times_or_last_digits_is_reported_and_recorded(
    before: str, after: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert check(page, write=False)
    page.write_text(PAGE.replace(before, after), encoding="utf-8")
    assert not check(page, write=False)
    assert f"-{after.splitlines()[0]}" in capsys.readouterr().out
    assert check(page, write=True)
    assert check(page, write=False)
