"""Tests of lookup errors, which suggest the nearest name and list all names."""

import pytest

from sclsearch.errors import SclsearchError, lookup, suggestion

TABLE = {"supcl-seq": 3, "scl": 2, "ce": 1}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sc1", " Did you mean 'scl'?"),
        ("supcl_seq", " Did you mean 'supcl-seq'?"),
        ("xyzzy", ""),
    ],
)
def test_the_error_suggests_the_nearest_name_and_lists_all_names(name: str, hint: str) -> None:
    assert lookup(TABLE, "scl", "method") == 2
    with pytest.raises(SclsearchError) as error:
        lookup(TABLE, name, "method")
    assert str(error.value) == f"Unknown method {name!r}.{hint} Known: ce, scl, supcl-seq."


def test_only_the_nearest_of_several_names_is_suggested_and_no_names_are_none() -> None:
    known = ["tau2", "tau", "lam"]
    assert suggestion("taus", known) == " Did you mean 'tau'? Known: lam, tau, tau2."
    assert suggestion("any", iter(())) == " Known: none."
