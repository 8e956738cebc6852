"""EDA writes what stands in where there is no file, and has no use for options."""

from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation.base import Options
from sclsearch.papers.augmentation.eda import EDA
from sclsearch.tasks.paraphrases import EDA_NOTE, paraphrase_source

TEXTS = ["A film about two brothers.", "One", "一部很好的电影"]


def test_its_paraphrases_are_those_without_a_file() -> None:
    found = EDA(Options()).paraphrases(TEXTS)
    expected = paraphrase_source(None).views([(text,) for text in TEXTS])
    assert [((first,), (second,)) for first, second in found] == [*expected.values()]


def test_the_header_says_that_it_is_no_translation() -> None:
    assert EDA(Options()).header()["note"] == EDA_NOTE


def test_all_options_that_it_has_no_use_for_are_named() -> None:
    with pytest.raises(SclsearchError) as raised:
        EDA(Options(pivot="de", seed=0, models=Path("opus")))
    assert [line.partition(":")[0] for line in str(raised.value).splitlines()] == [
        "--pivot",
        "--seed",
        "--models",
    ]


def test_further_paraphrases_leave_the_first_two_as_they_are() -> None:
    two, five = (EDA(Options(views=views)).paraphrases(TEXTS) for views in (2, 5))
    assert [views[:2] for views in five] == two
    assert {len(views) for views in five} == {5}
