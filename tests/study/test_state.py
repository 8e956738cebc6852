"""Tests of the search state: scores, forecasts and winner, live and from stored records."""

import pytest

from sclsearch.search.scheduler import Scheduler
from sclsearch.selection.rules import parse_rule
from sclsearch.study.state import SearchState, stored_state
from tests.workspace import Prepare, Workers


@pytest.fixture
def live(prepare: Prepare, workers: Workers) -> SearchState:
    """Return the state of a search after all seed runs but the last."""
    scheduler = Scheduler(prepare(configs=3, seeds=4).begin())
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
    assert stored.forecasts() == live.forecasts()
    assert list(live.forecasts()[0]) == [2]


def test_the_order_of_seed_runs_does_not_matter(live: SearchState) -> None:
    runs = reversed(live.seed_runs.items())
    again = SearchState.from_records(
        live.record, live.replicates, live.configurations, runs, live.rule
    )
    assert again.scores == live.scores
    assert again.forecasts() == live.forecasts()


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


def test_a_damaged_configuration_leaves_a_gap_in_the_numbers(live: SearchState) -> None:
    left = [configuration for configuration in live.configurations if configuration.number != 1]
    runs = [(run_id, run) for run_id, run in live.seed_runs.items() if run_id[0] != 1]
    state = SearchState.from_records(live.record, live.replicates, left, runs, live.rule)
    assert state.scores == {0: live.scores[0]}
    assert list(state.forecasts()[0]) == [2]


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
