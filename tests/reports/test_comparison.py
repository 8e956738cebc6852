"""Tests of the comparison of study winners over all replicates."""

from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.reports.comparison import StudyComparison, compare_studies, confirmed_score
from sclsearch.reports.comparison_tables import show_comparison, winner_table
from sclsearch.reports.report import report
from sclsearch.selection.significance import Comparison
from tests.made_up import WriteStudy

BASE = [(50, 60), (52, 61), (54, 62)]
BETTER = [(60, 64), (62, 66), (64, 65)]


def compared(storage: Path, *names: str) -> StudyComparison:
    return compare_studies([report(storage, name) for name in names])


def pairs_of(storage: Path, *names: str) -> Comparison:
    return compared(storage, *names).pairs[0].comparison


def test_winners_are_compared_by_seed_with_adjusted_p_values(write_study: WriteStudy) -> None:
    write_study(BASE, name="base")
    storage = write_study([(1, 99)] * 3, BETTER, name="better")
    found = compared(storage, "base", "better")
    assert (found.task, found.metric, found.seeds) == ("cola", "accuracy", 3)
    base, better = found.studies
    assert (base.winner.number, better.winner.number) == (0, 1)
    assert (base.test_mean, better.test_mean) == pytest.approx((0.61, 0.65))
    comparison = pairs_of(storage, "base", "better")
    assert comparison.n == 3
    assert comparison.difference == pytest.approx(0.04)
    assert comparison.p == found.pairs[0].adjusted == 0.25
    write_study([(1, 40)] * 3, name="worse")
    pairs = compared(storage, "base", "better", "worse").pairs
    assert [(one.better, one.other, one.adjusted) for one in pairs] == [
        ("better", "base", 0.75),
        ("better", "worse", 0.75),
        ("base", "worse", 0.75),
    ]


def test_pairs_are_training_subsets_without_failed_seeds(write_study: WriteStudy) -> None:
    write_study([*BASE, BASE[0]], name="full", rows={"train": "aaaa", "test": "t"})
    write_study([*BETTER, BETTER[0]], name="few", rows={"train": "aabb", "test": "t"})
    write_study([*BASE[:2], "raised"], name="failed")
    storage = write_study(BETTER, name="better")
    for names in (("full", "few"), ("few", "full")):
        assert (pairs_of(storage, *names).n, pairs_of(storage, *names).p) == (2, 0.5)
    pairs = pairs_of(storage, "failed", "better")
    assert (pairs.n, pairs.n_missing) == (2, 1)


