"""Page of an MLflow experiment: its description, and its table with columns, filter and order."""

import json
from typing import Any

from sclsearch.tracking.ranking import WINNER, StudyResult, ranking_of_studies
from sclsearch.tracking.records import ALL_ROWS
from sclsearch.tracking.server import connect, quietly
from sclsearch.tracking.writer import DESCRIPTION, LEVEL

VIEW = "ranking"
"""Key of the table's saved view in the address of an experiment."""
PARAMETERS = "workflowType=machine_learning"
"""Without it the UI opens its pages for language model applications."""
_VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
LONGEST = 20_000
"""Most characters of a description that MLflow accepts."""
PARAGRAPH, NOT_ALL = "\n\n", "Further studies are not shown."
_METRICS = ("score", "validation_loss", "test", "test_std")


def describe_experiment(client: Any, experiment_id: str) -> None:
    """Write the ranking of studies and the view of the table to an experiment.

    A description that a person wrote stays.
    """
    experiment = client.get_experiment(experiment_id)
    query = f"tags.{LEVEL} = 'study'"
    runs = [
        run for run in client.search_runs([experiment_id], query) if "score" in run.data.metrics
    ]
    described = experiment.tags.get(DESCRIPTION, "")
    texts = {_VIEW_TAG: json.dumps(_view(runs))} if runs else {}
    if not described or described.startswith(WINNER):
        ranking = ranking_of_studies([_result(run) for run in runs]) if runs else ""
        if len(ranking) > LONGEST:
            ranking = f"{ranking[: LONGEST - 99].rpartition(PARAGRAPH)[0]}{PARAGRAPH}{NOT_ALL}"
        texts[DESCRIPTION] = ranking
    for name, text in texts.items():
        if experiment.tags.get(name, "") != text:
            client.set_experiment_tag(experiment_id, name, text)


def pages(uri: str, server: str) -> list[tuple[str, str]]:
    """Return name and address of each experiment that has a ranking, last changed first.

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
    """Return the state of the UI's table: configurations of all studies, the best first."""
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


def _result(run: Any) -> StudyResult:
    params, tags, metrics = run.data.params, run.data.tags, run.data.metrics
    digests = (
        one.dataset.digest
        for one in run.inputs.dataset_inputs
        if any(tag.value == ALL_ROWS for tag in one.tags)
    )
    return StudyResult(
        study=run.info.run_name,
        method=params.get("method", ""),
        data=next(digests, ""),
        protocol=params.get("protocol", ""),
        rule=tags.get("rule", ""),
        winner=tags.get("winner", ""),
        metric=params.get("metric", ""),
        score=metrics["score"],
        lead=tags.get("lead", ""),
        test=metrics.get("test"),
        test_std=metrics.get("test_std"),
    )
