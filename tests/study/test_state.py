"""Tests of the search state: scores and winner, live and from stored records."""

import math

import numpy as np
import pytest

from sclsearch.selection.rules import parse_rule
from sclsearch.study.state import ConfigurationScore, SearchState, stored_state
from sclsearch.tasks.metrics import validation_loss
from tests.workspace import Prepare, Workers


@pytest.fixture
def live(prepare: Prepare, workers: Workers) -> SearchState:
    """Return the state of a search after all seed runs but the last."""
    scheduler = prepare(configs=3, seeds=4).begin()
    for task in workers.running(scheduler):
        workers.finish(scheduler, task)
    for task in workers.running(scheduler)[:-1]:
        workers.finish(scheduler, task)
    return scheduler.state


def test_stored_records_give_the_state_of_the_search(live: SearchState, prepare: Prepare) -> None:
    prepared = prepare(configs=3, seeds=4)
    stored, damaged = stored_state(
        prepared.runs, live.record, live.replicates, live.configurations, live.rule
    )
    assert damaged == []
    assert stored.seed_runs == live.seed_runs
    assert stored.scores == live.scores
    assert stored.winner == live.winner == max(live.scores.values(), key=lambda one: one.rank)
    assert np.array_equal(stored.race.scores, live.race.scores, equal_nan=True)
    assert list(live.first_scores()) == [0, 1]


def test_the_order_of_seed_runs_does_not_matter(live: SearchState) -> None:
    runs = reversed(live.seed_runs.items())
    again = SearchState.from_records(
        live.record, live.replicates, live.configurations, runs, live.rule
    )
    assert again.scores == live.scores
    assert again.first_scores() == live.first_scores()


def test_another_rule_gives_other_scores(live: SearchState) -> None:
    best = SearchState.from_records(
        live.record,
        live.replicates,
        live.configurations,
        live.seed_runs.items(),
        parse_rule("best"),
    )
    for number, score in best.scores.items():
        validation = [run.validated("accuracy") or 0 for run in best.runs_of(number).values()]
        assert score.score == max(validation) >= live.scores[number].score


@pytest.mark.parametrize("rule", ["mean", "top-2"])
def test_the_loss_of_a_configuration_is_that_of_the_seeds_that_its_score_counts(
    live: SearchState, rule: str
) -> None:
    state = SearchState.from_records(
        live.record,
        live.replicates,
        live.configurations[:1],
        [(run_id, run) for run_id, run in live.seed_runs.items() if not run_id[0]],
        parse_rule(rule),
    )
    runs = [run for run in state.runs_of(0).values() if run.validation]
    runs.sort(key=lambda run: run.validated("accuracy") or 0, reverse=True)
    counted = [validation_loss(run.validation or {}) for run in runs[: state.rule.score.k]]
    assert state.scores[0].loss == pytest.approx(sum(counted) / len(counted))


def test_equal_scores_are_ranked_by_loss_and_then_by_number() -> None:
    losses = {0: 0.3, 1: 0.2, 2: 0.2, 3: math.inf}
    scores = [ConfigurationScore(number, 0.8, loss, None, None) for number, loss in losses.items()]
    scores.append(ConfigurationScore(4, 0.9, 0.9, None, None))
    ranked = sorted(scores, key=lambda one: one.rank, reverse=True)
    assert [one.number for one in ranked] == [4, 1, 2, 0, 3]


def test_a_damaged_configuration_leaves_a_gap_in_the_numbers(live: SearchState) -> None:
    left = [configuration for configuration in live.configurations if configuration.number != 1]
    runs = [(run_id, run) for run_id, run in live.seed_runs.items() if run_id[0] != 1]
    state = SearchState.from_records(live.record, live.replicates, left, runs, live.rule)
    assert state.scores == {0: live.scores[0]}
    assert state.first_scores() == {0: live.scores[0].score}


def test_a_damaged_seed_run_is_reported_and_missing(live: SearchState, prepare: Prepare) -> None:
    prepared = prepare(configs=3, seeds=4)
    path = prepared.runs.folder / f"{live.seed_runs[0, 2].key}.json"
    path.write(b"{")
    state, (fault,) = stored_state(
        prepared.runs, live.record, live.replicates, live.configurations, live.rule
    )
    assert fault.startswith(str(path))
    assert (0, 2) not in state.seed_runs
    assert 0 not in state.scores
