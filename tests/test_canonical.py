"""Tests of hashes of canonical JSON, and of seeds, which equal those of earlier versions."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.canonical import canonical, digest, file_digest
from sclsearch.randomness import seed_for, stream

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
ARGUMENTS = st.tuples(st.integers(-(2**70), 2**70), st.text("abc1/τ"))


def test_the_text_has_sorted_keys_and_no_whitespace_and_the_hash_is_its_sha_256() -> None:
    text = '{"a":0.5,"b":[1,{"a":true,"z":null}],"τ":"ä"}'
    value = {"b": (1, {"z": None, "a": True}), "a": 0.5, "τ": "ä"}
    assert canonical(value) == text
    assert digest(value) == hashlib.sha256(text.encode()).hexdigest()


@given(table=st.dictionaries(st.text(), SCALARS, max_size=8))
def test_the_text_is_read_back_exactly_and_the_hash_ignores_the_order_of_keys(table: Any) -> None:
    assert digest({name: table[name] for name in reversed(table)}) == digest(table)
    assert repr(json.loads(canonical(table))) == repr({name: table[name] for name in sorted(table)})


@pytest.mark.parametrize("value", [math.nan, math.inf, Path("a")])
def test_values_without_a_json_form_are_errors(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        canonical({"loss": [value]})


def test_values_that_differ_have_different_hashes() -> None:
    pairs: list[tuple[object, object]] = [(1, 1.0), (True, 1), (None, "null"), ("1", 1), ([], {})]
    for one, other in pairs:
        assert digest(one) != digest(other)


def test_the_file_digest_is_the_sha_256_of_the_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "weights").write_bytes(content)
    assert file_digest(tmp_path / "weights") == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("seed", "purpose", "expected"),
    [
        (0, "order", 5_231_958_647_509_549_229),
        (1, "order", 620_558_406_644_582_515),
        (0, "", 1_151_662_994_310_453_691),
        (-1, "τ", 2_919_109_330_901_963_349),
    ],
)
def test_seeds_equal_those_of_earlier_versions(seed: int, purpose: str, expected: int) -> None:
    assert seed_for(seed, purpose) == expected


@given(one=ARGUMENTS, other=ARGUMENTS)
def test_seeds_are_below_2_63_and_differ_for_different_arguments(
    one: tuple[int, str], other: tuple[int, str]
) -> None:
    assert 0 <= seed_for(*one) < 2**63
    assert (seed_for(*one) == seed_for(*other)) == (one == other)


def test_streams_equal_those_of_earlier_versions_whatever_others_have_drawn() -> None:
    stream(0, "noise").random(100)
    assert stream(3, "order").integers(0, 1000, 5).tolist() == [175, 630, 65, 434, 468]
