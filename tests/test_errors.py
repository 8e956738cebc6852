"""A wrong name is answered with the nearest right one and with all there are."""

import pytest

from sclsearch.errors import SclsearchError, lookup, suggestion

TABLE = {"supcl-seq": 3, "scl": 2, "ce": 1}


def test_a_known_name_is_found() -> None:
    assert lookup(TABLE, "scl", "method") == 2


@pytest.mark.parametrize(
    ("name", "nearest"), [("sc1", "scl"), ("SupCL-Seq", "supcl-seq"), ("supcl_seq", "supcl-seq")]
)
def test_an_unknown_name_is_answered_with_the_nearest_and_all_in_order(
    name: str, nearest: str
) -> None:
    with pytest.raises(SclsearchError) as error:
        lookup(TABLE, name, "method")
    assert str(error.value) == (
        f"Unknown method {name!r}. Did you mean {nearest!r}? Known: ce, scl, supcl-seq."
    )


def test_capitals_do_not_hide_which_name_is_meant() -> None:
    with pytest.raises(SclsearchError, match="Did you mean 'cola'"):
        lookup({"cola": 1, "rte": 2}, "CoLA", "task")


def test_a_name_that_is_near_to_none_gets_no_question() -> None:
    with pytest.raises(SclsearchError) as error:
        lookup(TABLE, "xyzzy", "method")
    assert str(error.value) == "Unknown method 'xyzzy'. Known: ce, scl, supcl-seq."


def test_only_one_of_several_near_names_is_asked_for() -> None:
    assert (
        suggestion("taus", ["tau2", "tau", "lam"]) == " Did you mean 'tau'? Known: lam, tau, tau2."
    )


def test_where_there_are_no_names_this_is_said() -> None:
    assert suggestion("any", iter(())) == " Known: none."
