"""Tests of lookup errors, which suggest the nearest name and list all names."""

import pytest

from sclsearch.errors import SclsearchError, lookup, suggestion

TABLE = {"supcl-seq": 3, "scl": 2, "ce": 1}


def test_lookup_returns_the_value_of_a_known_name() -> None:
    assert lookup(TABLE, "scl", "method") == 2


@pytest.mark.parametrize(
    ("name", "nearest"), [("sc1", "scl"), ("SupCL-Seq", "supcl-seq"), ("supcl_seq", "supcl-seq")]
)
def test_the_error_suggests_the_nearest_name_and_lists_all_names(name: str, nearest: str) -> None:
    with pytest.raises(SclsearchError) as error:
        lookup(TABLE, name, "method")
    assert str(error.value) == (
        f"Unknown method {name!r}. Did you mean {nearest!r}? Known: ce, scl, supcl-seq."
    )


def test_a_name_unlike_all_others_has_no_suggestion() -> None:
    with pytest.raises(SclsearchError) as error:
        lookup(TABLE, "xyzzy", "method")
    assert str(error.value) == "Unknown method 'xyzzy'. Known: ce, scl, supcl-seq."


def test_only_the_nearest_of_several_names_is_suggested() -> None:
    assert (
        suggestion("taus", ["tau2", "tau", "lam"]) == " Did you mean 'tau'? Known: lam, tau, tau2."
    )


def test_an_empty_table_is_listed_as_none() -> None:
    assert suggestion("any", iter(())) == " Known: none."
