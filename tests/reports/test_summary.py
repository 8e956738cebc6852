"""Tests of the three sentences of a report or comparison, which all outputs share."""

import re
from pathlib import Path
from typing import Any

import pytest

import sclsearch
from sclsearch.reports.comparison import compare_studies
from sclsearch.reports.report import Report, report
from sclsearch.reports.summary import Summary, summarize, summarize_comparison, summary_of
from sclsearch.store.studies import StudyStore
from sclsearch.training.baselines import LOGISTIC, MAJORITY
from tests.made_up import WriteStudy

SIX = {"train": "abcdef", "test": "t"}


def compared(storage: Path, *names: str) -> Summary:
    return summarize_comparison(compare_studies([report(storage, name) for name in names]))


def seeds(test: int, validation: int = 70) -> list[tuple[int, int]]:
    return [(validation + n, test + n % 2) for n in range(6)]


def test_the_answer_names_the_winner_its_score_and_the_command_for_new_seeds(
    write_study: WriteStudy,
) -> None:
    storage = write_study([(70, 60), (71, 62)], [(50, 1), (50, 2)])
    found = summarize(report(storage, "made-up"))
    assert found.answer == (
        "#0 is the best of 2 configurations of scl on cola by validation accuracy: test accuracy "
        "0.6100 ± 0.0141, mean ± std of all 2 seeds."
    )
    assert found.certainty.endswith("Settings of #0: tau=0.1.")
    assert found.command == f"sclsearch confirm made-up --storage {storage}"
    write_study([(1, 55), (1, 57)], name="again", confirms="made-up", fresh=7)
    again = report(storage, "made-up")
    confirmed = summary_of(again)
    assert "test accuracy 0.5600 ± 0.0141 on 2 new seeds." in confirmed.answer
    assert confirmed.answer in repr(again)
    assert confirmed.answer in again._repr_html_()
    assert again.as_dict()["summary"]["answer"] == confirmed.answer
    assert confirmed.command == f"sclsearch export made-up model --storage {storage}"


def test_an_unfinished_search_is_provisional_and_its_next_step_is_to_resume(
    write_study: WriteStudy,
) -> None:
    below = [([[0, 20], [0, 80]], 1), ([[0, 20], [0, 80]], 1)]
    write_study(below, [None, (90, 80)], name="begun", baselines={LOGISTIC: 70}, method="ce")
    storage = write_study([(70, 60), (71, 62)], [(50, 1), (50, 2)])
    StudyStore(storage, "made-up").save_start(None, 4, 2)
    for name, count in (("begun", "1 finished configuration"), ("made-up", "2 finished config")):
        found = summarize(report(storage, name))
        assert found.answer.startswith(f"So far: #0 is the best of {count}")
        assert found.certainty.startswith("The search is unfinished: another configuration may win")
        assert found.next_step == "resume the search:"
    assert "--configs 4" in summarize(report(storage, "made-up")).command
    both = compared(storage, "made-up", "begun")
    assert both.answer.startswith("So far: No method is clearly best")
    assert both.next_step.startswith("resume the search of scl, unfinished after 4 stored")
    StudyStore(storage, "made-up").save_start(None, 2, 2)
    assert "sclsearch confirm" in summarize(report(storage, "made-up")).command


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        ([(90, 90), (90, 91), (90, 92)], "is 21.0 points above that of the best baseline, log"),
        (
            [(90, 71), (90, 70), (90, 72)],
            "1.0 points, is not reliable .95 % for other seeds alone: -1.5",
        ),
        ([(85, 80), (90, 82)], "Its lead .*, 11.0 points, is not reliable .2 pairs.[.]"),
        ([(90, 71), (90, 70), (90, 72)], "; `export --baseline` saves the baseline, which may be"),
        ([(85, 51), (85, 90), (85, 90)], "not clearly better than always predicting the most freq"),
    ],
)
def test_the_answer_compares_the_winner_with_its_best_baseline(
    write_study: WriteStudy, scores: Any, sentence: str
) -> None:
    storage = write_study(scores, baselines={MAJORITY: 50, LOGISTIC: 70})
    assert re.search(sentence, " ".join(summarize(report(storage, "made-up")).lines))


def test_a_summary_without_a_next_step_has_no_paragraph_for_it() -> None:
    assert Summary("Yes.", "Sure.", "", "").lines == ("Yes.", "Sure.")


def test_the_next_configuration_is_behind_or_may_be_as_good(write_study: WriteStudy) -> None:
    best = [(90, 60), (91, 60), (92, 60)]
    storage = write_study(best, [(80, 1), (80, 1), (82, 2)], name="clear")
    write_study(best, [(90, 1), (92, 1), (88, 2)], name="near")
    near, clear = (summarize(report(storage, name)).certainty for name in ("near", "clear"))
    assert "#1 may be as good: the validation accuracy of #0 is 1.0 points higher (95 %" in near
    assert "#1 is behind: the validation accuracy of #0 is 10.3 points higher" in clear


