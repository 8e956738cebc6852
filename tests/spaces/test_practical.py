"""Tests of the shipped spaces, and of what the encoder and the texts change in practical ones."""

from typing import Any

import pytest

from sclsearch.encoders.models import EncoderTraits
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.fields import build
from sclsearch.spaces.load import (
    covering_length,
    find_space,
    load_space,
    practical_file,
    practical_space,
    shipped_spaces,
    space_files,
    space_summaries,
)
from sclsearch.spaces.space import Choice, Range, Space

NAMES = [f"{path.parent.name}/{path.stem}" for path in space_files()]
OF_PAPERS = [name for name in NAMES if not name.endswith("/practical")]
MOST_TRIED = 60  # a header proposes at most so many configurations
SMALL = EncoderTraits(384, 6, "bert", 512, pooler=True, sentence_pooling="mean")
LARGE = EncoderTraits(1024, 24, "roberta", 512, pooler=False)


def practical(method: str, traits: EncoderTraits, max_length: int = 48) -> Space:
    space = load_space(practical_file(method), method)
    return practical_space(space, method_class(method), traits, max_length)


def test_methods_have_both_spaces_and_supcl_seq_has_one_for_each_glue_task() -> None:
    assert {f"{method}/{kind}" for method in METHODS for kind in ("paper", "practical")} <= {*NAMES}
    glue = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli")
    assert {f"supcl-seq/{task}" for task in glue} <= {*NAMES}
    assert {name for name, source in space_summaries().items() if source} == {*NAMES}
    scl = load_space(find_space("scl", "cola"), "scl")
    assert (scl.size(), scl.published) == (24, ({"tau": 0.3, "lam": 0.9},))


@pytest.mark.parametrize("name", OF_PAPERS)
def test_a_papers_space_is_valid_and_its_header_shows_command_and_size(name: str) -> None:
    method, _, task = name.partition("/")
    path = shipped_spaces() / f"{name}.yaml"
    space = load_space(path, method)
    assert space.published
    for values in space.published:
        build(method_class(method), {**space.fixed, **values}, space.file)
    size = space.size()
    header = path.read_text(encoding="utf-8").partition("\nmethod:")[0]
    assert f"#   sclsearch tune --method {method} --task " in header
    assert size is not None
    tried = min(size, MOST_TRIED)
    assert f" --configs {tried}\n" in header
    share = f"{tried} of {size}" if tried < size else str(size)
    assert f"# Cost: {share} configurations x " in header
    assert task == "paper" or f" --task {task} " in header


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("traits", [SMALL, LARGE], ids=["small", "large"])
def test_all_methods_search_the_same_learning_rates_around_the_start(
    method: str, traits: EncoderTraits
) -> None:
    space, start = practical(method, traits), traits.learning_rate
    searched = space.parameters["learning_rate"]
    assert isinstance(searched, Range)
    assert (searched.low, searched.high) == pytest.approx((start / 5, start * 3), rel=0.03)
    assert space.published[0]["learning_rate"] == start
    assert space.fixed["max_length"] == 48
    after = space.fixed.get("post_learning_rate", start / 2)
    assert after == pytest.approx(start / 2, rel=0.03)
    assert space.start == "start"
    for values in space.published:
        assert space.contains(values)
        build(method_class(method), {**space.fixed, **values}, space.file)


@pytest.mark.parametrize(
    ("kind", "pooler", "trained", "pooling"),
    [
        *(("bert", True, "mean", "mean"), ("mpnet", False, "cls", "cls_raw")),
        *(("bert", True, "", "cls_pooled"), ("roberta", False, "", "head_hidden")),
        *(("electra", False, "", "cls_raw"), ("gpt2", False, "", "mean")),
    ],
)
def test_a_head_reads_what_the_encoder_was_trained_for_or_what_its_architecture_reads(
    kind: str, pooler: bool, trained: Any, pooling: str
) -> None:
    traits = EncoderTraits(768, 12, kind, 512, pooler=pooler, sentence_pooling=trained)
    fixed = practical("scl", traits).fixed
    assert (fixed["pooling"], fixed["scl_features"]) == (pooling, "mean")
    assert practical("supcl-seq", traits).fixed["pooling"] == "mean"


@pytest.mark.parametrize(
    ("width", "start", "heads"),
    [(64, 1e-3, (1, 2, 4, 8)), (768, 2.5e-5, (1, 2, 3, 4, 6, 8, 12)), (1024, 1.4e-5, (1, 2, 4, 8))],
)
def test_the_start_falls_with_the_square_of_the_width_which_the_heads_of_lacon_divide(
    width: int, start: float, heads: tuple[int, ...]
) -> None:
    space = practical("lacon", EncoderTraits(width, 6, "bert", None, pooler=False))
    assert space.published[0]["learning_rate"] == start
    assert space.parameters["heads"] == Choice(heads)


def test_the_maximum_length_covers_95_percent_of_the_texts() -> None:
    for few, positions, expected in ((4, 512, 24), (5, 512, 512), (5, None, 512), (100, 64, 64)):
        assert covering_length([20] * (100 - few) + [500] * few, positions) == expected
    assert covering_length([3], 512) == 16