def test_a_comparison_prints_winners_differences_limits_and_notes(
    write_study: WriteStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(*names: str) -> list[str]:
        show_comparison(Console(width=80), compared(storage, *names))
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    write_study(BASE, name="base")
    write_study([*BASE[:2], "raised"], name="failed")
    storage = write_study([*BETTER, BETTER[0]], name="better", rows={"train": "bcde", "test": "t"})
    text = printed("base", "better")
    assert text[0] == "test accuracy on cola, the winners over the first 3 seeds, none left out"
    assert text[1:3] == ["1 base", "2 better"]
    for line in (
        "2 scl 0.6500 ± 0.0100 #0 tau=0.1",
        "2 scl 1 4 6 min",
        "1 scl +4.0 +1.5 … +6.5 3 0.250 0.250",
        "- better has other training rows than base",
        "- unequal budgets: seed runs; larger searches tend to win. Give all searches the",
        "- better has 4 seeds, of which the first 3 are here; its budget counts 4",
    ):
        assert line in text
    text = printed("base", "failed")
    assert text[0].endswith("the winners over the first 3 seeds, failed ones left out")
    assert "- in failed 1 seed of the winner failed: means and pairs leave failed seeds out" in text
    assert [line for line in text if " 2, 2 equal, 1 failed " in line]


def test_different_settings_are_noted(write_study: WriteStudy) -> None:
    def notes(*names: str) -> tuple[str, ...]:
        return compared(storage, *names).notes

    tau = {"tau": 0.1}
    two = [{"tau": 0.1}, {"tau": 0.2}]
    rows = {"train": "aaa", "test": "t", "unlabeled": "u"}
    write_study(BASE, name="base", settings=tau)
    write_study(BETTER, BASE, name="better", model="roberta", settings={"epochs": 3, **tau})
    write_study(BASE, BETTER, name="searched", values=two, settings=tau, rule="best")
    for name, low in (("narrow", 0.2), ("wide", 0.1)):
        lam = {"name": "lam", "type": "float", "low": low, "high": 1.0}
        write_study(BASE, name=name, parameters=[lam], fixed={"batch_size": low})
    write_study(BASE, name="more", settings=tau, rows=rows)
    write_study(BASE, name="other", settings=tau, rows={**rows, "unlabeled": "v"})
    write_study(BASE, name="again", settings=tau, values=[{}], fresh=7)
    storage = write_study(BASE, name="alike", settings=tau)
    assert notes("base", "better") == (
        "set by hand: epochs=3 tau=0.1 in better, tau=0.1 in base",
        "unequal budgets: configurations, seed runs; larger searches tend to win. Give all "
        "searches the budget of the largest",
    )
    assert "rule: best in searched, mean in base" in notes("base", "searched")
    assert notes("narrow", "wide") == (
        "values of batch_size: only 0.1 in wide, only 0.2 in narrow",
        "values of lam: 0.1 … 1 in wide, 0.2 … 1 in narrow",
    )
    for names in (("base", "more"), ("more", "base")):
        assert notes(*names) == ("only more reads texts without labels",)
    assert notes("more", "other") == ("other has other texts without labels than more",)
    assert "again has other seeds of initialization and order than base" in notes("base", "again")
    assert not notes("base", "alike")


def test_fresh_seeds_count_if_they_repeat_the_winner_with_the_same_inputs(
    write_study: WriteStudy,
) -> None:
    write_study(BASE, [(1, 1)] * 3, name="base")
    storage = write_study([(1, 1)] * 3, BETTER, name="better", gpus=["H100"] * 3)
    winner = {"values": [{"tau": 0.2}], "confirms": "better", "fresh": 7}
    write_study([(1, 99)] * 4, name="loser", **{**winner, "values": [{"tau": 0.1}]})
    write_study([(1, 99)], name="foreign", **{**winner, "values": [{"tau": 0.7}]})
    gpus = {"gpus": ["H100"] * 5}
    write_study([(1, 95)] * 5, name="continued", **{**winner, "fresh": 1}, **gpus)
    write_study([(1, 95)] * 6, name="other", protocol="b", **{**winner, "fresh": 20})
    assert confirmed_score(report(storage, "better")) is None
    write_study([(1, 60), (1, 62)], name="few", **winner)
    # Fresh seeds of a GPU search may be trained on CPUs.
    write_study([(1, 60), (1, 62), (1, 64)], name="again", **winner)
    (storage / "studies/damaged").mkdir()
    (storage / "studies/damaged/study.json").write_text("{")
    base, better = compared(storage, "base", "better").studies
    assert base.confirmed is None
    assert better.confirmed is not None
    assert better.confirmed == confirmed_score(report(storage, "better"))
    assert (better.confirmed.study, better.confirmed.seeds) == ("again", 3)
    assert better.confirmed.mean == pytest.approx(0.62)
    table = winner_table(compared(storage, "base", "better"))
    assert table["on new seeds"].tolist() == ["", "0.6200 ± 0.0200 (3 seeds)"]


def test_the_search_interval_estimates_skipped_seed_runs(write_study: WriteStudy) -> None:
    hard = [(50, 55), (60, 62), (70, 77)]
    best = [(v + 10, t + 10) for v, t in hard]
    write_study(hard, hard, name="base")
    write_study(best, hard, name="whole")
    storage = write_study(best, [hard[0], None, None], name="race")
    whole, race = (compared(storage, "base", name).pairs[0] for name in ("whole", "race"))
    assert whole.search_interval is not None
    assert race.search_interval == pytest.approx(whole.search_interval)
    assert whole.search_interval[0] < 0.05


@pytest.mark.parametrize(
    ("message", "other"),
    [
        ("better .* differ in their rows", {"data": "e"}),
        ("better .* differ in their metric", {"metric": "macro_f1"}),
        ("better .* differ in their test rows", {"rows": {"train": "aaa", "test": "u"}}),
        ("two or more different studies, got base, base", {"name": "base"}),
    ],
)
def test_different_rows_or_metrics_or_one_study_twice_are_not_compared(
    write_study: WriteStudy, message: str, other: dict[str, object]
) -> None:
    storage = write_study(BASE, name="base")
    given = {"name": "better", **other}
    write_study(BETTER, **given)
    with pytest.raises(SclsearchError, match=message):
        compared(storage, "base", str(given["name"]))
