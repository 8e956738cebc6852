"""The demo task is what its generator makes: balanced, without words that betray the label."""

import gzip
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from sclsearch.tasks.demo import DEMO, load_demo
from tools.demo.__main__ import HARD, TARGET, content, pairs
from tools.demo.grammar import PHENOMENA
from tools.demo.words import words_of

SPLITS = ("train", "validation", "test")
DIGEST = "e4a362c9a35dea046f3b4fd587f390a7017363a1a781ff5cc02926f128fde915"
FUNCTION_WORDS = (
    "and any are as behind both did each either ever has he her herself him himself in is near no "
    "not or several she than that the themselves these this those to very was what when why will"
)


def sentences(split: str) -> list[str]:
    return [text for (text,) in load_demo().splits[split].texts]


def vocabulary(split: str) -> set[str]:
    return {word for text in sentences(split) for word in text.lower().rstrip(".?").split()}


def test_the_task_is_described_as_its_rows_are() -> None:
    task = load_demo()
    assert task.task is DEMO
    assert (DEMO.name, DEMO.metric, DEMO.protocol) == ("demo", "accuracy", "plain")
    assert DEMO.labels == ("unacceptable", "acceptable")
    assert task.source == "sclsearch itself"
    assert tuple(task.splits) == SPLITS


@pytest.mark.parametrize(("split", "rows"), [("train", 2000), ("validation", 500), ("test", 500)])
def test_splits_have_the_stated_size_and_balanced_classes(split: str, rows: int) -> None:
    y = load_demo().splits[split].y
    assert y.dtype == np.int64
    assert np.bincount(y).tolist() == [rows // 2, rows // 2]


def test_the_rows_are_pinned() -> None:
    assert load_demo().digest == DIGEST


def test_the_rows_are_those_of_the_generator() -> None:
    assert gzip.decompress(TARGET.read_bytes()) == content()


def test_no_sentence_comes_twice() -> None:
    counts = Counter(text for split in SPLITS for text in sentences(split))
    assert set(counts.values()) == {1}


@pytest.mark.parametrize(("one", "other"), list(combinations(SPLITS, 2)))
def test_two_splits_share_function_words_alone(one: str, other: str) -> None:
    assert vocabulary(one) & vocabulary(other) <= set(FUNCTION_WORDS.split())


def test_a_content_word_stands_once_in_the_lists() -> None:
    words = [word for split in SPLITS for kind in words_of(split).values() for word in kind]
    assert [word for word, count in Counter(words).items() if count > 1] == []


@pytest.mark.parametrize("split", SPLITS)
def test_the_sides_of_a_pair_differ_in_few_words_or_in_order_alone(split: str) -> None:
    for pair in pairs(split):
        good, bad = (Counter(text.lower().split()) for text in (pair.acceptable, pair.unacceptable))
        assert pair.acceptable != pair.unacceptable
        assert ((good - bad) + (bad - good)).total() <= 4, pair


@pytest.mark.parametrize("split", SPLITS)
def test_sentences_are_short_and_written_as_such(split: str) -> None:
    for text in sentences(split):
        assert 5 <= len(text.split()) <= 14, text
        assert text[0].isupper(), text
        assert text[-1] in ".?", text
        assert text == " ".join(text.split()), text


@pytest.mark.parametrize("split", SPLITS)
def test_phenomena_have_equal_shares_but_the_hard_ones_half_of_it(split: str) -> None:
    counts = Counter(pair.phenomenon for pair in pairs(split))
    assert counts.keys() == PHENOMENA.keys()
    share = len(pairs(split)) / (2 * len(PHENOMENA) - len(HARD))
    for phenomenon, count in counts.items():
        assert count == pytest.approx(share * (1 if phenomenon in HARD else 2), abs=1.5)


def test_the_first_training_rows_are_a_fair_sample() -> None:
    assert 0.4 <= load_demo().splits["train"].y[:200].mean() <= 0.6
    sides = {pair.acceptable: pair for pair in pairs("train")}
    first = set(sentences("train")[:200])
    assert {sides[text].phenomenon for text in first & sides.keys()} == PHENOMENA.keys()


@pytest.mark.slow
def test_the_words_without_their_order_do_not_betray_the_label() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    splits = load_demo().splits
    counter = CountVectorizer(token_pattern=r"\w+")
    model = LogisticRegression(max_iter=1000)
    model.fit(counter.fit_transform(sentences("train")), splits["train"].y)
    for split in ("validation", "test"):
        assert model.score(counter.transform(sentences(split)), splits[split].y) < 0.6
