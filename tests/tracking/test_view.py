"""Tests of the table of an experiment in MLflow."""

import json
from collections.abc import Sequence
from dataclasses import replace

from sclsearch.search.scheduler import Scheduler
from sclsearch.tracking.logger import MLflowLogger
from sclsearch.tracking.view import VIEW, write_view
from tests.tracking.conftest import Shown
from tests.workspace import Prepare, Workers


def finish(scheduler: Scheduler, workers: Workers, right: Sequence[int]) -> None:
    """Finish a search in which configuration `i` classifies `right[i]` of 20 rows correctly."""
    while tasks := workers.running(scheduler):
        task = tasks[0]
        number = right[task.configuration.number]
        counts = {"validation": {"confusion": [[number, 20 - number], [0, 0]]}}
        run = workers.trained(task)
        run = replace(run, evaluations=({**run.evaluations[0], **counts},))
        scheduler.runs.put(run)
        scheduler.finish(task, run)


def test_the_winner_is_in_the_first_row_among_equal_scores(
    prepare: Prepare, workers: Workers, uri: str, shown: Shown
) -> None:
    for study in ("b", "a"):
        scheduler = prepare(study=study, race="off").begin()
        finish(scheduler, workers, (12, 15, 15, 15))
        logger = MLflowLogger(uri)
        logger.sync(scheduler.state)
        assert logger.close() is None
        assert scheduler.state.winner is not None
        assert scheduler.state.winner.number == 1
    (experiment,) = shown.client.search_experiments(filter_string="name != 'Default'")
    write_view(shown.client, experiment.experiment_id)
    tags = shown.client.get_experiment(experiment.experiment_id).tags
    view = json.loads(tags[f"mlflow.sharedViewState.{VIEW}"])
    rows = shown.client.search_runs(
        [experiment.experiment_id],
        view["searchFilter"],
        order_by=[f"{view['orderByKey']} {'ASC' if view['orderByAsc'] else 'DESC'}"],
    )
    names = [run.data.tags["sclsearch.id"] for run in rows]
    configurations = [(name[0], int(name.rpartition("/")[2])) for name in names]
    best = [(study, number) for study in ("a", "b") for number in (1, 2, 3)]
    assert configurations == [*best, ("a", 0), ("b", 0)]
