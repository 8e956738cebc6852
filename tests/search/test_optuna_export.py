"""Tests of the Optuna export: one trial per configuration."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from sclsearch import export_optuna
from sclsearch.errors import SclsearchError
from sclsearch.search.scheduler import Scheduler
from tests.studies import SPACE
from tests.workspace import MakeSpec, Prepare, Workers, WriteSpace

STARTED = 1_700_000_000.0


@pytest.fixture
def scheduler(
    make_spec: MakeSpec,
    prepare: Prepare,
    write_space: WriteSpace,
    workers: Workers,
) -> Scheduler:
    """Return the scheduler of a study with complete configurations and an unfinished one."""
    epochs = "space:\n  epochs: {type: choice, values: [2, 4, 6, 8]}"
    text = SPACE.replace("epochs: 8, ", "").replace("{tau", "{epochs: 4, tau")
    space = write_space(text.replace("space:", epochs))
    prepared = prepare(make_spec(space=space), study="mine", seeds=3).begin()
    scheduler = Scheduler(prepared)
    while (task := scheduler.next()) is not None:
        if task.id == (3, 2):
            break
        started = STARTED + len(scheduler.state.seed_runs)
        run = replace(workers.trained(task), started=started, seconds=5.0)
        scheduler.runs.put(run)
        scheduler.finish(task, run)
    return scheduler


def test_each_configuration_is_a_trial_with_the_scores_of_its_seeds(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/optuna.db"
    for _ in range(2):  # a second export replaces the first
        assert export_optuna("mine", url, storage=tmp_path / "storage") == 4
    found = optuna.load_study(study_name="mine", storage=url)
    assert found.user_attrs["score"] == "validation accuracy, rule mean"
    *complete, unfinished = found.trials
    scores = {number: score.score for number, score in scheduler.state.scores.items()}
    assert {trial.number: trial.value for trial in complete} == scores
    assert found.best_trial.number == scheduler.state.winner.number  # type: ignore[union-attr]
    assert unfinished.state == TrialState.PRUNED
    for trial, configuration in zip(found.trials, scheduler.state.configurations, strict=True):
        assert trial.params == configuration.values
        for replicate, run in scheduler.state.runs_of(trial.number).items():
            assert trial.user_attrs[f"seed {replicate} validation"] == run.validated("accuracy")
    assert "seed 2 validation" not in unfinished.user_attrs
    start, end = found.trials[0].datetime_start, found.trials[0].datetime_complete
    assert start is not None
    assert end is not None
    assert (start.timestamp(), end.timestamp()) == (STARTED, STARTED + 2 + 5)


def test_a_foreign_study_is_not_replaced_and_a_bad_database_is_named(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/optuna.db"
    optuna.create_study(storage=url, study_name="mine")
    with pytest.raises(SclsearchError, match=r"has a study 'mine' that is not an export\."):
        export_optuna("mine", url, storage=tmp_path / "storage")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE alembic_version (version_num TEXT)")
        other.execute("INSERT INTO alembic_version VALUES ('of another program')")
    optuna.create_study(storage=f"sqlite:///{tmp_path}/full.db", study_name="another")
    read_only = f"sqlite:///file:{tmp_path}/full.db?mode=ro&uri=true"
    for invalid, message in {
        "nonsense": "nonsense",
        "nosuch://me:secret@host/db": r"nosuch://\*\*\*@host/db",
        f"sqlite:///{tmp_path}/other.db": "sqlite",
        read_only: ".*attempt to write a readonly database",
    }.items():
        with pytest.raises(SclsearchError, match=f"^{message}") as raised:
            export_optuna("mine", invalid, storage=tmp_path / "storage")
        assert "cannot be used as Optuna's database: " in str(raised.value)


def test_a_study_with_a_damaged_seed_run_is_not_exported(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    key = next(iter(scheduler.state.seed_runs.values())).key
    (tmp_path / "storage" / "runs" / f"{key}.json").write_text("{}")
    with pytest.raises(SclsearchError, match=f"{key}.json: is not the seed run of this name"):
        export_optuna("mine", f"sqlite:///{tmp_path / 'o.db'}", storage=tmp_path / "storage")
