"""Tests of the practical spaces: what depends on the encoder and on the texts."""

from typing import Any

import pytest

from sclsearch.encoders.models import EncoderTraits
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.fields import build
from sclsearch.spaces.load import covering_length, load_space, practical_file, practical_space
from sclsearch.spaces.space import Choice, Range, Space

SMALL = EncoderTraits(384, 6, "bert", 512, pooler=True, sentence_pooling="mean")
LARGE = EncoderTraits(1024, 24, "roberta", 512, pooler=False)


def practical(method: str, traits: EncoderTraits, max_length: int = 48) -> Space:
    space = load_space(practical_file(method), method)
    return practical_space(space, method_class(method), traits, max_length)


@pytest.mark.parametrize("method", METHODS)
def test_all_methods_search_the_same_learning_rates_around_the_start(method: str) -> None:
    for traits in (SMALL, LARGE):
        space, start = practical(method, traits), traits.learning_rate
        searched = space.parameters["learning_rate"]
        assert isinstance(searched, Range)
        assert (searched.low, searched.high) == pytest.approx((start / 5, start * 3), rel=0.03)
        assert space.published[0]["learning_rate"] == start
        assert space.fixed["max_length"] == 48
        assert space.start == "start"
        for values in space.published:
            assert space.contains(values)
            build(method_class(method), {**space.fixed, **values}, space.file)


@pytest.mark.parametrize(
    ("kind", "pooler", "trained", "pooling"),
    [
        ("bert", True, "mean", "mean"),
        ("mpnet", False, "cls", "cls_raw"),
        ("bert", True, "", "cls_pooled"),
        ("roberta", False, "", "head_hidden"),
        ("electra", False, "", "cls_raw"),
        ("gpt2", False, "", "mean"),
    ],
)
def test_a_head_reads_what_the_encoder_was_trained_for_or_what_its_architecture_reads(
    kind: str, pooler: bool, trained: Any, pooling: str
) -> None:
    traits = EncoderTraits(768, 12, kind, 512, pooler=pooler, sentence_pooling=trained)
    fixed = practical("scl", traits).fixed
    assert (fixed["pooling"], fixed["scl_features"]) == (pooling, "mean")
    assert practical("supcl-seq", traits).fixed["pooling"] == "mean"


def test_the_start_falls_with_the_square_of_the_width() -> None:
    starts = {
        width: EncoderTraits(width, 6, "bert", None, pooler=False).learning_rate
        for width in (64, 256, 384, 768, 1024)
    }
    assert starts == {64: 1e-3, 256: 2.3e-4, 384: 1e-4, 768: 2.5e-5, 1024: 1.4e-5}


@pytest.mark.parametrize(("width", "heads"), [(384, (1, 2, 3, 4, 6, 8, 12)), (256, (1, 2, 4, 8))])
def test_the_heads_of_lacon_divide_the_width(width: int, heads: tuple[int, ...]) -> None:
    space = practical("lacon", EncoderTraits(width, 6, "bert", None, pooler=False))
    assert space.parameters["heads"] == Choice(heads)


@pytest.mark.parametrize(
    ("lengths", "positions", "expected"),
    [
        ([5] * 100, 512, 16),
        ([20] * 95 + [500] * 5, 512, 512),
        ([20] * 96 + [500] * 4, 512, 24),
        ([600] * 10, 512, 512),
        ([600] * 10, None, 768),
        ([3], 8, 8),
    ],
)
def test_the_maximum_length_covers_95_percent_of_the_texts(
    lengths: list[int], positions: int | None, expected: int
) -> None:
    assert covering_length(lengths, positions) == expected
