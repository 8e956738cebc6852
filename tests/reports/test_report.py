"""Tests of the report: ranking by validation, test scores of the reported seeds, notes."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import Report, finished_winner, report
from sclsearch.selection.rules import parse_rule
from sclsearch.store.studies import StudyStore
from tests.reports.conftest import FIELDS, WriteStudy

# The validation rules mean, top-2 and best each prefer a different configuration.
MEAN = [(70, 50), (70, 60), (70, 70)]
TOP_2 = [(80, 51), (80, 61), (40, 71)]
BEST = [(90, 52), (50, 62), (50, 72)]
FAILING = [(80, 50), "loss ce is nan at update 7", (60, 70)]


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
    assert found.lead == pytest.approx(scores[0] - scores[1])
    assert found.rule == rule
    own = report(Path(found.storage), "made-up")
    assert (own.rule, numbers(own)) == (f"{rule}/best" if rule != "best" else rule, ranking)


def test_a_winner_without_a_second_has_no_lead(write_study: WriteStudy) -> None:
    assert report(write_study(MEAN, ["a fault"] * 3), "made-up").lead is None


def test_unfinished_configurations_rank_last_in_order_without_a_score(
    write_study: WriteStudy,
) -> None:
    storage = write_study([(99, 99), None], [(50, 1), (50, 1)], [None, None], [(60, 1), (60, 1)])
    found = report(storage, "made-up")
    assert numbers(found) == [3, 1, 0, 2]
    assert [line.score is None for line in found.configurations] == [False, False, True, True]
    assert [len(line.seeds) for line in found.configurations] == [2, 2, 1, 0]


def test_a_failed_seed_counts_as_the_minimum_and_has_no_test_score(write_study: WriteStudy) -> None:
    winner = finished_winner(report(write_study(FAILING), "made-up"))
    assert winner.score == pytest.approx((0.8 + 0.0 + 0.6) / 3)
    assert winner.failed == 1
    assert winner.reported == (0, 2)
    assert winner.test_mean == pytest.approx(0.6)
    assert winner.seeds[1].failure == "raised: loss ce is nan at update 7"
    assert (winner.seeds[1].validation, winner.seeds[1].test) == (None, None)


def test_a_partial_report_has_the_first_seeds_and_configurations(write_study: WriteStudy) -> None:
    storage = write_study([(90, 10), (90, 20), (10, 30)], [(80, 40), (80, 50), (80, 60)])
    assert numbers(report(storage, "made-up")) == [1, 0]
    assert numbers(report(storage, "made-up", configs=1)) == [0]
    found = report(storage, "made-up", seeds=2)
    assert numbers(found) == [0, 1]
    assert found.seeds == 2
    assert [seed.replicate for seed in found.configurations[0].seeds] == [0, 1]
    storage = write_study([(90, 10), None], [(80, 40), (80, 50)], name="unfinished")
    assert numbers(report(storage, "unfinished")) == [1, 0]
    assert numbers(report(storage, "unfinished", seeds=1)) == [0, 1]


def test_an_invalid_number_of_seeds_is_refused(write_study: WriteStudy) -> None:
    storage = write_study(MEAN)
    for seeds in (0, 4):
        with pytest.raises(SclsearchError, match=f"must be between 1 and 3, .* got {seeds}\\."):
            report(storage, "made-up", seeds=seeds)
    with pytest.raises(SclsearchError, match="--seeds: rule top-3 needs at least 3, got 2"):
        report(storage, "made-up", parse_rule("top-3"), seeds=2)


def test_a_report_has_the_notes_of_the_splits_and_of_the_space(write_study: WriteStudy) -> None:
    storage = write_study(
        MEAN, notes=("chosen and reported on the same rows",), study_notes=("search space: mine",)
    )
    assert report(storage, "made-up").notes == (
        "chosen and reported on the same rows",
        "search space: mine",
    )


H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB"


def test_seed_runs_on_different_gpus_are_counted_without_failed_ones(
    write_study: WriteStudy,
) -> None:
    storage = write_study(MEAN, FAILING, gpus=(H100, A100, H100))  # the second one failed once
    (note,) = report(storage, "made-up").notes
    assert f"different devices: 4 on {H100}, 1 on {A100};" in note


@pytest.mark.parametrize("gpus", [(), (H100,) * 3])
def test_seed_runs_on_one_device_give_no_note(
    write_study: WriteStudy, gpus: tuple[str, ...]
) -> None:
    assert report(write_study(MEAN, BEST, gpus=gpus), "made-up").notes == ()


def test_a_report_names_the_stored_weights_of_the_reported_seeds(write_study: WriteStudy) -> None:
    storage = write_study(TOP_2, MEAN)
    store = StudyStore(storage, "made-up")
    lines = report(storage, "made-up", parse_rule("top-2")).configurations
    for line in lines:
        for seed in line.seeds[1:]:
            store.weights(seed.key).save_file(Path.touch)
    found = report(storage, "made-up", parse_rule("top-2"))
    assert found.weights == {lines[0].seeds[1].key: str(store.weights(lines[0].seeds[1].key))}


def test_a_report_survives_conversion_to_json(write_study: WriteStudy) -> None:
    found = asdict(report(write_study(BEST, MEAN, FAILING, notes=("n",)), "made-up"))
    back = json.loads(json.dumps(found, allow_nan=False))
    assert back.keys() == found.keys()
    assert back["configurations"][0]["fields"] == {**FIELDS, "tau": 0.2}
    for was, now in zip(found["configurations"], back["configurations"], strict=True):
        assert {**was, "seeds": [*was["seeds"]], "reported": [*was["reported"]]} == now
