"""EDA: paraphrases that are a pure function of the text and keep what it is made of."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.tasks import load_task
from sclsearch.tasks.eda import eda

WORDS = st.lists(st.text("abc", min_size=1, max_size=3), min_size=2, max_size=60)
TWENTY = " ".join(f"word{n}" for n in range(20))

PINNED = {
    "The film was not good, but it was long.": (
        "The film was but good, not it was long.",
        "The was not good, but it was long.",
    ),
    "我喜欢这部电影。": ("我喜欢部这电影。", "我喜欢这部电影"),
}
FURTHER = ("The film was good, but it long.", "The film was long. good, but it was not")


@pytest.mark.parametrize("text", PINNED)
def test_paraphrases_are_what_they_have_always_been(text: str) -> None:
    assert eda(text) == PINNED[text]


def test_further_paraphrases_leave_the_first_two_as_they_have_always_been() -> None:
    text = next(iter(PINNED))
    assert eda(text, 4) == (*PINNED[text], *FURTHER)


@given(WORDS, st.integers(1, 7))
def test_every_third_paraphrase_has_words_swapped_and_deleted(words: list[str], views: int) -> None:
    found = [paraphrase.split(" ") for paraphrase in eda(" ".join(words), views)]
    assert len(found) == views
    for place, paraphrase in enumerate(found):
        kept = Counter(paraphrase)
        assert (kept == Counter(words)) == (place % 3 == 0)
        assert kept <= Counter(words)


@given(WORDS)
def test_swapping_keeps_all_words_and_deletion_some_in_their_order(words: list[str]) -> None:
    swapped, deleted = (paraphrase.split(" ") for paraphrase in eda(" ".join(words)))
    assert Counter(swapped) == Counter(words)
    assert 0 < len(deleted) < len(words)
    rest = iter(words)
    assert all(word in rest for word in deleted)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_text_is_emptied_and_texts_of_two_words_get_two_paraphrases(text: str) -> None:
    swapped, deleted = eda(text)
    assert bool(swapped.strip()) == bool(deleted.strip()) == bool(text.strip())
    if len(text.split()) > 1:
        assert swapped != deleted


def test_a_tenth_of_the_words_is_swapped() -> None:
    swapped = eda(TWENTY)[0].split()
    moved = sum(new != word for new, word in zip(swapped, TWENTY.split(), strict=True))
    assert 2 <= moved <= 4


def test_a_tenth_of_the_words_is_deleted_on_average() -> None:
    texts = [" ".join(f"{n}-{word}" for word in range(100)) for n in range(100)]
    left = sum(len(eda(text)[1].split()) for text in texts)
    assert left / 10_000 == pytest.approx(0.9, abs=0.01)  # three standard deviations


def test_text_without_spaces_is_handled_by_characters() -> None:
    text = "这家餐厅的服务很好,我们都很满意"
    swapped, deleted = eda(text)
    assert swapped != text
    assert Counter(swapped) == Counter(text)
    assert len(deleted) < len(text)
    assert " " not in swapped + deleted


def test_words_of_another_script_stay_whole_in_chinese() -> None:
    for paraphrase in eda("我的iPhone屏幕坏了iPhone不好"):
        assert set(paraphrase.replace("iPhone", "")) <= set("我的屏幕坏了不好")


@pytest.mark.parametrize("text", ["", " ", "Hilarious!", "好"], ids=repr)
def test_a_text_of_less_than_two_words_stays_as_it_is(text: str) -> None:
    assert eda(text) == (text, text)


def test_line_breaks_stay_where_words_stay() -> None:
    swapped, _ = eda("one two\nthree four")
    assert [len(line.split()) for line in swapped.split("\n")] == [2, 2]


def test_real_sentences_get_two_paraphrases(glue: Path) -> None:
    rows = load_task("rte", glue).splits["train"].texts[:50]
    pairs = [eda(text) for row in rows for text in row]
    assert all(swapped != deleted for swapped, deleted in pairs)
