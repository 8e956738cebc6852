"""A user's own method: the one that README shows, and files that hold none."""

from pathlib import Path

import pytest

from sclsearch.canonical import file_digest
from sclsearch.errors import SclsearchError
from sclsearch.methods import check_method_name, find_method
from sclsearch.methods.custom import load_custom_method
from sclsearch.methods.fields import build
from sclsearch.methods.scl import SCL

FROZEN = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Mine:\n    {body}\n"
NO_MEMBER = (
    "--method {place}: Mine.{name} must be there, as sclsearch.methods.base.Method has it, but it "
    "is missing"
)


@pytest.fixture
def mine(custom_method: str, tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(custom_method, encoding="utf-8")
    return file


def test_a_method_of_a_file_has_the_name_of_its_class_and_the_digest_of_its_file(
    mine: Path,
) -> None:
    found = find_method(f"{mine}:Smoothed")
    assert (found.name, found.place) == ("Smoothed", f"{mine}:Smoothed")
    assert found.digest == file_digest(mine)
    assert find_method(found.kind) == found
    method, training = build(found.kind, {"smoothing": 0.3, "epochs": 2}, "a test")
    assert (method.smoothing, training.epochs) == (0.3, 2)  # type: ignore[attr-defined]


def test_a_field_of_an_own_method_has_the_bounds_of_its_type(mine: Path) -> None:
    with pytest.raises(SclsearchError, match=r"^a test: smoothing: .*less than or equal to 1"):
        build(load_custom_method(f"{mine}:Smoothed"), {"smoothing": 1.5}, "a test")


def test_a_shipped_class_is_found_under_its_name() -> None:
    assert find_method(SCL) == find_method("scl")
    assert find_method(SCL).digest == ""


@pytest.mark.parametrize("name", ["scl", "ce"])
def test_a_class_named_like_a_shipped_method_is_refused(
    custom_method: str, tmp_path: Path, name: str
) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text(custom_method.replace("class Smoothed", f"class {name}"), encoding="utf-8")
    with pytest.raises(SclsearchError) as caught:
        find_method(f"{file}:{name}")
    assert str(caught.value) == (
        f"--method {file}:{name}: a method of your own must have a name of its own, but {name} is "
        "one of sclsearch's. Rename the class."
    )


def test_what_is_neither_a_name_nor_a_class_is_refused() -> None:
    with pytest.raises(SclsearchError, match=r"^--method: it must be a name, .* but it is 5\.$"):
        find_method(5)  # type: ignore[arg-type]


def test_a_name_is_checked_without_importing_the_file() -> None:
    check_method_name("./not-there.py:Mine")
    with pytest.raises(SclsearchError, match=r"^Unknown method 'mine:Mine'"):
        check_method_name("mine:Mine")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    place = f"{tmp_path}/mine.py:Mine"
    with pytest.raises(SclsearchError) as caught:
        find_method(place)
    assert str(caught.value) == (
        f"--method {place}: {tmp_path}/mine.py must be a Python file, but there is none. "
        "Write FILE.py:CLASS."
    )


def test_a_class_that_is_not_there_is_answered_with_the_nearest(mine: Path) -> None:
    with pytest.raises(SclsearchError) as caught:
        find_method(f"{mine}:Smooth")
    assert str(caught.value) == (
        f"--method {mine}:Smooth: 'Smooth' must be a class of {mine}, but it is not. "
        "Did you mean 'Smoothed'? Known: Smoothed."
    )


def test_a_file_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("import math\n\nclass Mine:\n    size = 1 / 0\n", encoding="utf-8")
    with pytest.raises(SclsearchError) as caught:
        find_method(f"{file}:Mine")
    assert str(caught.value) == (
        f"--method {file}:Mine: broken.py must import without errors, but: "
        "ZeroDivisionError: division by zero (line 4)"
    )


@pytest.mark.parametrize(
    ("line", "fault"),
    [("size = 1 +", "SyntaxError: invalid syntax"), ("json.loads('')", "JSONDecodeError: ")],
)
def test_the_line_is_that_of_the_file(tmp_path: Path, line: str, fault: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(f"import json\n\n{line}\n\nrest = 1\n", encoding="utf-8")
    with pytest.raises(SclsearchError, match=rf"{fault}.* \(line 3\)$"):
        find_method(f"{file}:Mine")


def test_all_that_a_class_lacks_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    body = "protocol = few_shot = 'plain'\n    check = stages = scores = None"
    file.write_text(FROZEN.format(body=body), encoding="utf-8")
    place = f"{file}:Mine"
    with pytest.raises(SclsearchError) as caught:
        find_method(place)
    lacking = [NO_MEMBER.format(place=place, name=name) for name in ("regression", "training")]
    assert str(caught.value).splitlines() == lacking
    file.write_text("class Mine:\n    pass\n", encoding="utf-8")
    with pytest.raises(SclsearchError, match=r"Mine must be a frozen dataclass, but it is not$"):
        find_method(place)


def test_a_field_without_a_default_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    body = (
        "regression = protocol = few_shot = training = check = stages = scores = None\n    a: int"
    )
    file.write_text(FROZEN.format(body=body), encoding="utf-8")
    with pytest.raises(SclsearchError, match=r"Mine\.a must have a default, since .* it has none$"):
        find_method(f"{file}:Mine")


def test_a_class_without_a_file_is_refused() -> None:
    kind = type("Mine", (), {"__module__": "nowhere"})
    with pytest.raises(SclsearchError, match=r"^method Mine: it must be written in a file"):
        find_method(kind)
