"""Custom methods: the example of README, and files without a valid method."""

from pathlib import Path

import pytest

from sclsearch.canonical import file_digest
from sclsearch.errors import SclsearchError
from sclsearch.methods import check_method_name, find_method
from sclsearch.methods.custom import load_custom_method
from sclsearch.methods.fields import build
from sclsearch.methods.scl import SCL

FROZEN = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Mine:\n    {body}\n"


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


def test_a_field_of_a_custom_method_has_the_bounds_of_its_type(mine: Path) -> None:
    with pytest.raises(SclsearchError, match=r"^a test: smoothing: must be at most 1, got 1.5"):
        build(load_custom_method(f"{mine}:Smoothed"), {"smoothing": 1.5}, "a test")


def test_a_built_in_class_is_found_like_its_name() -> None:
    assert find_method(SCL) == find_method("scl")
    assert find_method(SCL).digest == ""


@pytest.mark.parametrize("name", ["scl", "ce"])
def test_a_class_with_the_name_of_a_built_in_method_is_an_error(
    custom_method: str, tmp_path: Path, name: str
) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text(custom_method.replace("class Smoothed", f"class {name}"), encoding="utf-8")
    with pytest.raises(SclsearchError, match=rf"^--method {file}:{name}: .* built-in method"):
        find_method(f"{file}:{name}")


def test_a_method_that_is_neither_name_nor_class_is_an_error() -> None:
    with pytest.raises(SclsearchError, match=r"^--method: .* got 5\.$"):
        find_method(5)  # type: ignore[arg-type]


def test_a_name_is_checked_without_importing_the_file() -> None:
    check_method_name("./not-there.py:Mine")
    with pytest.raises(SclsearchError, match=r"^Unknown method 'mine:Mine'"):
        check_method_name("mine:Mine")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    place = f"{tmp_path}/mine.py:Mine"
    with pytest.raises(SclsearchError, match=f"^--method {place}: there is no file "):
        find_method(place)


def test_a_missing_class_is_an_error_with_the_nearest_name(mine: Path) -> None:
    with pytest.raises(SclsearchError, match=rf"^--method {mine}:Smooth: .*'Smoothed'\? Known"):
        find_method(f"{mine}:Smooth")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("size = 1 / 0", "ZeroDivisionError: division by zero"),
        ("size = 1 +", "SyntaxError: invalid syntax"),
    ],
)
def test_an_import_error_names_the_line_of_the_file(tmp_path: Path, line: str, fault: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(f"first = 0\n\n{line}\n\nrest = 1\n", encoding="utf-8")
    with pytest.raises(SclsearchError, match=rf"^--method {file}:Mine: .*{fault}.* \(line 3\)$"):
        find_method(f"{file}:Mine")


def test_all_missing_members_are_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    members = "protocol = few_shot = 'plain'\n    check = stages = scores = None"
    file.write_text(FROZEN.format(body=members), encoding="utf-8")
    with pytest.raises(SclsearchError) as caught:
        find_method(f"{file}:Mine")
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"--method {file}:Mine: Mine.regression is missing")
    assert second.startswith(f"--method {file}:Mine: Mine.training is missing")
    complete = f"{members}\n    regression, training = False, dict()"
    file.write_text(FROZEN.format(body=complete), encoding="utf-8")
    assert find_method(f"{file}:Mine").name == "Mine"
    file.write_text("class Mine:\n    pass\n", encoding="utf-8")
    with pytest.raises(SclsearchError, match="Mine is not a frozen dataclass"):
        find_method(f"{file}:Mine")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("a: int", r"Mine\.a has no default"),
        ("epochs: int = 3", r"Mine\.epochs is a field of every method"),
        ("alpha = 0.5", r"Mine\.alpha has no type, .* Write alpha: float = 0\.5, or ClassVar"),
        ("def term(self, *_): return {}", r"Mine\.term is never called\. Did you mean terms\?"),
    ],
)
def test_a_member_that_the_engine_would_ignore_or_cannot_set_is_an_error(
    tmp_path: Path, body: str, fault: str
) -> None:
    file = tmp_path / "mine.py"
    text = FROZEN.format(body=body).replace("class Mine", "class Mine(Method)")
    file.write_text(f"from sclsearch.methods.base import Method\n{text}", encoding="utf-8")
    with pytest.raises(SclsearchError, match=fault):
        find_method(f"{file}:Mine")


def test_a_class_without_a_file_is_an_error() -> None:
    kind = type("Mine", (), {"__module__": "nowhere"})
    with pytest.raises(SclsearchError, match=r"^method Mine: has no source file"):
        find_method(kind)
