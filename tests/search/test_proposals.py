"""Tests of proposals: a configuration depends only on its number and the visible scores."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sclsearch.canonical import canonical, digest
from sclsearch.search.proposals import ObservedConfiguration, propose
from sclsearch.spaces.space import Choice, Parameter, Range, Space, Values
from sclsearch.study.spec import Sampler

RANDOM_START = 10  # default of Optuna's TPE sampler
WIDE = Space(
    method="supcl-seq",
    source="a test",
    parameters={
        "dropouts": Choice(((0.0, 0.1), (0.1, 0.1), (0.0, 0.1, 0.2))),
        "probe_learning_rate": Range(1e-4, 1e-2, "log"),
        "tau": Range(0.05, 1.0, "float"),
        "epochs": Choice((1, 5, 9)),
    },
    published=(
        {"dropouts": (0.0, 0.1), "probe_learning_rate": 1e-3, "tau": 0.05, "epochs": 5},
        {"dropouts": (0.1, 0.1), "probe_learning_rate": 1e-2, "tau": 0.5, "epochs": 1},
    ),
    fixed={},
    file="wide.yaml",
)
FINITE = Space(
    method="scl",
    source="a test",
    parameters={
        "tau": Choice((0.1, 0.3, 0.5)),
        "lam": Choice((0.5, 0.9)),
        "pooling": Choice(("mean", "cls_raw")),
    },
    published=({"tau": 0.3, "lam": 0.9, "pooling": "mean"},),
    fixed={},
    file="finite.yaml",
)
SAMPLERS: tuple[Sampler, ...] = ("tpe", "gp", "random", "grid")


def by_chance(values: Values) -> float:
    return int(digest(values)[:8], 16) / 2**32


def searched(
    space: Space,
    sampler: Sampler,
    count: int,
    search_seed: int = 0,
    score: Callable[[Values], float] = by_chance,
) -> list[ObservedConfiguration]:
    """Return the proposals of a search that finishes each configuration before the next."""
    known: list[ObservedConfiguration] = []
    while len(known) < count and (proposal := propose(space, sampler, search_seed, known)):
        known.append(ObservedConfiguration(proposal[0], score(proposal[0])))
    return known


def test_published_configurations_come_first_and_sampled_ones_differ() -> None:
    known: list[ObservedConfiguration] = []
    for values in WIDE.published:
        assert propose(WIDE, "tpe", 0, known) == (values, "published")
        known.append(ObservedConfiguration(values, None))
    third = propose(WIDE, "tpe", 0, known)
    assert third is not None
    assert third[1] == "sampled"
    fourth = propose(WIDE, "tpe", 0, [*known, ObservedConfiguration(third[0], None)])
    assert fourth is not None
    assert fourth[0] != third[0]


@pytest.mark.parametrize(("sampler", "count"), [("tpe", 30), ("gp", 14), ("random", 30)])
def test_every_proposal_is_inside_the_space(sampler: Sampler, count: int) -> None:
    known = searched(WIDE, sampler, count)
    assert [WIDE.field_errors(one.values) for one in known] == [[]] * count
    assert {type(one.values["dropouts"]) for one in known} == {tuple}


@pytest.mark.parametrize("sampler", ["tpe", "gp", "random"])
def test_the_same_arguments_give_the_same_proposal(sampler: Sampler) -> None:
    assert searched(WIDE, sampler, 14) == searched(WIDE, sampler, 14)


def test_the_random_start_of_tpe_is_the_same_in_every_release() -> None:
    epochs = [one.values["epochs"] for one in searched(WIDE, "tpe", RANDOM_START)]
    assert epochs == [5, 1, 5, 1, 9, 9, 1, 1, 1, 9]


@pytest.mark.slow
def test_proposals_are_the_same_in_every_process() -> None:
    program = "from tests.search.test_proposals import *; print(searched(WIDE, 'tpe', 14))"
    one, other = (
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )
    assert one == other
    assert one.count(b"ObservedConfiguration") == 14


@pytest.mark.parametrize("sampler", ["tpe", "gp", "random"])
def test_the_search_seed_changes_sampled_but_not_published_configurations(
    sampler: Sampler,
) -> None:
    one, other = searched(WIDE, sampler, 5, 0), searched(WIDE, sampler, 5, 1)
    assert one[:2] == other[:2]
    assert all(a != b for a, b in zip(one[2:], other[2:], strict=True))


@pytest.mark.parametrize("sampler", ["random", "grid"])
def test_random_and_grid_ignore_scores(sampler: Sampler) -> None:
    space = FINITE if sampler == "grid" else WIDE
    for open_ones in (0, 3):
        known = searched(space, sampler, 7)
        unknown = [ObservedConfiguration(one.values, None) for one in known[7 - open_ones :]]
        unscored = [*known[: 7 - open_ones], *unknown]
        worst = [ObservedConfiguration(one.values, -1.0) for one in known]
        assert propose(space, sampler, 0, unscored) == propose(space, sampler, 0, worst)


def test_tpe_uses_scores_only_after_its_random_start() -> None:
    def flat(_values: Values) -> float:
        return 0.5

    first = searched(WIDE, "tpe", RANDOM_START)
    assert searched(WIDE, "tpe", RANDOM_START, score=flat) == [
        ObservedConfiguration(one.values, 0.5) for one in first
    ]
    more = searched(WIDE, "tpe", RANDOM_START + 5)
    turned = [ObservedConfiguration(one.values, 1 - (one.score or 0.0)) for one in more]
    assert propose(WIDE, "tpe", 0, more) != propose(WIDE, "tpe", 0, turned)


def test_tpes_random_start_does_not_count_open_configurations() -> None:
    known = searched(WIDE, "tpe", RANDOM_START)
    pending = [*known[:-1], ObservedConfiguration(known[-1].values, None)]
    turned = [
        ObservedConfiguration(one.values, None if one.score is None else 1 - one.score)
        for one in pending
    ]
    assert propose(WIDE, "tpe", 0, pending) == propose(WIDE, "tpe", 0, turned)


def test_tpe_proposes_configurations_where_scores_are_high() -> None:
    def near_the_end(values: Values) -> float:
        return float(str(values["tau"]))

    late = searched(WIDE, "tpe", 40, score=near_the_end)[-15:]
    assert sum(float(str(one.values["tau"])) for one in late) / 15 > 0.7


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_finite_space_is_proposed_completely_without_repetition(
    sampler: Sampler,
) -> None:
    known = searched(FINITE, sampler, 100)
    assert len(known) == FINITE.size()
    assert {canonical(one.values) for one in known} == set(map(canonical, FINITE.grid()))
    assert propose(FINITE, sampler, 0, known) is None


def test_a_sampler_that_repeats_itself_still_proposes_new_configurations() -> None:
    parameters: dict[str, Parameter] = {
        "lam": Choice(tuple(n / 8 for n in range(8))),
        "tau": Choice((0.1, 0.3, 0.5, 0.7)),
    }
    space = replace(FINITE, parameters=parameters, published=())
    known = searched(space, "tpe", 40, score=lambda values: float(values["lam"] == 0.5))
    assert len({canonical(one.values) for one in known}) == len(known) == 32


def test_a_grid_follows_the_order_of_the_space_after_the_published_one() -> None:
    known = searched(FINITE, "grid", 100)
    rest = [values for values in FINITE.grid() if values != FINITE.published[0]]
    assert [one.values for one in known] == [FINITE.published[0], *rest]


def test_a_space_without_parameters_has_one_configuration() -> None:
    space = replace(FINITE, parameters={}, published=())
    assert propose(space, "tpe", 0, []) == ({}, "given")
    assert propose(space, "tpe", 0, [ObservedConfiguration({}, 0.5)]) is None
