"""Tests of the shipped search spaces: validity, published values and headers."""

import pytest

from sclsearch.methods import METHODS, method_class
from sclsearch.methods.fields import build
from sclsearch.spaces.load import (
    find_space,
    load_space,
    shipped_spaces,
    space_files,
    space_summaries,
)

NAMES = [f"{path.parent.name}/{path.stem}" for path in space_files()]
OF_PAPERS = [name for name in NAMES if not name.endswith("/practical")]
GLUE = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli")


def test_methods_have_both_spaces_and_supcl_seq_has_one_for_each_glue_task() -> None:
    assert {f"{method}/{kind}" for method in METHODS for kind in ("paper", "practical")} <= {*NAMES}
    assert {f"supcl-seq/{task}" for task in GLUE} <= {*NAMES}
    assert sorted(space_summaries()) == sorted(NAMES)
    assert all(space_summaries().values())


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_space_is_valid_and_has_published_configurations(name: str) -> None:
    method = name.partition("/")[0]
    space = load_space(shipped_spaces() / f"{name}.yaml", method)
    assert space.published
    for values in space.published:
        build(method_class(method), {**space.fixed, **values}, space.file)


MOST_TRIED = 60  # a header proposes at most so many configurations


@pytest.mark.parametrize("name", OF_PAPERS)
def test_a_header_shows_the_command_and_the_size_of_the_space(name: str) -> None:
    path = shipped_spaces() / f"{name}.yaml"
    method, task = path.parent.name, path.stem
    size = load_space(path, method).size()
    header = path.read_text(encoding="utf-8").partition("\nmethod:")[0]
    assert f"#   sclsearch tune --method {method} --task " in header
    assert size is not None
    tried = min(size, MOST_TRIED)
    assert f" --configs {tried}\n" in header
    share = f"{tried} of {size}" if tried < size else str(size)
    assert f"# Cost: {share} configurations x " in header
    assert task == "paper" or f" --task {task} " in header


def test_scl_searches_the_24_points_of_the_iclr_grid() -> None:
    space = load_space(find_space("scl", "cola"), "scl")
    assert space.size() == len(list(space.grid())) == 24
    assert space.published == ({"tau": 0.3, "lam": 0.9},)
