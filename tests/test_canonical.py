"""Tests of canonical JSON and its hashes."""

import hashlib
import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.canonical import canonical, digest, file_digest

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FLOATS | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_keys_are_sorted_at_every_depth_without_whitespace() -> None:
    assert canonical({"b": [1, {"z": None, "a": True}], "a": 0.5, "τ": "ä"}) == (
        '{"a":0.5,"b":[1,{"a":true,"z":null}],"τ":"ä"}'
    )


@given(value=VALUES)
def test_json_reads_the_value_back(value: Any) -> None:
    assert json.loads(canonical(value)) == value


@given(number=FLOATS)
def test_floats_are_read_back_exactly(number: float) -> None:
    back = json.loads(canonical(number))
    assert isinstance(back, float)
    assert back.hex() == number.hex()


@given(
    table=st.dictionaries(st.text(), SCALARS, max_size=8),
    random=st.randoms(use_true_random=False),
)
def test_the_hash_does_not_depend_on_the_order_of_keys(table: Any, random: Random) -> None:
    names = list(table)
    random.shuffle(names)
    assert digest({name: table[name] for name in names}) == digest(table)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_errors(number: float) -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        canonical({"loss": [number]})


def test_values_of_other_types_are_errors() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        canonical({"path": Path("here")})


def test_a_tuple_is_written_as_a_list() -> None:
    assert digest((1, (2,))) == digest([1, [2]])


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (True, 1), (None, "null"), ("1", 1), ([], {}), (0.1, 0.1 + 2**-56)],
)
def test_values_that_differ_have_different_hashes(one: object, other: object) -> None:
    assert digest(one) != digest(other)


def test_the_hash_is_the_sha_256_of_the_text() -> None:
    value = {"tau": 0.3, "method": "scl"}
    assert digest(value) == hashlib.sha256(b'{"method":"scl","tau":0.3}').hexdigest()


def test_the_file_digest_is_the_sha_256_of_the_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "weights").write_bytes(content)
    assert file_digest(tmp_path / "weights") == hashlib.sha256(content).hexdigest()
