"""Table of an MLflow experiment: its columns, filter and order."""

import json
from typing import Any

from sclsearch.tracking.server import connect, quietly
from sclsearch.tracking.writer import LEVEL

VIEW = "ranking"
"""Key of the table's saved view in the address of an experiment."""
PARAMETERS = "workflowType=machine_learning"
"""Without it the UI opens its pages for language model applications."""
_VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
_METRICS = ("score", "validation_loss", "test", "test_std")


def write_view(client: Any, experiment_id: str) -> None:
    """Write the view of the table to an experiment: all configurations, the best first."""
    runs = client.search_runs([experiment_id], f"tags.{LEVEL} = 'study'")
    view = json.dumps(_view(runs))
    if client.get_experiment(experiment_id).tags.get(_VIEW_TAG) != view:
        client.set_experiment_tag(experiment_id, _VIEW_TAG, view)


def pages(uri: str, server: str) -> list[tuple[str, str]]:
    """Return name and address of each experiment that has a view, last changed first.

    `server` is the address of the UI, such as `http://127.0.0.1:5000`.
    """
    with quietly():
        found = connect(uri).search_experiments(order_by=["last_update_time DESC"])
    return [
        (
            one.name,
            f"{server}/#/experiments/{one.experiment_id}/runs?{PARAMETERS}&viewStateShareKey={VIEW}",
        )
        for one in found
        if _VIEW_TAG in one.tags
    ]


def _view(runs: list[Any]) -> dict[str, object]:
    """Return the state of the UI's table; `runs` are those of the studies."""
    searched = [name for run in runs for name in run.data.tags.get("searched", "").split()]
    metrics = [f"metrics.`{name}`" for name in _METRICS]
    params = [f"params.`{name}`" for name in ("method", *dict.fromkeys(searched))]
    widths = {"attributes.`Run Name`": 330, **dict.fromkeys([*metrics, *params], 130)}
    return {
        "searchFilter": f"tags.{LEVEL} = 'configuration'",
        "orderByKey": "metrics.`score`",
        "orderByAsc": False,
        "selectedColumns": [*metrics, *params],
        "columnOrder": [*widths],
        "columnWidths": widths,
    }
