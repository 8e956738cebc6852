"""The table of methods can be listed without torch, and a wrong name gets the right one."""

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
    """Returns the summaries, and the heavy packages that a fresh Python has loaded for them."""
    done = subprocess.run([sys.executable, "-c", LISTING], capture_output=True, check=True)
    summaries, loaded = json.loads(done.stdout)
    return summaries, loaded


def test_methods_are_listed_without_torch(listing: tuple[dict[str, str], list[str]]) -> None:
    assert listing[1] == []


def test_every_method_has_one_sentence(listing: tuple[dict[str, str], list[str]]) -> None:
    assert list(listing[0]) == list(METHODS)
    for name, summary in listing[0].items():
        assert (method_class(name).__doc__ or "").startswith(f"{summary}\n")
        assert summary.endswith(".")
        assert len(summary) > 20
    assert listing[0] == method_summaries()


@pytest.mark.parametrize(
    ("wrong", "right"), [("sc1", "scl"), ("supcl_seq", "supcl-seq"), ("CE", "ce"), ("xyz", None)]
)
def test_a_wrong_name_is_answered_with_the_nearest_and_all(wrong: str, right: str | None) -> None:
    with pytest.raises(SclsearchError) as caught:
        method_class(wrong)
    question = f" Did you mean '{right}'?" if right else ""
    assert str(caught.value) == (
        f"Unknown method '{wrong}'.{question} Known: {', '.join(sorted(METHODS))}."
    )
