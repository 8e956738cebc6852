"""A useless winner is doubted: by baselines, collapsed predictions and small classes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.reports.baselines import baseline_lines, doubts
from sclsearch.reports.lines import line_of
from sclsearch.reports.report import report
from sclsearch.reports.terminal import show
from sclsearch.selection.rules import parse_rule
from sclsearch.store.records import ConfigurationRecord
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import StudyStore
from sclsearch.training.baselines import LOGISTIC, MAJORITY

RULE = parse_rule("mean")
LABELS = ("complaint", "praise")
Counts = list[list[int]]


def run(validation: Counts, test: Counts) -> SeedRun:
    kept = {"epoch": 1, "update": 1, "loss": {}, "validation": {"confusion": validation}}
    return SeedRun("k", {}, {}, evaluations=(kept,), kept=0, test={"confusion": test})


def said(runs: list[SeedRun], baseline: Counts) -> list[str]:
    configuration = ConfigurationRecord(0, {}, {}, "sampled")
    winner = line_of(configuration, enumerate(runs), (), RULE, "accuracy")
    evaluation = {"confusion": baseline}
    stored = {n: {MAJORITY: {"validation": evaluation, "test": evaluation}} for n in range(3)}
    lines = baseline_lines(stored, range(3), RULE, "accuracy")
    return list(doubts(winner, lines, runs, LABELS))


def test_a_sound_winner_is_not_doubted() -> None:
    good = [run([[18, 2], [n, 80 - n]], [[18, 2], [n, 80 - n]]) for n in range(3)]
    assert said(good, [[0, 20], [0, 80]]) == []


def test_one_class_for_every_row_is_said() -> None:
    one_class: Counts = [[0, 20], [0, 80]]
    collapsed, equal = said([run(one_class, one_class)] * 3, one_class)
    assert collapsed == (
        "warning: in 3 of 3 seeds the winner predicts one class for every validation row"
    )
    assert equal.startswith(
        "warning: the winner is not above the baseline majority class: its test"
    )


def test_a_winner_whose_interval_reaches_the_baseline_is_said() -> None:
    runs = [run([[18, 2], [0, 80]], [[n, 20 - n], [0, 80]]) for n in (0, 0, 9)]
    (told,) = said(runs, [[0, 20], [0, 80]])
    assert "by +0.0300 (95 %: -" in told


def test_a_class_of_few_validation_rows_is_said() -> None:
    few = [run([[3, 1], [n, 80 - n]], [[18, 2], [n, 80 - n]]) for n in range(3)]
    (told,) = said(few, [[0, 20], [0, 80]])
    assert told == "warning: classes with fewer than 10 validation rows: complaint (4)"


def test_baselines_stand_below_the_ranking(write_study: Callable[..., Path]) -> None:
    storage = write_study([(80, 70), (90, 60)], [(50, 50), (40, 40)])
    evaluation = {"confusion": [[65, 35], [0, 0]]}
    found = {name: {"validation": evaluation, "test": evaluation} for name in (LOGISTIC, MAJORITY)}
    StudyStore(storage, "made-up").save_baselines({0: found, 1: found})
    told = report(storage, "made-up")
    assert [line.origin for line in told.baselines] == [MAJORITY, LOGISTIC]
    assert [line.score for line in told.baselines] == [pytest.approx(0.65)] * 2
    console = Console(width=80, record=True)
    show(console, told)
    text = console.export_text()
    assert "baseline: majority class" in text
    assert "warning: the winner is not above the baseline majority class" in " ".join(text.split())
