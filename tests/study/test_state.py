"""Tests of the search state: scores and winner, live and from stored records."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sclsearch.selection.rules import CAREFUL, Rule, parse_rule
from sclsearch.store.runs import SeedRun
from sclsearch.study.state import ConfigurationScore, SearchState, stored_state
from sclsearch.tasks.metrics import validation_loss
from tests.studies import Prepare, Workers


@pytest.fixture
def live(prepare: Prepare, workers: Workers) -> SearchState:
    """Return the state of a search after all seed runs but the last."""
    scheduler = prepare(configs=3, seeds=4).begin()
    while len(scheduler.state.seed_runs) != 11:
        workers.finish(scheduler, workers.running(scheduler)[0])
    return scheduler.state


def rebuilt(live: SearchState, rule: Rule | None = None, *, without: int = -1) -> SearchState:
    """Return a state of the same records under a rule, in reverse order, without one of them."""
    runs = [one for one in live.seed_runs.items() if one[0][0] != without]
    configurations = [one for one in live.configurations if one.number != without]
    return SearchState.from_records(
        live.record, live.replicates, configurations, reversed(runs), rule or live.rule
    )


def test_stored_records_give_the_state_of_the_search(live: SearchState, prepare: Prepare) -> None:
    runs = prepare(configs=3, seeds=4).runs
    records = live.record, live.replicates, live.configurations, live.rule
    stored, damaged = stored_state(runs, *records)
    assert damaged == []
    compact = {run_id: run.compact() for run_id, run in stored.seed_runs.items()}
    assert {n: replace(run, identity={}) for n, run in compact.items()} == {
        n: replace(run, identity={}) for n, run in live.seed_runs.items()
    }
    assert stored.scores == live.scores
    assert stored.winner == live.winner == max(live.scores.values(), key=lambda one: one.rank)
    assert np.array_equal(stored.race.scores, live.race.scores, equal_nan=True)
    assert live.first_scores(1)[0] == live.scores[1].score
    path = runs.folder / f"{live.seed_runs[0, 2].key}.json"
    path.write(b"{")
    state, (fault,) = stored_state(runs, *records)
    assert fault.startswith(str(path))
    assert (0, 2) not in state.seed_runs
    assert 0 not in state.scores


def test_under_the_rule_careful_only_a_start_gets_all_seeds(live: SearchState) -> None:
    for origin, kept in (("start", True), ("sampled", False)):
        state = SearchState(live.record, live.replicates, CAREFUL, band=2.5)
        state.add_configuration(replace(live.configurations[0], origin=origin))
        assert state.race.keep_first == kept


def test_neither_the_order_of_seed_runs_nor_a_missing_configuration_changes_scores(
    live: SearchState,
) -> None:
    again = rebuilt(live)
    assert again.scores == live.scores
    assert np.array_equal(again.first_scores(), live.first_scores(), equal_nan=True)
    rest = rebuilt(live, without=1)
    assert rest.scores == {0: live.scores[0]}
    assert rest.first_scores()[0] == live.scores[0].score


@pytest.mark.parametrize(("rule", "k"), [("mean", 4), ("top-2", 2), ("best", 1)])
def test_score_and_loss_are_the_means_of_the_seeds_that_the_rule_counts(
    live: SearchState, rule: str, k: int
) -> None:
    def validated(run: SeedRun) -> float:
        return run.validated("accuracy") or 0.0

    for place, run in live.seed_runs.items():
        validation = {**(run.validation or {}), "log_loss": 1.0 + sum(place)}
        evaluation = {**run.evaluations[0], "validation": validation}
        live.seed_runs[place] = replace(run, evaluations=(evaluation,))
    state = rebuilt(live, parse_rule(rule))
    for number, score in state.scores.items():
        runs = sorted(state.runs_of(number).values(), key=validated, reverse=True)[:k]
        assert score.score == pytest.approx(np.mean([validated(run) for run in runs]))
        losses = [validation_loss(run.validation or {}) for run in runs]
        assert score.loss == pytest.approx(np.mean(losses))


def test_equal_scores_are_ranked_by_loss_and_then_by_number() -> None:
    losses = {0: 0.3, 1: 0.2, 2: 0.2, 3: math.inf}
    scores = [ConfigurationScore(number, 0.8, loss, None, None) for number, loss in losses.items()]
    scores.append(ConfigurationScore(4, 0.9, 0.9, None, None))
    ranked = sorted(scores, key=lambda one: one.rank, reverse=True)
    assert [one.number for one in ranked] == [4, 1, 2, 0, 3]
