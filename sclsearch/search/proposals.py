"""Proposal of the next configuration, as a pure function of the scores observed so far."""

import itertools
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import TrialState

from sclsearch.canonical import as_tuples, canonical
from sclsearch.randomness import seed_for
from sclsearch.spaces.space import Choice, Parameter, Space
from sclsearch.study.spec import Sampler


def plain(value: Any) -> Any:
    """Return a value that Optuna accepts: lists become JSON."""
    return canonical(value) if isinstance(value, list | tuple | dict) else value


def distribution(parameter: Parameter, encoded: Callable[[Any], Any] = plain) -> BaseDistribution:
    """Return the Optuna distribution of a searched parameter, with choices as Optuna has them."""
    if isinstance(parameter, Choice):
        return CategoricalDistribution([encoded(value) for value in parameter.values])
    return FloatDistribution(parameter.low, parameter.high, log=parameter.type == "log")


ATTEMPTS = 20

Values = dict[str, object]


@dataclass(frozen=True, slots=True)
class ObservedConfiguration:
    """Earlier configuration with its score, as input of the sampler.

    Attributes:
        values: The configuration's values.
        score: Its final score, or its expected score if a race paused it. None if it is still
            unfinished.
    """

    values: Mapping[str, object]
    score: float | None


def propose(
    space: Space, sampler: Sampler, search_seed: int, known: Sequence[ObservedConfiguration]
) -> tuple[Values, str] | None:
    """Return the values of configuration `len(known)` and their origin.

    Published configurations come first. Each proposal creates a new sampler, seeded by the search
    seed and the configuration number. A resumed study therefore proposes the same configurations as
    an uninterrupted one. In a race the scores in `known`, and thus the proposals, depend on which
    seed runs have finished.

    Args:
        space: The search space.
        sampler: The sampler.
        search_seed: The sampler's seed.
        known: All earlier configurations, in order.

    Returns:
        Values, and `published`, `start` or `sampled`; None if the space has no further
        configuration.
    """
    number = len(known)
    if number < len(space.published):
        return dict(space.published[number]), space.start
    seen = {canonical(configuration.values) for configuration in known}
    if not space.parameters:
        return None if seen else ({}, "given")
    if sampler == "grid":
        return _next_unseen(space, seen)
    for attempt, kind in enumerate(_kinds(space, sampler)):
        values = _sampled(space, _sampler(kind, search_seed, number, attempt), known)
        if canonical(values) not in seen:
            return values, "sampled"
    return _next_unseen(space, seen)


def _kinds(space: Space, sampler: Sampler) -> Iterator[Sampler]:
    """Yield the samplers to try in turn.

    A sampler that only repeats configurations has converged, or the space is exhausted.
    """
    yield from itertools.repeat(sampler, ATTEMPTS)
    if space.size() is None:
        yield from itertools.repeat("random")


def _next_unseen(space: Space, seen: set[str]) -> tuple[Values, str] | None:
    unseen = (values for values in space.grid() if canonical(values) not in seen)
    return next(((values, "sampled") for values in unseen), None)


def _sampler(kind: Sampler, search_seed: int, number: int, attempt: int) -> BaseSampler:
    seed = seed_for(search_seed, f"proposal/{number}/{attempt}") % 2**32
    if kind == "random":
        return RandomSampler(seed=seed)
    if kind == "gp":
        # Scores are means over seeds, so the same configuration would not score the same again.
        return GPSampler(seed=seed, deterministic_objective=False)
    with warnings.catch_warnings():
        # Optuna calls the options experimental.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return TPESampler(seed=seed, multivariate=True, constant_liar=True)


def _sampled(space: Space, sampler: BaseSampler, known: Sequence[ObservedConfiguration]) -> Values:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    # The random sampler reads no earlier trials, and to add them takes quadratic time.
    for configuration in () if isinstance(sampler, RandomSampler) else known:
        study.add_trial(_trial(space, configuration))
    trial = study.ask()
    return {name: _suggest(trial, name, one) for name, one in space.parameters.items()}


def _trial(space: Space, configuration: ObservedConfiguration) -> optuna.trial.FrozenTrial:
    searched = {
        name: distribution(space.parameters[name], canonical)
        for name in configuration.values
        if name in space.parameters
    }
    return optuna.create_trial(
        state=TrialState.RUNNING if configuration.score is None else TrialState.COMPLETE,
        params={
            name: canonical(value) if isinstance(space.parameters[name], Choice) else value
            for name, value in configuration.values.items()
            if name in searched
        },
        distributions=searched,
        value=configuration.score,
    )


def _suggest(trial: optuna.Trial, name: str, parameter: Parameter) -> object:
    if isinstance(parameter, Choice):
        options = [canonical(value) for value in parameter.values]
        return as_tuples(json.loads(trial.suggest_categorical(name, options)))
    return trial.suggest_float(name, parameter.low, parameter.high, log=parameter.type == "log")
