"""Tests of a race with Ray: fewer seed runs, the same winner, and forecasts in MLflow."""

from pathlib import Path

import pytest

from sclsearch.reports.report import report
from sclsearch.search.run import SearchResult
from sclsearch.selection.race import FIRST
from tests.in_process import in_process
from tests.workspace import Workspace, WriteSpace

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]

# At the small learning rates nothing is learned.
SPACE = """
method: scl
source: a test
published: [{learning_rate: 1e-2}]
fixed: {epochs: 8, batch_size: 8, max_length: 16, pooling: mean}
space:
  learning_rate: {type: choice, values: [1e-2, 1e-7, 2e-7, 3e-7]}
"""
RISK, SEEDS = 0.3, 6


@pytest.fixture(scope="module")
def racing(
    workspace: Workspace,
    write_space: WriteSpace,
    tmp_path_factory: pytest.TempPathFactory,
) -> Workspace:
    """Return a workspace for a race of four configurations, only one of which learns."""
    return workspace.elsewhere(tmp_path_factory.mktemp("race"), space=write_space(SPACE))


@pytest.fixture(scope="module")
def raced(racing: Workspace) -> SearchResult:
    """Return the result of a race that tests only its winner."""
    return racing.run(race=RISK, seeds=SEEDS, test_scores="winner")


def test_a_race_trains_less_and_reports_its_risk(racing: Workspace, raced: SearchResult) -> None:
    assert (raced.ending, raced.failed) == ("complete", 0)
    assert raced.trained == raced.done == len(racing.runs()) < 4 * SEEDS
    found = report(racing.storage, raced.name)
    assert found.winner is not None
    assert found.winner.number == 0
    assert 0 < found.risk <= RISK
    assert {len(line.seeds) for line in found.configurations[1:]} <= {*range(FIRST, SEEDS)}
    assert all(seed.test is not None for seed in found.winner.seeds)
    assert all(seed.test is None for line in found.configurations[1:] for seed in line.seeds)


def test_mlflow_shows_the_forecasts_of_incomplete_configurations(
    racing: Workspace, raced: SearchResult
) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{racing.storage / 'mlflow.db'}")
    shown = client.search_runs([e.experiment_id for e in client.search_experiments()])
    assert {run.info.status for run in shown} == {"FINISHED"}
    by_level = {
        level: [run for run in shown if run.data.tags["level"] == level]
        for level in ("study", "configuration")
    }
    found = report(racing.storage, raced.name)
    (study,) = by_level["study"]
    assert study.data.metrics["risk"] == pytest.approx(found.risk)
    forecasts = [line.forecast for line in found.configurations if line.forecast is not None]
    unscored = [run for run in by_level["configuration"] if "score" not in run.data.metrics]
    assert sorted(run.data.metrics["expected_score"] for run in unscored) == pytest.approx(
        sorted(forecast.expected for forecast in forecasts)
    )
    assert sorted(run.data.metrics["win_probability"] for run in unscored) == pytest.approx(
        sorted(forecast.better for forecast in forecasts)
    )


def test_a_repeated_race_trains_nothing_and_a_full_search_trains_the_rest(
    racing: Workspace, raced: SearchResult, tmp_path: Path
) -> None:
    again = racing.run(race=RISK, seeds=SEEDS, test_scores="winner")
    assert (again.ending, again.name, again.trained) == ("complete", raced.name, 0)
    copy = racing.copy(tmp_path)
    with in_process():
        whole = copy.run(seeds=SEEDS, test_scores="winner", tracking="none")
    assert (whole.ending, whole.name, whole.done) == ("complete", raced.name, 4 * SEEDS)
    assert whole.trained == 4 * SEEDS - raced.trained
    found = report(copy.storage, raced.name)
    assert found.risk == 0.0
    assert found.winner is not None
    assert found.winner.number == 0
