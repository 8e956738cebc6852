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
    assert suggestion("taus", ["tau2", "tau"]) == " Did you mean 'tau'? Known: tau, tau2."
    assert suggestion("lr", ["lam", "learning_rate"]).startswith(" Did you mean 'learning_rate'?")
    assert suggestion("any", iter(())) == " Known: none."
