"""Tests of notes on baselines and of the verdict on a useless winner."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.errors import SclsearchError
from sclsearch.reports.notes import Verdict
from sclsearch.reports.report import Report, report
from sclsearch.reports.summary import summarize
from sclsearch.training.baselines import LOGISTIC, MAJORITY
from tests.made_up import WriteStudy

Judged = Callable[..., Report]
ONE_CLASS = [[0, 20], [0, 80]]
RATE = {"name": "learning_rate", "type": "log", "low": 1e-5, "high": 1e-3}


@pytest.fixture
def judged(write_study: WriteStudy) -> Judged:
    """Return a function that returns the report of a winner beside two baselines, in percent."""

    def judged(
        scores: Sequence[Any], majority: int = 50, linear: int = 70, **fields: Any
    ) -> Report:
        baselines = {MAJORITY: majority, LOGISTIC: linear}
        return report(write_study(scores, baselines=baselines, **fields), "made-up")

    return judged


def verdict_of(found: Report) -> Verdict:
    assert found.verdict is not None
    return found.verdict


@pytest.mark.parametrize(
    ("scores", "baselines", "faults"),
    [
        ([(ONE_CLASS, 85)] * 2 + [(85, 85)], (50, 70), ("2 of 3 seeds", "one class")),
        ([(80, 70), (90, 60)], (70, 60), ("5.0 points below", MAJORITY)),
        ([(90, 66), (90, 68)], (50, 70), ("test accuracy is 3.0 points below", LOGISTIC)),
        ([(90, 66), (90, 68), (90, 67)], (50, 70), ("3.0 points below", LOGISTIC)),
        ([(61, None), (62, None)], (50, 70), ("validation accuracy is 8.5 points", LOGISTIC)),
    ],
    ids=["one class", "below majority", "below linear", "reliably below", "untested"],
)
def test_a_useless_winner_has_a_verdict_and_no_warning_of_the_same(
    judged: Judged, scores: Sequence[Any], baselines: tuple[int, int], faults: Sequence[str]
) -> None:
    found = judged(scores, *baselines)
    assert verdict_of(found).sentence.startswith("The winner is useless: ")
    assert all(fault in verdict_of(found).sentence for fault in faults)
    assert not [note for note in found.notes if "baseline" in note or "one class" in note]


def test_a_winner_below_a_linear_model_by_chance_is_not_useless(judged: Judged) -> None:
    near = judged([(90, 60), (90, 70), (90, 79)], 50, 70)
    assert near.verdict is None
    assert "0.3 points below that of the best baseline" in summarize(near).answer


def test_a_class_with_few_validation_rows_is_reported(write_study: WriteStudy) -> None:
    few = [([[3, 1], [n, 80 - n]], [[18, 2], [n, 80 - n]]) for n in range(3)]
    storage = write_study(few, labels=("complaint", "praise"))
    assert report(storage, "made-up").notes == (
        "warning: classes with fewer than 10 validation rows: complaint (4). Label more rows to "
        "rank configurations reliably",
    )


MIDDLE = {"parameters": [RATE], "values": [{"learning_rate": 1e-4}]}
MANY = {**MIDDLE, "updates": 200, "training_rows": [400, 100]}
TAU = {"name": "tau", "type": "float", "low": 0, "high": 1}
CUTS = "max_length 128 cuts 37 of 200 sampled texts, the longest of 512 tokens: --set max_length=…"
CUT = [{"learning_rate": 1e-4, "max_length": 128}]


@pytest.mark.parametrize(
    ("fields", "cause", "command"),
    [
        ({"parameters": [TAU]}, "rate, 1e-05, was not", "tune .*--set learning_rate=0?.?0*3e-05"),
        (
            {"parameters": [RATE], "values": [{"learning_rate": 9e-4}]},
            "0.0009, is at the upper end of the searched values, 1e-05 to 0.001",
            "--set learning_rate=0.0027",
        ),
        ({**MANY, "updates": 20}, "only 20 updates", "--set epochs=15"),
        (
            {**MANY, "values": CUT, "study_notes": [CUTS]},
            "max_length 128 cuts 37 of 200 sampled texts",
            "--set max_length=256",
        ),
        (
            {**MANY, "training_rows": [400, 7], "shots": 7},
            "there are few training rows: 400, 7 of the smallest class",
            "tune --method scl .*--shots 28 ",
        ),
        (MANY, "unknown", "sclsearch report made-up"),
    ],
    ids=["fixed", "upper", "updates", "cut", "rows", "unknown"],
)
def test_the_verdict_names_the_likeliest_cause_and_the_next_command(
    judged: Judged, fields: dict[str, Any], cause: str, command: str
) -> None:
    found = verdict_of(judged([(60, 60), (60, 60)], **fields))
    assert cause in found.cause
    assert re.search(command, found.command)
    assert "--study" not in found.command


def test_one_seed_may_be_chance_so_the_next_search_has_more(judged: Judged) -> None:
    for fields in (MANY, {**MANY, "updates": 20}):
        found = verdict_of(judged([(60, 60)], **fields))
        assert found.cause.endswith("; one seed may also be chance")
        assert found.command.startswith("sclsearch tune ")
        assert "--seeds" not in found.command


def test_an_export_of_a_useless_winner_needs_force_and_its_card_has_the_verdict(
    trained: Path, tmp_path: Path
) -> None:
    found = verdict_of(sclsearch.select("mine", storage=trained))
    command = ["export", "mine", str(tmp_path / "winner"), "--storage", str(trained)]
    refused = CliRunner().invoke(app, command).exception
    assert isinstance(refused, SclsearchError)
    assert str(refused).startswith(f"mine: {found.sentence} Likely cause: {found.cause}.")
    assert not (tmp_path / "winner").exists()
    assert CliRunner().invoke(app, [*command, "--force"]).exit_code == 0
    card = (tmp_path / "winner" / "README.md").read_text(encoding="utf-8")
    assert "> No configuration of scl is useful. #" in card
    assert found.fault in card
