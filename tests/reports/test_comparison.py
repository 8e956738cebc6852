"""Tests of the comparison of study winners over all replicates, and of suggested commands."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.console import Console

from sclsearch.cli import app
from sclsearch.errors import SclsearchError
from sclsearch.reports.commands import rerun_command
from sclsearch.reports.comparison import (
    StudyComparison,
    compare_studies,
    confirmed_score,
    unequal_budgets,
)
from sclsearch.reports.comparison_tables import confirmations, show_comparison
from sclsearch.reports.report import Report, report
from tests.reports.conftest import WriteStudy

BASE = [(50, 60), (52, 61), (54, 62)]
BETTER = [(60, 64), (62, 66), (64, 65)]


def compared(storage: Path, *names: str) -> StudyComparison:
    return compare_studies([report(storage, name) for name in names])


def text_of(found: StudyComparison, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show_comparison(Console(width=80), found)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_winners_are_compared_by_seed_with_adjusted_p_values(write_study: WriteStudy) -> None:
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
    write_study([(1, 40)] * 3, name="worse")
    adjusted = [one.adjusted for one in compared(storage, "base", "better", "worse").studies]
    assert adjusted == [None, 0.5, 0.5]


def test_pairs_are_training_subsets_in_either_order_of_the_studies(write_study: WriteStudy) -> None:
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


def test_differences_between_the_studies_are_noted(
    write_study: WriteStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(BASE, name="base")
    storage = write_study([*BETTER, BETTER[0]], name="better", rows={"train": "bcde", "test": "t"})
    found = compared(storage, "base", "better")
    assert found.notes == (
        "better is trained on other rows than base",
        "unequal budgets: seed runs; larger searches tend to win",
        "better has 4 seeds, of which the first 3 are here; its budget counts 4",
    )
    text = text_of(found, capsys)
    assert text[0] == "test accuracy on cola, the winners over the first 3 seeds, none left out"
    assert text[1:3] == ["1 base", "2 better"]
    assert "1 scl 0.6100 ± 0.0100 #0 tau=0.1" in text
    assert "2 scl 0.6500 ± 0.0100 #0 tau=0.1" in text
    assert "Against 1, in points" in text
    assert "2 scl +4.0 +1.5 … +6.5 3 0.250 0.250 0.250" in text
    assert " ".join(text).endswith(" ".join(f"- {note}" for note in found.notes))
    assert any("3 pairs cannot go below p = 0.25: too few" in line for line in text)


def test_damaged_files_of_a_study_are_noted(write_study: WriteStudy) -> None:
    write_study(BASE, name="base")
    storage = write_study(BASE, BETTER, name="better")
    (lost,) = (one.seeds for one in report(storage, "better").configurations if one.number == 1)
    file = storage / "runs" / f"{lost[0].key}.json"
    file.write_text("{")
    notes = "\n".join(compared(storage, "base", "better").notes)
    assert "better: warning: damaged files, left out of the ranking: 1; another" in notes
    assert f"better: {file}: " in notes


def test_different_settings_are_noted(write_study: WriteStudy) -> None:
    write_study(BASE, name="base", settings={"tau": 0.1})
    hand = {"epochs": 3, "tau": 0.1, "of_its_own": 1}
    storage = write_study(BETTER, BASE, name="better", model="roberta-large", settings=hand)
    assert compared(storage, "base", "better").notes == (
        "encoder: roberta-large in better, minilm in base",
        "set by hand: epochs=3, tau=0.1 in better, tau=0.1 in base",
        "unequal budgets: configurations, seed runs; larger searches tend to win",
    )
    two = [{"tau": 0.1}, {"tau": 0.2}]
    write_study(BASE, BETTER, name="searched", values=two, settings={"tau": 0.1}, rule="best")
    both = [{"tau": 0.1, "epochs": 3}, {"tau": 0.2, "epochs": 3}]
    write_study(BASE, BETTER, name="more-searched", values=both, settings={"tau": 0.1})
    assert compared(storage, "more-searched", "searched").notes == (
        "rule: best in searched, mean in more-searched",
        "searched hyperparameters of both methods: tau in searched, epochs, tau in more-searched",
    )
    for name, low in (("narrow", 0.2), ("wide", 0.1)):
        space = {"parameters": [{"name": "lam", "low": low}], "fixed": {"batch_size": low}}
        write_study(BASE, name=name, **space)
    assert compared(storage, "narrow", "wide").notes == (
        "search spaces of wide and narrow differ in batch_size, lam",
    )
    rows = {"train": "aaa", "test": "t", "unlabeled": "u"}
    write_study(BASE, name="more", settings={"tau": 0.1}, rows=rows)
    note = "more reads texts without labels too"
    assert compared(storage, "base", "more").notes == (note,)
    assert compared(storage, "more", "base").notes == (note,)
    write_study(BASE, name="other", settings={"tau": 0.1}, rows={**rows, "unlabeled": "v"})
    note = "other reads other texts without labels than more"
    assert compared(storage, "more", "other").notes == (note,)
    write_study(BASE, name="alike", settings={"tau": 0.1})
    assert not compared(storage, "base", "alike").notes


def test_training_times_are_unequal_only_if_they_are_long(write_study: WriteStudy) -> None:
    write_study(BASE, name="base")
    storage = write_study(BETTER, name="better")

    def lasting(name: str, seconds: float) -> Report:
        found = report(storage, name)
        lines = [
            replace(line, seeds=tuple(replace(seed, seconds=seconds) for seed in line.seeds))
            for line in found.configurations
        ]
        return replace(found, configurations=tuple(lines))

    assert unequal_budgets([lasting("base", 1), lasting("better", 9)]) == []
    long = [lasting("base", 1000), lasting("better", 2500)]
    assert unequal_budgets(long) == ["training time"]


def test_fresh_seeds_of_another_protocol_are_not_those_of_the_winner(
    write_study: WriteStudy,
) -> None:
    storage = write_study(BASE, name="base", values=[{}])
    fresh = {"values": [{}], "confirms": "base", "fresh": 7}
    write_study(BASE, name="other", protocol="gunel-fewshot-b", **fresh)
    assert confirmed_score(report(storage, "base")) is None
    write_study(BASE, name="again", **fresh)
    assert confirmed_score(report(storage, "base")) is not None


def test_a_repeated_winner_is_marked_as_a_repetition(
    write_study: WriteStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(BASE, name="base", settings={"tau": 0.1})
    storage = write_study(BASE, name="again", values=[{}], fresh=7)
    found = compared(storage, "base", "again")
    assert "again has other seeds than base: pairs share nothing but rows" in found.notes
    assert any(line.endswith("#0 the winner that it repeats") for line in text_of(found, capsys))


def test_a_winner_is_shown_with_its_score_on_fresh_seeds(
    write_study: WriteStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(BASE, [(1, 1)] * 3, name="base")
    storage = write_study([(1, 1)] * 3, BETTER, name="better")
    text = text_of(compared(storage, "base", "better"), capsys)
    commands = [f"sclsearch confirm {study} --storage {storage}" for study in ("base", "better")]
    assert [line for line in text if line.startswith("sclsearch ")] == commands
    write_study([(1, 99)] * 4, name="loser", fresh=7, values=[{"tau": 0.1}], confirms="better")
    note = "the fresh seeds of loser are of #0 of better, not of the winner"
    assert note in compared(storage, "base", "better").notes
    write_study([(1, 99)], name="foreign", fresh=7, values=[{"tau": 0.7}], confirms="better")
    assert "foreign" not in str(compared(storage, "base", "better").notes)
    winner = {"values": [{"tau": 0.2}], "confirms": "better"}
    write_study([(1, 95)] * 5, name="continued", fresh=1, **winner)
    shared = "the seeds of continued are not fresh: better has them too"
    assert shared in compared(storage, "base", "better").notes
    write_study([(1, 60), (1, 62)], name="few", fresh=7, **winner)
    write_study([(1, 60), (1, 62), (1, 64)], name="again", fresh=7, **winner)
    (storage / "studies/damaged").mkdir()
    (storage / "studies/damaged/study.json").write_text("{")
    found = compared(storage, "base", "better")
    assert note not in found.notes
    assert found.studies[0].confirmed is None
    confirmed = found.studies[1].confirmed
    assert confirmed is not None
    assert (confirmed.study, confirmed.seeds) == ("again", 3)
    assert confirmed.mean == pytest.approx(0.62)
    assert compared(storage, "base", "better").studies[1].confirmed == confirmed
    text = text_of(found, capsys)
    assert "2 scl 0.6500 ± 0.0100 0.6200 ± 0.0200 (3 seeds) #1 tau=0.2" in text
    assert commands[0] in text
    assert commands[1] not in text
    write_study(BASE, name="base-again", fresh=9, values=[{"tau": 0.1}], confirms="base")
    text = text_of(compared(storage, "base", "better"), capsys)
    assert f"sclsearch compare base-again again --storage {storage}" in text


def test_a_winner_of_a_gpu_search_may_have_fresh_seeds_on_cpus(
    write_study: WriteStudy,
) -> None:
    storage = write_study([(1, 1)] * 3, BETTER, name="better", gpus=["H100"] * 3)
    fresh = {"values": [{"tau": 0.2}], "confirms": "better", "fresh": 7}
    write_study([(1, 60), (1, 62)], name="on-cpus", **fresh)
    confirmed = confirmed_score(report(storage, "better"))
    assert confirmed is not None
    assert confirmed.study == "on-cpus"


def test_the_search_interval_covers_other_possible_winners(write_study: WriteStudy) -> None:
    write_study(BASE, [(51, 40)] * 3, name="base")
    storage = write_study(BETTER, [(61, 50)] * 3, name="better")
    better = compared(storage, "base", "better").studies[1]
    assert better.search_interval is not None
    assert better.comparison is not None
    assert better.comparison.interval is not None
    assert better.search_interval[0] < -0.05 < better.comparison.interval[0]
    assert better.search_interval[1] > 0.2 > better.comparison.interval[1]


def test_the_search_interval_estimates_skipped_seed_runs(
    write_study: WriteStudy,
) -> None:
    hard = [(50, 55), (60, 62), (70, 77)]
    best = [(v + 10, t + 10) for v, t in hard]
    write_study(hard, hard, name="base")
    write_study(best, hard, name="whole")
    storage = write_study(best, [hard[0], None, None], name="race")
    whole, race = compared(storage, "base", "whole", "race").studies[1:]
    assert whole.search_interval is not None
    assert race.search_interval == pytest.approx(whole.search_interval)
    assert whole.search_interval[0] < 0.05


def test_equal_pairs_are_not_tested_for_significance(
    write_study: WriteStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(BASE, name="base")
    found = compared(write_study(BASE, name="same"), "base", "same")
    assert "All pairs are equal: there is nothing to test." in text_of(found, capsys)


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        ("rows", {"data": "e"}),
        ("metric", {"metric": "macro_f1"}),
        ("test rows", {"rows": {"train": "aaa", "test": "u"}}),
    ],
)
def test_studies_with_different_rows_or_metrics_are_not_compared(
    write_study: WriteStudy, kind: str, other: dict[str, object]
) -> None:
    write_study(BASE, name="base")
    storage = write_study(BETTER, name="better", **other)
    with pytest.raises(SclsearchError, match=f"base .* differ in their {kind}"):
        compared(storage, "base", "better")


def test_a_single_study_or_one_without_a_winner_is_not_compared(write_study: WriteStudy) -> None:
    write_study(BASE, name="base")
    storage = write_study([(1, 1), (2, 2), None], name="begun")
    for names in (["base"], ["base", "base"]):
        with pytest.raises(SclsearchError, match="two or more different studies, got"):
            compared(storage, *names)
    with pytest.raises(SclsearchError, match="begun: no configuration is finished"):
        compared(storage, "base", "begun")


@pytest.mark.parametrize("method", ["scl", "/my files/mine.py:Mine"])
def test_a_rerun_command_names_storage_and_only_a_custom_method(
    write_study: WriteStudy, method: str
) -> None:
    storage = write_study([(70, 60)])
    found = replace(report(storage, "made-up"), method_place=method)
    program, name, *words = shlex.split(rerun_command(found, "0123456789abcdef"))
    group: Any = typer.main.get_command(app)
    parsed = group.commands[name].make_context(name, words).params
    assert (program, parsed["key"]) == ("sclsearch", "0123456789ab")
    assert str(parsed["storage"]) == str(storage)
    assert parsed["method"] == (None if method == "scl" else method)


def test_a_confirm_command_names_only_a_custom_method_and_another_rule(
    write_study: WriteStudy,
) -> None:
    write_study([(70, 60)], name="base", rule="top-1")
    storage = write_study([(70, 60)], name="mine")
    base, mine = (report(storage, name) for name in ("base", "mine"))
    found = compare_studies([base, replace(mine, method_place="mine.py:Mine", rule="best")])
    assert confirmations(found)[1] == [
        f"sclsearch confirm base --storage {storage}",
        f"sclsearch confirm mine --method mine.py:Mine --rule best --storage {storage}",
    ]
