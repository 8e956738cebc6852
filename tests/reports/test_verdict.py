"""Tests of notes on baselines and of the verdict on a useless winner."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.errors import SclsearchError
from sclsearch.reports.notes import Verdict
from sclsearch.reports.page import _rendered
from sclsearch.reports.page.sections import read_results
from sclsearch.reports.report import ConfigurationLine, Report, SeedLine, paired, report
from sclsearch.reports.terminal import show
from sclsearch.store.studies import StudyStore
from sclsearch.tracking.publish import study_text
from sclsearch.training.evaluation import LOGISTIC, MAJORITY
from tests.reports.conftest import WriteStudy
from tests.reports.trained import Trained

Judged = Callable[..., Report]
ONE_CLASS = [[0, 20], [0, 80]]
RATE = {"name": "learning_rate", "type": "log", "low": 1e-5, "high": 1e-3}


@pytest.fixture
def judged(write_study: WriteStudy) -> Judged:
    """Return a function that returns the report of a winner beside two baselines, in percent."""

    def judged(
        scores: Sequence[Any], majority: int = 50, linear: int = 70, **options: Any
    ) -> Report:
        storage = write_study(scores, **options)
        found = {}
        for name, percent in ((MAJORITY, majority), (LOGISTIC, linear)):
            evaluation = {"confusion": [[percent, 100 - percent], [0, 0]]}
            found[name] = {"validation": evaluation, "test": evaluation}
        StudyStore(storage, "made-up").save_baselines(dict.fromkeys(range(len(scores)), found))
        return report(storage, "made-up")

    return judged


def verdict_of(found: Report) -> Verdict:
    assert found.verdict is not None
    return found.verdict


@pytest.mark.parametrize(
    ("scores", "baselines", "fault"),
    [
        (
            [(ONE_CLASS, 85)] * 2 + [(85, 85)],
            {},
            "in 2 of 3 seeds it predicts one class for every ",
        ),
        (
            [(80, 70), (90, 60)],
            {"majority": 65, "linear": 60},
            "its mean test accuracy is equal to that of the baseline majority class.",
        ),
        (
            [(80, 70), (90, 60)],
            {"majority": 70, "linear": 60},
            "its mean test accuracy is 5.0 points below that of the baseline majority class.",
        ),
        (
            [(90, 66), (90, 68)],
            {},
            "its mean test accuracy is 3.0 points below that of the baseline logistic regression "
            "on the frozen encoder.",
        ),
        (
            [(61, None), (62, None)],
            {},
            "its mean validation accuracy is 8.5 points below that of the baseline logistic regr",
        ),
    ],
    ids=["one class", "equal to majority", "below majority", "below linear", "untested"],
)
def test_a_useless_winner_has_a_verdict_and_no_warning_of_the_same(
    judged: Judged, scores: Sequence[Any], baselines: dict[str, int], fault: str
) -> None:
    found = judged(scores, **baselines)
    assert verdict_of(found).sentence.startswith(f"The winner is useless: {fault}")
    assert not [note for note in found.notes if "baseline" in note or "one class" in note]


@pytest.mark.parametrize(
    ("scores", "warnings"),
    [
        ([(90, 90), (90, 91), (90, 92)], 0),
        ([(ONE_CLASS, 85), (85, 85), (85, 86)], 0),
        ([(90, 71), (90, 70), (90, 72)], 1),
        ([(90, 70), (90, 70), (90, 70)], 1),
        ([(90, 80), (90, 82)], 1),
    ],
    ids=["good", "one seed collapsed", "interval with 0", "equal to linear", "two seeds"],
)
def test_another_winner_has_no_verdict(
    judged: Judged, scores: Sequence[Any], warnings: int
) -> None:
    found = judged(scores)
    assert found.verdict is None
    notes = [note for note in found.notes if "baseline" in note]
    assert len(notes) == warnings
    if len(scores) == 2:
        assert notes[0].endswith("differs by +11.0 points over 2 pairs; an interval takes 3")


MANY = {"updates": 200, "training_rows": [400, 100]}
MIDDLE = {"parameters": [RATE], "values": [{"learning_rate": 1e-4}]}
CUTS = "max_length 128 cuts 37 of 200 sampled texts, the longest of 512 tokens: --set max_length=…"
CUT_TEXTS = {
    "parameters": [RATE],
    "values": [{"learning_rate": 1e-4, "max_length": 128}],
    "study_notes": [CUTS],
}


@pytest.mark.parametrize(
    ("options", "cause", "command"),
    [
        (
            {"parameters": [{"name": "tau", "type": "float", "low": 0, "high": 1}]},
            "the learning rate, 1e-05, was not searched",
            "sclsearch tune --method scl --task cola .*--set learning_rate=0?.?0*3e-05",
        ),
        (
            {"settings": {"learning_rate": 1e-5, "dropout": 0.2}},
            "the learning rate, 1e-05, was not searched",
            r"sclsearch tune --method scl --task cola .*--set dropout=0.2 --storage \S+$",
        ),
        (
            {"parameters": [RATE], "values": [{"learning_rate": 9e-4}]},
            "the winner's learning rate, 0.0009, is at the upper end of the searched values, "
            "1e-05 to 0.001",
            "--set learning_rate=0.0027",
        ),
        (
            {
                "parameters": [{**RATE, "type": "choice", "values": [3e-5, 1e-5]}],
                "values": [{"learning_rate": 1e-5}],
            },
            "the winner's learning rate, 1e-05, is at the lower end of the searched values, "
            "1e-05 to 3e-05",
            "--set learning_rate=3.3e-0?6",
        ),
        (
            {**MIDDLE, **MANY, "updates": 20},
            "the last stage has only 20 updates",
            "--set epochs=15",
        ),
        (
            {**MANY, **CUT_TEXTS},
            "max_length 128 cuts 37 of 200 sampled texts, the longest of 512 tokens",
            "--set max_length=256",
        ),
        (
            {**MIDDLE, **MANY, "training_rows": [400, 7]},
            "there are few training rows: 400, 7 of the smallest class; label more of them first",
            "sclsearch tune --method scl",
        ),
        (
            {**MIDDLE, **MANY},
            "unknown; the page shows learning curves and wrong texts",
            "sclsearch report made-up",
        ),
    ],
    ids=["fixed", "by hand", "upper", "choice", "updates", "cut", "rows", "unknown"],
)
def test_the_verdict_names_the_likeliest_cause_and_the_next_command(
    judged: Judged, options: dict[str, Any], cause: str, command: str
) -> None:

    found = verdict_of(judged([(60, 60), (60, 60)], **options))
    assert found.cause == cause
    assert re.search(command, found.command)
    assert "--study" not in found.command


def test_the_first_line_everywhere_is_the_verdict(judged: Judged) -> None:
    found = judged([(60, 60), (60, 60)])
    first = verdict_of(found).sentence
    console = Console(width=80, record=True)
    show(console, found)
    assert console.export_text().splitlines()[0] == first
    assert study_text(found).splitlines()[0] == first
    page = _rendered([read_results(found, "")], [], {})
    body = page.partition("</h1>")[2].replace("<br>", "\n")
    assert re.sub(r"<[^>]+>", "", body).strip().splitlines()[0] == first


def test_an_export_of_a_useless_winner_needs_force_and_its_card_begins_with_the_verdict(
    trained: Trained, tmp_path: Path
) -> None:
    found = verdict_of(sclsearch.select("mine", storage=trained.storage))
    with pytest.raises(SclsearchError) as refused:
        sclsearch.export("mine", tmp_path / "winner", storage=trained.storage)
    assert str(refused.value).startswith(f"mine: {found.sentence} Likely cause: {found.cause}.")
    assert not (tmp_path / "winner").exists()
    command = ["export", "mine", str(tmp_path / "winner"), "--storage", str(trained.storage)]
    assert isinstance(CliRunner().invoke(app, command).exception, SclsearchError)
    done = CliRunner().invoke(app, [*command, "--force"])
    assert done.exit_code == 0
    assert found.sentence in done.output
    card = (tmp_path / "winner" / "README.md").read_text(encoding="utf-8")
    assert card.rpartition("---\n")[2].lstrip().startswith(f"> {found.sentence}")
    assert str(tmp_path) not in card
    assert str(trained.encoder) not in card


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
