"""Tests of the table of methods: listed without torch, with a suggestion for wrong names."""

import json
import subprocess
import sys

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class, method_summaries

LISTING = """
import json, sys
from sclsearch.methods import method_summaries
summaries = method_summaries()
print(json.dumps([summaries, sorted({"torch", "transformers", "pydantic"} & set(sys.modules))]))
"""


@pytest.fixture(scope="module")
def listing() -> tuple[dict[str, str], list[str]]:
    """Return the summaries and the slow packages that a new Python process loads for them."""
    done = subprocess.run([sys.executable, "-c", LISTING], capture_output=True, check=True)
    summaries, loaded = json.loads(done.stdout)
    return summaries, loaded


def test_methods_are_listed_without_torch(listing: tuple[dict[str, str], list[str]]) -> None:
    assert listing[1] == []


def test_every_summary_is_the_first_sentence_of_a_docstring(
    listing: tuple[dict[str, str], list[str]],
) -> None:
    assert list(listing[0]) == list(METHODS)
    for name, summary in listing[0].items():
        assert (method_class(name).__doc__ or "").startswith(f"{summary}\n")
        assert summary.endswith(".")
        assert len(summary) > 20
    assert listing[0] == method_summaries()


def test_the_error_of_an_unknown_name_suggests_the_nearest_and_lists_all() -> None:
    with pytest.raises(SclsearchError) as caught:
        method_class("supcl_seq")
    listed = ", ".join(sorted(METHODS))
    assert str(caught.value) == (
        f"Unknown method 'supcl_seq'. Did you mean 'supcl-seq'? Known: {listed}."
    )
