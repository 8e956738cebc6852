"""Proposal of the next configuration, as a pure function of the scores observed so far."""

import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import TrialState

from sclsearch.canonical import as_tuples, canonical
from sclsearch.randomness import seed_for
from sclsearch.spaces.space import Choice, Parameter, Space
from sclsearch.study.spec import Sampler

ATTEMPTS = 20
HISTORY = 500
"""Most configurations that a sampler reads: the best ones and the latest ones, half each."""

Values = dict[str, object]


@dataclass(frozen=True, slots=True)
class ObservedConfiguration:
    """Earlier configuration with its score, as input of the sampler."""

    values: Mapping[str, object]
    score: float | None  # by the seeds that all get; None while unfinished


def propose(
    space: Space, sampler: Sampler, search_seed: int, known: Sequence[ObservedConfiguration]
) -> tuple[Values, str] | None:
    """Return the values of configuration `len(known)` and their origin.

    Published configurations come first. Each proposal creates a new sampler, seeded by the search
    seed and the configuration number. A resumed study therefore proposes the same configurations as
    an uninterrupted one. In a race the scores in `known`, and thus the proposals, depend on which
    seed runs have finished.

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
    seed = seed_for(search_seed, f"proposal/{number}/0") % 2**32
    # A sampler that only repeats configurations has converged, or the space is exhausted.
    candidates: Iterator[Values] = islice(_sampled(space, _sampler(sampler, seed), known), ATTEMPTS)
    if space.size() is None:
        candidates = chain(candidates, _sampled(space, RandomSampler(seed=seed), known))
    for values in candidates:
        if canonical(values) not in seen:
            return values, "sampled"
    return _next_unseen(space, seen)


def _next_unseen(space: Space, seen: set[str]) -> tuple[Values, str] | None:
    unseen = (values for values in space.grid() if canonical(values) not in seen)
    return next(((values, "sampled") for values in unseen), None)


def _sampler(kind: Sampler, seed: int) -> BaseSampler:
    if kind == "random":
        return RandomSampler(seed=seed)
    if kind == "gp":
        # Scores are means over seeds, so the same configuration would not score the same again.
        return GPSampler(seed=seed, deterministic_objective=False)
    with warnings.catch_warnings():
        # Optuna calls the options experimental.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return TPESampler(seed=seed, multivariate=True, constant_liar=True)


def _sampled(
    space: Space, sampler: BaseSampler, known: Sequence[ObservedConfiguration]
) -> Iterator[Values]:
    """Yield proposals of a sampler; each counts as unfinished for the next one."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    # The random sampler reads no earlier trials, and to add them takes quadratic time.
    if not isinstance(sampler, RandomSampler):
        study.add_trials(
            [_trial(space, configuration) for configuration in _best_and_latest(known)]
        )
    distributions = {name: _distribution(one) for name, one in space.parameters.items()}
    while True:
        yield {
            name: as_tuples(json.loads(value)) if _is_choice(space, name) else value
            for name, value in study.ask(distributions).params.items()
        }


def _best_and_latest(known: Sequence[ObservedConfiguration]) -> Sequence[ObservedConfiguration]:
    """Return at most `HISTORY` configurations in order: the best ones and the latest ones."""
    if len(known) <= HISTORY:
        return known
    half = HISTORY // 2
    best = sorted(range(len(known) - half), key=lambda number: -_score(known[number]))[:half]
    return [*(known[number] for number in sorted(best)), *known[-half:]]


def _score(configuration: ObservedConfiguration) -> float:
    return -math.inf if configuration.score is None else configuration.score


def _trial(space: Space, configuration: ObservedConfiguration) -> optuna.trial.FrozenTrial:
    searched = {
        name: canonical(value) if _is_choice(space, name) else value
        for name, value in configuration.values.items()
        if name in space.parameters
    }
    return optuna.create_trial(
        state=TrialState.RUNNING if configuration.score is None else TrialState.COMPLETE,
        params=searched,
        distributions={name: _distribution(space.parameters[name]) for name in searched},
        value=configuration.score,
    )


def _is_choice(space: Space, name: str) -> bool:
    return isinstance(space.parameters[name], Choice)


def _distribution(parameter: Parameter) -> BaseDistribution:
    """Return the Optuna distribution of a searched parameter; choices are JSON."""
    if isinstance(parameter, Choice):
        return CategoricalDistribution([canonical(value) for value in parameter.values])
    return FloatDistribution(parameter.low, parameter.high, log=parameter.type == "log")
