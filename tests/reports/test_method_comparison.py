"""Tests of the comparison of methods over several tasks, and of the tables of comparisons."""

from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy.stats import friedmanchisquare, wilcoxon

from sclsearch import compare
from sclsearch.errors import SclsearchError
from sclsearch.reports.comparison import StudyComparison
from sclsearch.reports.comparison_tables import comparison_file, show_methods
from sclsearch.reports.method_comparison import (
    MethodComparison,
    critical_difference,
    fewest_tasks,
    mean_ranks,
)
from tests.made_up import WriteStudy

LEVELS = {"scl": 70, "lacon": 66, "ce": 60}


def written(write_study: WriteStudy, tasks: int, methods: tuple[str, ...]) -> list[str]:
    names = []
    for task in range(tasks):
        for method in methods:
            scores = [(50, LEVELS[method] + seed + task * (method == "ce")) for seed in range(8)]
            rows = {"train": "abcdefgh", "test": f"t{task}"}
            names.append(f"{method}-{task}")
            given = {"task": f"task{task}", "data": f"d{task}", "rows": rows}
            write_study(scores, name=names[-1], method=method, **given)
    return names


def test_ranks_are_those_of_scipy_and_critical_values_those_of_demsar() -> None:
    scores = np.array([[0.7, 0.9, 0.8, 0.6], [0.5, 0.5, 0.4, 0.3], [0.6, 0.9, 0.8, 0.7]])
    ranks, p = mean_ranks(scores)
    assert ranks == pytest.approx([8.5 / 3, 3.5 / 3, 7 / 3, 11 / 3])
    assert p == pytest.approx(friedmanchisquare(*scores.T).pvalue)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    # Table 5(a): critical values of Nemenyi's test at 0.05 for 2 to 10 methods.
    for methods, value in ((2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)):
        found = critical_difference(methods, 1) / np.sqrt(methods * (methods + 1) / 6)
        assert found == pytest.approx(value, abs=0.001)
    two = np.random.default_rng(0).random((9, 2))
    assert mean_ranks(two)[1] == pytest.approx(wilcoxon(*two.T).pvalue)
    assert mean_ranks(np.ones((3, 3)))[1] == 1.0
    assert (fewest_tasks(2), fewest_tasks(3), critical_difference(3, 2) > 2) == (6, 3, True)


def test_methods_are_compared_over_tasks(
    write_study: WriteStudy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = written(write_study, 3, ("ce", "lacon", "scl"))
    found = compare(*names, storage=tmp_path)
    assert isinstance(found, MethodComparison)
    assert (found.methods, found.ranks, found.worse) == (("scl", "lacon", "ce"), (1, 2, 3), ("ce",))
    assert found.frame()["scl (points)"].tolist() == pytest.approx([73.5] * 3)
    assert found.answer == (
        "scl has the best mean rank, 1.0 of 3 methods over 3 tasks; the critical difference is "
        "1.9, and Friedman's p is 0.050, so ce is reliably worse."
    )
    show_methods(Console(width=80), found)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "task scl (points) lacon (points) ce (points)"
    assert lines[4] == "mean rank 1.00 2.00 3.00"
    latex = comparison_file(found, "latex").decode()
    assert r"task1 & \textbf{73.5 $\pm$ 2.4} & 69.5 $\pm$ 2.4 & 64.5 $\pm$ 2.4 \\" in latex
    assert b"\ntask2,73.5,69.5," in comparison_file(found, "csv")


def test_few_tasks_show_no_difference(write_study: WriteStudy, tmp_path: Path) -> None:
    found = compare(*written(write_study, 2, ("ce", "scl")), storage=tmp_path)
    assert isinstance(found, MethodComparison)
    assert (found.p, found.critical_difference, found.worse) == (0.5, None, ())
    assert found.answer.startswith("scl is better than ce on 2 of 2 tasks; the mean difference is")
    assert found.answer.endswith("cannot show a difference; that takes at least 6.")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["ce-0", "scl-0", "scl-1"], "missing: ce on task1"),
        (["scl-0", "scl-1"], "two or more methods"),
        (["scl-0", "scl-0", "ce-1"], "scl-0 and scl-0 are both of scl on task0"),
    ],
)
def test_a_method_without_a_task_is_refused(
    write_study: WriteStudy, tmp_path: Path, names: list[str], message: str
) -> None:
    written(write_study, 2, ("ce", "scl"))
    with pytest.raises(SclsearchError, match=message):
        compare(*names, storage=tmp_path)


def test_files_have_pairs_and_winners(write_study: WriteStudy, tmp_path: Path) -> None:
    found = compare(*written(write_study, 1, ("ce", "scl")), storage=tmp_path)
    assert isinstance(found, StudyComparison)
    assert comparison_file(found, "md").decode().splitlines() == [
        "| better | other | difference (points) | 95 % (points) | p (Holm) | seeds | clear |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| **scl** | **ce** | **+10.0** | **–** | **0.008** | **8** | **yes** |",
        "",
        "| study | method | test accuracy | winner |",
        "| --- | --- | --- | --- |",
        "| ce-0 | ce | 0.6350 ± 0.0245 | #0 tau=0.1 |",
        "| scl-0 | scl | **0.7350 ± 0.0245** | #0 tau=0.1 |",
    ]
    (pair,) = pd.read_csv(StringIO(comparison_file(found, "csv").decode())).to_dict("records")
    assert (pair["better"], pair["other"], pair["clear"]) == ("scl-0", "ce-0", True)
    assert pair["difference (points)"] == pytest.approx(10)


def test_files_have_the_notes_and_no_bold_without_a_clear_difference(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    write_study([(50, 60)] * 8, [(40, 60)] * 8, name="two")
    write_study([(50, 60)] * 8, name="one", method="ce")
    found = compare("one", "two", storage=tmp_path)
    markdown, latex = (comparison_file(found, form).decode() for form in ("md", "latex"))
    assert "**" not in markdown
    assert "\\textbf" not in latex
    note = "unequal budgets: configurations, seed runs; larger searches tend to win. "
    assert f"\n- {note}" in markdown
    assert f"\n% {note}" in latex
