"""Importance of hyperparameters, by functional analysis of variance (Hutter et al., 2014)."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.importance import FanovaImportanceEvaluator, get_param_importances

from sclsearch.canonical import canonical


def hyperparameter_importance(
    parameters: Sequence[Mapping[str, Any]], scored: Sequence[tuple[Mapping[str, Any], float]]
) -> dict[str, float]:
    """Return the share of the scores' variance that each hyperparameter explains alone.

    A random forest with a fixed seed fits the scores; fANOVA decomposes its variance. The shares of
    all hyperparameters sum to 1, because Optuna leaves out interactions.

    Args:
        parameters: Entries of the searched hyperparameters in the stored search space.
        scored: Values and score of each finished configuration.

    Returns:
        The shares by name, largest first. A hyperparameter that some configurations do not have is
        left out. Empty if all scores are equal.
    """
    if len({score for _, score in scored}) < 2:
        return {}
    kinds = {one["name"]: _distribution(one) for one in parameters}
    common = [name for name in kinds if all(name in values for values, _ in scored)]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    for values, score in scored:
        params = {
            name: canonical(values[name])
            if isinstance(kinds[name], CategoricalDistribution)
            else values[name]
            for name in common
        }
        distributions = {name: kinds[name] for name in common}
        study.add_trial(
            optuna.create_trial(params=params, distributions=distributions, value=score)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    return dict(found)


def _distribution(parameter: Mapping[str, Any]) -> BaseDistribution:
    if parameter["type"] == "choice":
        return CategoricalDistribution([canonical(value) for value in parameter["values"]])
    low, high = parameter["low"], parameter["high"]
    if parameter["type"] == "int":
        return IntDistribution(int(low), int(high), step=int(parameter.get("step", 1)))
    return FloatDistribution(low, high, log=parameter["type"] == "log")
