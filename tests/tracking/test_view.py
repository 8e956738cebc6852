"""The table of an experiment has the winner in its first row."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sclsearch.search.scheduler import Scheduler
from sclsearch.study.prepared import PreparedStudy
from sclsearch.tracking import MLflowLogger
from sclsearch.tracking.view import VIEW, describe_experiment

if TYPE_CHECKING:
    from tests.tracking.conftest import Shown
    from tests.workspace import Workers

RIGHT = (12, 15, 15, 15)
"""Correct rows of 20 of each configuration."""


def test_of_equal_scores_the_first_row_is_that_of_the_winner(
    preparing: Callable[..., PreparedStudy], workers: "Workers", uri: str, shown: "Shown"
) -> None:
    for study in ("b", "a"):
        scheduler = Scheduler(preparing(study=study, race="off").begin())
        while tasks := workers.running(scheduler):
            task = tasks[0]
            right = RIGHT[task.configuration.number]
            counts = {"validation": {"confusion": [[right, 20 - right], [0, 0]]}}
            run = workers.trained(task)
            scheduler.finish(task, replace(run, evaluations=({**run.evaluations[0], **counts},)))
        logger = MLflowLogger(uri)
        logger.sync(scheduler.state)
        assert logger.close() is None
        assert scheduler.state.winner is not None
        assert scheduler.state.winner.number == 1
    (experiment,) = shown.client.search_experiments(filter_string="name != 'Default'")
    describe_experiment(shown.client, experiment.experiment_id)
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
    assert "| 1 | a | scl |" in tags["mlflow.note.content"]