def test_a_study_without_a_winner_says_why_and_how_to_go_on(write_study: WriteStudy) -> None:
    storage = write_study(["it [broke]", "it too"], ["it broke", "again"])
    write_study([(70, 60), None], name="begun", parameters=[])
    failed = summarize(report(storage, "made-up"))
    assert failed.answer.endswith("4 failed.")
    assert failed.certainty == "First failure: raised: it [broke]."
    begun = summarize(report(storage, "begun"))
    assert begun.answer == "No configuration is finished yet."
    assert "--study begun" in begun.command


def test_tied_configurations_are_all_named_and_what_decides(write_study: WriteStudy) -> None:
    configurations = [(70, 60)], [(70, 10)], [(60, 10)], [(70, 90)]
    write_study(*configurations, losses=[0.2, 0.15, 0.1, 0.12], name="losses")
    for name, expected in (
        ("made-up", "#0, #1 and #3 are the best of 4 .*; #0 has the lowest number: "),
        ("losses", "#3, #1 and #0 are the best of 4 .*; #3 has the lowest validation loss: "),
    ):
        found = summarize(report(write_study(*configurations), name))
        assert re.match(expected, found.answer)
        assert found.certainty.startswith("More validation rows would separate")


def test_the_best_of_several_is_named_only_if_it_is_above_all_others_by_the_adjusted_test(
    write_study: WriteStudy,
) -> None:
    write_study(seeds(60), name="low", method="ce", rows=SIX)
    write_study(seeds(61), name="near", method="lacon", rows=SIX)
    storage = write_study(seeds(90), name="high", rows=SIX)
    two = compared(storage, "low", "high")
    assert two.answer == "scl is best on cola: test accuracy 0.9050 ± 0.0055, 30.0 points above ce."
    assert "scl minus ce: +30.0 points (6 pairs), p = 0.031" in two.certainty
    assert two.command == f"sclsearch confirm low high --storage {storage}"
    three = compared(storage, "low", "near", "high")
    assert three.answer.startswith("No method is clearly best on cola. scl has the highest test")
    assert "the lead over lacon and ce may be chance." in three.answer
    assert three.certainty.endswith("that takes at least 7 seeds.")
    write_study(seeds(90), name="same", method="cmlm", rows=SIX)
    equal = compared(storage, "high", "same").answer
    assert "scl and cmlm have the highest test accuracy 0.9050 ± 0.0055." in equal


def test_the_lead_over_a_baseline_is_shown_only_for_the_compared_seeds(
    write_study: WriteStudy,
) -> None:
    write_study(seeds(90), name="six", rows=SIX, baselines={LOGISTIC: 70})
    write_study(seeds(60), name="others", method="ce", rows=SIX)
    three = {name: digests[:3] if name == "train" else digests for name, digests in SIX.items()}
    storage = write_study(seeds(60)[:3], name="three", method="lacon", rows=three)
    assert "best baseline" in compared(storage, "six", "others").answer
    assert "best baseline" not in compared(storage, "six", "three").answer


def test_a_comparison_continues_with_new_seeds_until_all_winners_have_some(
    write_study: WriteStudy,
) -> None:
    fresh: dict[str, Any] = {"values": [{"tau": 0.1}], "fresh": 7, "rows": SIX}
    write_study(seeds(60), name="base", method="ce", rows=SIX)
    write_study(seeds(60), name="base-again", method="ce", confirms="base", **fresh)
    storage = write_study(seeds(70), name="better", rows=SIX)
    assert "confirm base better" in compared(storage, "base", "better").command
    write_study(seeds(70), name="again", confirms="better", **fresh)
    end = f"sclsearch compare base-again again --storage {storage}"
    assert compared(storage, "base", "better").command == end
    assert compared(storage, "base-again", "again").command == ""


def test_no_method_is_best_if_the_best_is_useless(write_study: WriteStudy) -> None:
    baselines = {LOGISTIC: 90}
    write_study(seeds(60), name="low", method="ce", rows=SIX, baselines=baselines)
    storage = write_study(seeds(70), name="high", rows=SIX, baselines=baselines)
    found = compared(storage, "low", "high")
    assert found.answer.startswith("No method is useful on cola. scl is the best, but ")
    assert found.command.startswith("sclsearch tune --method scl ")


def test_a_notebook_shows_the_summary_and_escapes_texts(write_study: WriteStudy) -> None:
    values = [{"kind": "<script>"}, *({"kind": f"k{number}"} for number in range(24))]
    scores = [[(90 - number, 50), (90 - number, 60)] for number in range(25)]
    storage = write_study(*scores, values=values)
    found: Report = sclsearch.select("made-up", storage=storage)
    page = found._repr_html_()
    assert "#0 is the best of 25" in page
    assert ("<script>" in page, page.count("&lt;script&gt;")) == (False, 2)
    assert ("k18" in page, "k19" in page, "… and 5 more" in page) == (True, False, True)
    write_study(*scores, name="other", method="ce")
    both = sclsearch.compare("made-up", "other", storage=storage)
    assert repr(both).startswith("<Comparison of made-up, other>\nNo method is clearly best")
