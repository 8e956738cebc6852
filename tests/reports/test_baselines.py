"""Tests of the warnings about a useless winner: baselines, one class, small classes."""

from collections.abc import Callable

import pytest
from rich.console import Console

from sclsearch.reports.lines import ConfigurationLine, SeedLine, paired
from sclsearch.reports.report import report
from sclsearch.reports.terminal import show
from sclsearch.store.studies import StudyStore
from sclsearch.training.baselines import LOGISTIC, MAJORITY
from tests.reports.conftest import WriteStudy

Counts = list[list[int]]


@pytest.fixture
def warnings_for(write_study: WriteStudy) -> Callable[..., list[str]]:
    """Return a function that returns the warnings about a winner with these matrices."""

    def warnings_for(
        matrices: list[tuple[Counts, Counts]], baseline: Counts, rule: str = "mean"
    ) -> list[str]:
        storage = write_study(matrices, labels=("complaint", "praise"), rule=rule)
        evaluation = {"confusion": baseline}
        scores = {MAJORITY: {"validation": evaluation, "test": evaluation}}
        store = StudyStore(storage, "made-up")
        store.save_baselines(dict.fromkeys(range(len(matrices)), scores))
        return list(report(storage, "made-up").notes)

    return warnings_for


Warnings = Callable[..., list[str]]


def test_a_good_winner_gets_no_warning(warnings_for: Warnings) -> None:
    good = [([[18, 2], [n, 80 - n]], [[18, 2], [n, 80 - n]]) for n in range(3)]
    assert warnings_for(good, [[0, 20], [0, 80]]) == []


def test_a_warning_says_that_it_is_on_all_seeds_if_the_rule_picks_some(
    warnings_for: Warnings,
) -> None:
    runs = [([[18, 2], [0, 80]], [[n, 20 - n], [0, 80]]) for n in (0, 0, 9)]
    (warning,) = warnings_for(runs, [[0, 20], [0, 80]], rule="best")
    assert "its test score over all seeds differs by" in warning


def test_a_winner_whose_interval_reaches_the_baseline_gets_a_warning(
    warnings_for: Warnings,
) -> None:
    runs = [([[18, 2], [0, 80]], [[n, 20 - n], [0, 80]]) for n in (0, 0, 9)]
    (warning,) = warnings_for(runs, [[0, 20], [0, 80]])
    assert warning.startswith("warning: the winner is not reliably above the baseline")
    assert "its test score differs by" in warning
    assert "by +3.0 points (95 %: -" in warning


def test_a_class_with_few_validation_rows_is_reported(warnings_for: Warnings) -> None:
    few = [([[3, 1], [n, 80 - n]], [[18, 2], [n, 80 - n]]) for n in range(3)]
    (warning,) = warnings_for(few, [[0, 20], [0, 80]])
    assert warning == "warning: classes with fewer than 10 validation rows: complaint (4)"


def test_baselines_are_printed_below_the_ranking(write_study: WriteStudy) -> None:
    storage = write_study([(80, 70), (90, 60)], [(50, 50), (40, 40)])
    evaluation = {"confusion": [[65, 35], [0, 0]]}
    scores = {name: {"validation": evaluation, "test": evaluation} for name in (LOGISTIC, MAJORITY)}
    StudyStore(storage, "made-up").save_baselines({0: scores, 1: scores})
    found = report(storage, "made-up")
    assert [line.origin for line in found.baselines] == [MAJORITY, LOGISTIC]
    assert [line.score for line in found.baselines] == [pytest.approx(0.65)] * 2
    console = Console(width=80, record=True)
    show(console, found)
    text = console.export_text()
    assert "baseline: majority class" in text
    assert "of the baseline majority class" in " ".join(text.split())


def test_seeds_of_one_training_subset_are_one_pair() -> None:
    def line(*tests: float) -> ConfigurationLine:
        seeds = tuple(SeedLine(n, "", 0.5, test, None) for n, test in enumerate(tests))
        return ConfigurationLine(0, "", {}, {}, seeds, 0.5, (), None, None)

    ours, theirs = line(0.7, 0.7, 0.7, 0.6, 0.6, 0.6), line(*[0.5] * 6)
    by_subset = paired(ours, theirs, dict(enumerate("aaabbb")), "accuracy")
    assert by_subset is not None
    assert by_subset.n == 2
    assert by_subset.difference == pytest.approx(0.15)
    by_seed = paired(ours, theirs, dict(enumerate("abcdef")), "accuracy")
    assert by_seed is not None
    assert by_seed.n == 6
    assert paired(ours, line(), {}, "accuracy") is None
