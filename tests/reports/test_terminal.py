"""Tests of the printed report: origin of each score, savings and width."""

from io import StringIO
from pathlib import Path

from rich.console import Console

from sclsearch.reports.report import report
from sclsearch.reports.terminal import Terminal, show, show_savings
from sclsearch.selection.rules import parse_rule
from sclsearch.training.baselines import LOGISTIC, MAJORITY
from tests.made_up import WriteStudy


def printed(storage: Path, rule: str = "mean", *, name: str = "made-up") -> str:
    file = StringIO()
    console = Terminal(file=file, width=80)
    show(console, report(storage, name, parse_rule(rule)))
    return file.getvalue()


def test_a_report_has_ranking_scores_and_notes_as_plain_text(write_study: WriteStudy) -> None:
    storage = write_study(
        [(50, 40), (50, 40), (51, 40)],
        [(90, 90), None, None],
        [(60, 30), (95, 30), "[it] broke"],
        values=[{"tau": 0.1}, {"tau": 0.2}, {"tau": 0.3, "pooling": "[red]"}],
        model="/models/[old]/bert",
        settings={"epochs": 8, "dropouts": [0.0, 0.1]},
        study_notes=("an explanation that is " + "rather " * 9 + "[bold] long",),
        baselines={LOGISTIC: 10, MAJORITY: 5},
    )
    assert printed(storage).splitlines() == [
        "scl on cola, 100 training examples, /models/[old]/bert, protocol gunel-fewshot",
        "        validation             test",
        "#         accuracy         accuracy  seeds  configuration",
        "2           0.5167  0.3000 ± 0.0000    2/3  tau=0.3 pooling=[red]",
        "0           0.5033  0.4000 ± 0.0000    3/3  tau=0.1 (published)",
        "1  0.9000 (1 seed)                …    1/3  tau=0.2",
        "            0.0500  0.0500 ± 0.0000         baseline: majority class",
        "            0.1000  0.1000 ± 0.0000         baseline: logistic regression on the",
        "                                            frozen encoder",
        "",
        "Validation accuracy: mean of 3 seeds (rule mean)",
        "  2 of 3 seeds; first failure: raised: [it] broke",
        "  set by hand: dropouts=[0,0.1] epochs=8",
        "  1 of 3 configurations have fewer than 3 seeds (1 with 1): the search is",
        "  unfinished, and one of them may win",
        "  an explanation that is rather rather rather rather rather rather rather rather",
        "  rather [bold] long",
    ]


def test_saved_training_is_counted_at_the_mean_time_of_a_seed_run(write_study: WriteStudy) -> None:
    found, file = report(write_study([(70, 60), (70, 60)]), "made-up"), StringIO()
    show_savings(Console(file=file, width=80), found, skipped=4, reused=80)
    assert file.getvalue().splitlines() == [
        "  4 seed runs skipped by the race: 6 min of training saved",
        "  80 seed runs read from the storage: 2.0 h of training not repeated",
    ]
