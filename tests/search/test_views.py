"""MLflow is shown a study as its records have it."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sclsearch.search.scheduler import Scheduler
from sclsearch.search.views import all_views
from sclsearch.store.objects import remove
from sclsearch.study.prepared import PreparedStudy
from sclsearch.tracking import ScoreView, StudyView

if TYPE_CHECKING:
    from tests.workspace import Workers


@pytest.mark.parametrize("missing", [0, 1])
def test_a_study_is_shown_as_finished_once_all_its_configurations_are(
    preparing: Callable[..., PreparedStudy], workers: "Workers", missing: int
) -> None:
    prepared = preparing(configs=2)
    prepared.begin()
    scheduler = Scheduler.of(prepared)
    workers.run_out(scheduler)
    for place in [*scheduler.done][:missing]:
        remove(prepared.runs.folder / f"{scheduler.done[place].key}.json")
    views = [*all_views(prepared.store, prepared.runs, prepared.record, prepared.study.rule)]
    scores = [view for view in views if isinstance(view, ScoreView)]
    forecasts = [view for view in scores if "chance.mean" in view.metrics]
    assert [view.configuration for view in forecasts] == [0] * missing
    assert len(scores) == 3
    assert [view.finished for view in scores if view.configuration is None] == [not missing]


def test_another_study_of_the_same_name_has_runs_of_its_own(
    preparing: Callable[..., PreparedStudy],
) -> None:
    prepared = preparing(study="same")
    record = prepared.record
    others = (
        replace(record, created=record.created + 1),
        replace(record, identity={**record.identity, "task": "another"}),
        replace(record, training={**record.training, "data": "another"}),
    )
    marks = {one.mlflow_name for one in (record, *others)}
    assert len(marks) == 4
    assert {mark.partition("@")[0] for mark in marks} == {"same"}
    assert replace(record, origin={}).mlflow_name == record.mlflow_name
    views = all_views(prepared.store, prepared.runs, record, prepared.study.rule)
    (study,) = views
    assert isinstance(study, StudyView)
    assert study.name == record.mlflow_name
