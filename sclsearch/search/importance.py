"""Importance of hyperparameters, by functional analysis of variance (Hutter et al., 2014)."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from sclsearch.search.distributions import distribution, plain
from sclsearch.spaces.check import stored_parameters


def hyperparameter_importance(
    space: Mapping[str, Any], scored: Sequence[tuple[Mapping[str, Any], float]]
) -> dict[str, float]:
    """Return the share of the scores' variance that each hyperparameter explains alone.

    A random forest with a fixed seed fits the scores, and fANOVA decomposes its variance. Optuna
    computes main effects only, without interactions, and scales them to sum to 1.

    Args:
        space: The stored search space.
        scored: Values and score of each finished configuration.

    Returns:
        The shares by name, largest first. A hyperparameter that some configurations do not have is
        left out. Empty if all scores are equal.
    """
    if len({score for _, score in scored}) < 2:
        return {}
    # scikit-learn, which fANOVA needs, takes over a second; most repeated searches draw no page.
    import optuna
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    kinds = {
        name: distribution(parameter)
        for name, parameter in stored_parameters(space).items()
        if all(name in values for values, _ in scored)
    }
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    for values, score in scored:
        params = {name: plain(values[name]) for name in kinds}
        study.add_trial(optuna.create_trial(params=params, distributions=kinds, value=score))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return dict(get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0)))
