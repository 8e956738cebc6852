"""Winners of studies are compared over all their replicates, and never what cannot be."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.reports.comparison import StudyComparison, compare_studies
from sclsearch.reports.report import report
from sclsearch.reports.terminal import show_comparison

WriteStudy = Callable[..., Path]

BASE = [(50, 60), (52, 61), (54, 62)]
BETTER = [(60, 64), (62, 66), (64, 65)]


def compared(storage: Path, *names: str) -> StudyComparison:
    return compare_studies([report(storage, name) for name in names])


def text_of(found: StudyComparison, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show_comparison(Console(width=80), found)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_winners_are_compared_seed_by_seed(write_study: WriteStudy) -> None:
    write_study(BASE, name="base")
    storage = write_study([(1, 99)] * 3, BETTER, name="better")
    found = compared(storage, "base", "better")
    assert (found.task, found.metric, found.seeds) == ("cola", "accuracy", 3)
    base, better = found.studies
    assert (base.study, base.number, base.comparison, base.adjusted) == ("base", 0, None, None)
    assert base.test_mean == pytest.approx(0.61)
    assert (better.study, better.number) == ("better", 1)
    assert better.test_mean == pytest.approx(0.65)
    comparison = better.comparison
    assert comparison is not None
    assert comparison.n == 3
    assert comparison.difference == pytest.approx(0.04)
    assert comparison.p == better.adjusted == 0.25


def test_p_values_are_adjusted_for_all_studies(write_study: WriteStudy) -> None:
    write_study(BASE, name="base")
    write_study(BETTER, name="better")
    storage = write_study([(1, 40)] * 3, name="worse")
    found = compared(storage, "base", "better", "worse")
    assert [one.adjusted for one in found.studies] == [None, 0.5, 0.5]


def test_seeds_of_one_of_several_subsets_are_one_pair(write_study: WriteStudy) -> None:
    rows = {"train": "aabb", "test": "t"}
    write_study([*BASE, BASE[0]], name="base", rows=rows)
    storage = write_study([*BETTER, BETTER[0]], name="better", rows=rows)
    comparison = compared(storage, "base", "better").studies[1].comparison
    assert comparison is not None
    assert (comparison.n, comparison.p) == (2, 0.5)


def test_subsets_of_either_study_are_pairs_whichever_comes_first(write_study: WriteStudy) -> None:
    write_study([*BASE, BASE[0]], name="full", rows={"train": "aaaa", "test": "t"})
    some = {"train": "aabb", "test": "t"}
    storage = write_study([*BETTER, BETTER[0]], name="few", rows=some)
    for first, other in (("full", "few"), ("few", "full")):
        comparison = compared(storage, first, other).studies[1].comparison
        assert comparison is not None
        assert (comparison.n, comparison.p) == (2, 0.5)


def test_a_failed_seed_is_left_out_of_the_pairs(write_study: WriteStudy) -> None:
    write_study([*BASE[:2], "raised"], name="base")
    storage = write_study(BETTER, name="better")
    base, better = compared(storage, "base", "better").studies
    assert better.comparison is not None
    assert (better.comparison.n, better.comparison.n_missing) == (2, 1)
    assert base.test_mean == pytest.approx(0.605)


def test_differences_of_the_studies_are_noted(
    write_study: WriteStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(BASE, name="base")
    storage = write_study([*BETTER, BETTER[0]], name="better", rows={"train": "bcde", "test": "t"})
    found = compared(storage, "base", "better")
    assert found.notes == (
        "better is trained on other rows than base",
        "better has 4 seeds, of which the first 3 are here",
    )
    text = text_of(found, capsys)
    assert text[0] == "test accuracy on cola, the winners over the first 3 seeds, none picked"
    assert text[1:3] == ["1 base", "2 better"]
    assert "1 scl 0.6100 ± 0.0100 #0 tau=0.1" in text
    assert "2 scl 0.6500 ± 0.0100 #0 tau=0.1" in text
    assert "Against 1, in points" in text
    assert "2 scl +4.0 +1.5 … +6.5 3 0.250 0.250" in text
    assert text[-2:] == [f"- {note}" for note in found.notes]
    assert any("3 pairs cannot go below p = 0.25: too few" in line for line in text)


def test_different_settings_are_noted(write_study: WriteStudy) -> None:
    write_study(BASE, name="base", settings={"tau": 0.1})
    hand = {"epochs": 3, "tau": 0.1, "of_its_own": 1}
    storage = write_study(BETTER, BASE, name="better", model="roberta-large", settings=hand)
    assert compared(storage, "base", "better").notes == (
        "encoder: roberta-large in better, minilm in base",
        "finished configurations: 2 in better, 1 in base",
        "set by hand: epochs=3, tau=0.1 in better, tau=0.1 in base",
    )
    two = [{"tau": 0.1}, {"tau": 0.2}]
    write_study(BASE, BETTER, name="searched", values=two, settings={"tau": 0.1}, rule="best")
    both = [{"tau": 0.1, "epochs": 3}, {"tau": 0.2, "epochs": 3}]
    write_study(BASE, BETTER, name="more-searched", values=both, settings={"tau": 0.1})
    assert compared(storage, "more-searched", "searched").notes == (
        "rule: best in searched, mean in more-searched",
        "searched hyperparameters of both methods: tau in searched, epochs, tau in more-searched",
    )
    rows = {"train": "aaa", "test": "t", "unlabelled": "u"}
    write_study(BASE, name="more", settings={"tau": 0.1}, rows=rows)
    told = "more reads texts without labels too"
    assert compared(storage, "base", "more").notes == (told,)
    assert compared(storage, "more", "base").notes == (told,)
    write_study(BASE, name="other", settings={"tau": 0.1}, rows={**rows, "unlabelled": "v"})
    told = "other reads other texts without labels than more"
    assert compared(storage, "more", "other").notes == (told,)
    write_study(BASE, name="alike", settings={"tau": 0.1})
    assert not compared(storage, "base", "alike").notes


def test_a_repeated_winner_is_shown_as_such(
    write_study: WriteStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(BASE, name="base", settings={"tau": 0.1})
    storage = write_study(BASE, name="again", values=[{}], fresh=7)
    found = compared(storage, "base", "again")
    assert found.notes == ("again has other seeds than base: pairs share nothing but rows",)
    assert any(line.endswith("#0 the winner that it repeats") for line in text_of(found, capsys))


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        ("rows", {"data": "e"}),
        ("metric", {"metric": "macro_f1"}),
        ("test rows", {"rows": {"train": "aaa", "test": "u"}}),
    ],
)
def test_studies_of_other_rows_or_metrics_are_not_compared(
    write_study: WriteStudy, kind: str, other: dict[str, object]
) -> None:
    write_study(BASE, name="base")
    storage = write_study(BETTER, name="better", **other)
    with pytest.raises(SclsearchError, match=f"base .* differ in their {kind}"):
        compared(storage, "base", "better")


@pytest.mark.parametrize("names", [["base"], ["base", "base"]])
def test_one_study_is_not_compared(write_study: WriteStudy, names: list[str]) -> None:
    storage = write_study(BASE, name="base")
    with pytest.raises(SclsearchError, match="two or more different studies, got"):
        compared(storage, *names)


def test_a_study_without_a_winner_is_not_compared(write_study: WriteStudy) -> None:
    write_study(BASE, name="base")
    storage = write_study([(1, 1), (2, 2), None], name="begun")
    with pytest.raises(SclsearchError, match="begun: no configuration is finished"):
        compared(storage, "base", "begun")
