"""Export of a study to an Optuna storage, for optuna-dashboard and Optuna's plots."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import optuna
from optuna.exceptions import OptunaError
from optuna.trial import FrozenTrial, TrialState

from sclsearch.errors import SclsearchError, first_line
from sclsearch.search.distributions import distribution, plain
from sclsearch.selection.rules import Rule, parse_rule
from sclsearch.spaces.check import stored_parameters
from sclsearch.spaces.space import Parameter
from sclsearch.store.local import DamagedError
from sclsearch.store.records import ConfigurationRecord
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.storage import Storage
from sclsearch.store.studies import existing_study
from sclsearch.study.state import SearchState, stored_state
from sclsearch.tracking.server import masked

MARK = "sclsearch"
"""Attribute of an Optuna study that this module wrote and may replace."""


def export_to_optuna(storage: Storage, name: str, url: str, rule: Rule | None = None) -> int:
    """Write a study to an Optuna storage, one trial per configuration; return their number.

    A configuration with all its seeds is a complete trial, whose value is its score. One with some
    seeds is pruned, and one without seeds is waiting. A later export replaces the Optuna study.

    Args:
        storage: Storage of the study.
        name: The study's name.
        url: Database of the Optuna storage, such as `sqlite:///optuna.db`.
        rule: Selection rule that gives the scores; None uses the rule of the study's first run.

    Raises:
        SclsearchError: The study does not exist, the database cannot be used, or it has an Optuna
            study of that name that is no export.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    store, record = existing_study(storage, name)
    configurations, replicates = store.configurations(), store.replicates()
    rule = rule or parse_rule(str(record.origin["rule"]))
    state, damaged = stored_state(RunStore(storage), record, replicates, configurations, rule)
    if damaged:
        raise DamagedError("\n".join(damaged))
    parameters = stored_parameters(record.identity["space"])
    attributes = {
        MARK: store.name,
        "method": record.training["method"],
        "task": record.identity["task"],
        "model": record.identity["model"],
        "protocol": record.identity["protocol"],
        "score": f"validation {state.metric}, rule {rule.score}",
    }
    _write(url, store.name, attributes, [_trial(state, one, parameters) for one in configurations])
    return len(configurations)


def _write(
    url: str, name: str, attributes: Mapping[str, Any], trials: Sequence[FrozenTrial]
) -> None:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        found = _new_study(url, name)
        for attribute, value in attributes.items():
            found.set_user_attr(attribute, value)
        found.add_trials(trials)
    # RuntimeError: the database has the tables of another program or of another Optuna.
    except (SQLAlchemyError, OptunaError, ImportError, RuntimeError) as error:
        reason = first_line(error.__cause__ or error).rstrip(".")
        raise SclsearchError(
            f"{masked(url)}: cannot be used as Optuna's database: {masked(reason)}. Name another, "
            "such as sqlite:///optuna.db."
        ) from error


def _new_study(url: str, name: str) -> optuna.Study:
    """Return an empty Optuna study; replace an earlier export."""
    storage = optuna.storages.RDBStorage(url)
    earlier = {one.study_name: one for one in optuna.get_all_study_summaries(storage)}
    if name in earlier:
        if MARK not in earlier[name].user_attrs:
            raise SclsearchError(
                f"{masked(url)}: has a study {name!r} that is not an export. Name another database."
            )
        optuna.delete_study(study_name=name, storage=storage)
    return optuna.create_study(storage=storage, study_name=name, direction="maximize")


def _trial(
    state: SearchState, configuration: ConfigurationRecord, parameters: Mapping[str, Parameter]
) -> FrozenTrial:
    values = {n: value for n, value in configuration.values.items() if n in parameters}
    runs = state.runs_of(configuration.number)
    score = state.scores.get(configuration.number)
    unfinished = TrialState.PRUNED if runs else TrialState.WAITING
    trial = optuna.create_trial(
        state=unfinished if score is None else TrialState.COMPLETE,
        value=None if score is None else score.score,
        params={name: plain(value) for name, value in values.items()},
        distributions={name: distribution(parameters[name]) for name in values},
        user_attrs=_attributes(state, configuration, runs),
    )
    _set_times(trial, list(runs.values()))
    return trial


def _attributes(
    state: SearchState, configuration: ConfigurationRecord, runs: Mapping[int, SeedRun]
) -> dict[str, Any]:
    score = state.scores.get(configuration.number)
    attributes: dict[str, Any] = {
        "configuration": configuration.number,
        "origin": configuration.origin,
        "test mean": score and score.test_mean,
    }
    for replicate, run in runs.items():
        attributes[f"seed {replicate} validation"] = run.validated(state.metric)
        attributes[f"seed {replicate} test"] = run.tested(state.metric)
        if run.failure is not None:
            attributes[f"seed {replicate} failure"] = str(run.failure)
    return attributes


def _set_times(trial: FrozenTrial, runs: Sequence[SeedRun]) -> None:
    """Set start and end of a trial to those of its seed runs, if they are known."""
    times = [(run.started, run.started + run.seconds) for run in runs if run.started]
    if times:
        trial.datetime_start = _local_time(min(start for start, _ in times))
        if trial.state.is_finished():
            trial.datetime_complete = _local_time(max(end for _, end in times))


def _local_time(seconds: float) -> datetime:
    """Return a Unix time as Optuna stores it: local, without a time zone."""
    return datetime.fromtimestamp(seconds, tz=UTC).astimezone().replace(tzinfo=None)
