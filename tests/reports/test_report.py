"""Tests of the report: ranking by validation, test scores of the reported seeds, notes."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import Report, finished_winner, report
from sclsearch.reports.studies import studies
from sclsearch.reports.words import seeds_lacking
from sclsearch.selection.rules import parse_rule
from tests.made_up import WriteStudy
from tests.protocols.conftest import labeled, splits_of

if TYPE_CHECKING:
    from sclsearch.selection.race import Band

# The validation rules mean, top-2 and best each prefer a different configuration.
MEAN = [(70, 50), (70, 60), (70, 70)]
TOP_2 = [(80, 51), (80, 61), (40, 71)]
BEST = [(90, 52), (50, 62), (50, 72)]
FAILING = [(80, 50), "loss ce is nan at update 7", (60, 70)]
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB"


def numbers(found: Report) -> list[int]:
    return [line.number for line in found.configurations]


@pytest.mark.parametrize(
    ("rule", "ranking", "scores"),
    [
        ("mean", [1, 2, 0], [0.7, 2 / 3, 0.19 / 0.3]),
        ("top-2", [2, 0, 1], [0.8, 0.7, 0.7]),
        ("best", [0, 2, 1], [0.9, 0.8, 0.7]),
    ],
)
def test_each_rule_ranks_by_its_own_validation_score(
    write_study: WriteStudy, rule: str, ranking: list[int], scores: list[float]
) -> None:
    found = report(write_study(BEST, MEAN, TOP_2, rule=f"{rule}/best"), "made-up", parse_rule(rule))
    assert numbers(found) == ranking
    assert [line.score for line in found.configurations] == pytest.approx(scores)
    assert found.winner == found.configurations[0]
    own = report(Path(found.storage), "made-up")
    assert (own.rule, numbers(own)) == (f"{rule}/best" if rule != "best" else rule, ranking)


def test_unfinished_configurations_rank_last_in_order_without_a_score(
    write_study: WriteStudy,
) -> None:
    storage = write_study([(99, 99), None], [(50, 1), (50, 1)], [None, None], [(60, 1), (60, 1)])
    found = report(storage, "made-up")
    assert numbers(found) == [3, 1, 0, 2]
    assert [line.score is None for line in found.configurations] == [False, False, True, True]
    assert [len(line.seeds) for line in found.configurations] == [2, 2, 1, 0]


def test_a_failed_seed_counts_as_the_minimum_and_has_no_test_score(write_study: WriteStudy) -> None:
    storage = write_study(FAILING)
    winner = finished_winner(report(storage, "made-up"))
    assert [one["best"] for one in studies(storage)] == [winner.score]
    assert winner.score == pytest.approx((0.8 + 0.0 + 0.6) / 3)
    assert (winner.failed, winner.reported) == (1, (0, 2))
    assert winner.test_mean == pytest.approx(0.6)
    assert winner.seeds[1].failure == "raised: loss ce is nan at update 7"
    assert (winner.seeds[1].validation, winner.seeds[1].test) == (None, None)


def test_a_configuration_whose_seeds_all_failed_never_wins(write_study: WriteStudy) -> None:
    storage = write_study(["it broke", "it too"], [(0, 10), (0, 20)])
    found = report(storage, "made-up")
    assert finished_winner(found).number == 1
    write_study(["it broke"], name="broken")
    with pytest.raises(SclsearchError, match=r"^broken: no seed run succeeded\..* it broke"):
        finished_winner(report(storage, "broken"))


def test_notes_are_those_of_splits_space_and_different_devices(write_study: WriteStudy) -> None:
    for name, gpus in (("equal", (H100,) * 3), ("different", (H100, A100, H100))):
        notes = {"notes": ("rows",), "study_notes": ("space: mine",)}
        storage = write_study(MEAN, FAILING, name=name, gpus=gpus, **notes)
        first, *found, last = report(storage, name).notes
        assert (first, last) == ("rows", "space: mine")
        # Without the seed run on an A100 that failed.
        devices = f"different devices: 4 on {H100}, 1 on {A100};"
        assert [devices in note for note in found] == [True] * (name == "different")


def test_configurations_that_lack_seeds_are_counted_and_may_win_or_not(
    write_study: WriteStudy,
) -> None:
    found = report(write_study(MEAN, [(99, 1), None, None], [None] * 3), "made-up")
    lacking = "2 of 3 configurations have fewer than 3 seeds (1 with 0, 1 with 1)"
    ends: dict[Band, str] = {
        2.5: "the race skipped their other seeds; in recorded searches, one of them would",
        "exact": "none of them could win with all seeds",
        None: "the search is unfinished, and one of them may win",
    }
    for race, end in ends.items():
        note = seeds_lacking(replace(found, race=race, finished=race is not None))
        assert note.startswith(f"{lacking}: {end}")


def test_seeds_of_one_training_subset_are_one_pair(write_study: WriteStudy) -> None:
    for subsets, pairs in (("aaabbb", 2), ("abcdef", 6)):
        scores = [(70, 60)] * 3 + [(60, 60)] * 3, [(50, 50)] * 6
        storage = write_study(*scores, name=subsets, rows={"train": subsets, "test": "t"})
        found = report(storage, subsets).over_next
        assert found is not None
        assert found.n == pairs
        assert found.difference == pytest.approx(0.15)


def test_a_report_says_whether_the_test_rows_chose_the_winner(write_study: WriteStudy) -> None:
    found = report(write_study([(70, 60), (70, 60)]), "made-up")
    assert found.choice == "The test rows played no part in the choice."
    splits = splits_of("supcl-seq", labeled(train=[0, 1] * 9, validation=[0, 1] * 9))
    assert "too high" in replace(found, rows=(splits.digests,)).choice
