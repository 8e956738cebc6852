"""Which configuration comes next: a pure function of the scores that may be known by then."""

import itertools
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import TrialState

from sclsearch.canonical import canonical
from sclsearch.methods.fields import as_tuples
from sclsearch.randomness import seed_for
from sclsearch.spaces.parameters import Choice, Parameter, active
from sclsearch.spaces.space import Space
from sclsearch.study.spec import Sampler

ATTEMPTS = 20

Values = dict[str, object]


@dataclass(frozen=True, slots=True)
class ObservedConfiguration:
    """A configuration that was proposed before.

    Attributes:
        values: Its values.
        score: Its final score, or what is expected of one that waits in a race; None while it
            counts as open.
    """

    values: Mapping[str, object]
    score: float | None


def propose(
    space: Space, sampler: Sampler, search_seed: int, known: Sequence[ObservedConfiguration]
) -> tuple[Values, str] | None:
    """Returns the values of configuration `len(known)` and their origin.

    Published configurations come first. The sampler is made anew for each proposal and seeded by
    the search seed and the number, so a resumed study proposes what the undisturbed one would. In a
    race the scores in `known` depend on what had ended by then, and proposals with them.

    Args:
        space: What is searched.
        sampler: Who proposes.
        search_seed: The sampler's seed.
        known: All configurations so far, in order.

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
    return _next_unseen(_listed(space), seen)


def _kinds(space: Space, sampler: Sampler) -> Iterator[Sampler]:
    """Yields who is asked in turn: one that only repeats itself has converged, or sees the end."""
    yield from itertools.repeat(sampler, ATTEMPTS)
    if space.size() is None:
        yield from itertools.repeat("random")


def _next_unseen(space: Space, seen: set[str]) -> tuple[Values, str] | None:
    unseen = (values for values in space.grid() if canonical(values) not in seen)
    return next(((values, "sampled") for values in unseen), None)


def _listed(space: Space) -> Space:
    """Returns a finite space with its whole numbers as choices."""
    return replace(space, parameters={n: _choices(p) for n, p in space.parameters.items()})


def _choices(parameter: Parameter) -> Choice:
    if isinstance(parameter, Choice):
        return parameter
    numbers = range(int(parameter.low), int(parameter.high) + 1, parameter.step or 1)
    return Choice(tuple(numbers), parameter.when)


def _sampler(kind: Sampler, search_seed: int, number: int, attempt: int) -> BaseSampler:
    seed = seed_for(search_seed, f"proposal/{number}/{attempt}") % 2**32
    if kind == "random":
        return RandomSampler(seed=seed)
    with warnings.catch_warnings():
        # `group` is what makes the multivariate sampler fit for conditions; Optuna calls it
        # experimental.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True)


def _sampled(space: Space, sampler: BaseSampler, known: Sequence[ObservedConfiguration]) -> Values:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for configuration in known:
        study.add_trial(_trial(space, configuration))
    trial = study.ask()
    values: Values = {}
    for name, parameter in space.parameters.items():
        if active(parameter, values):
            values[name] = _suggest(trial, name, parameter)
    return values


def _trial(space: Space, configuration: ObservedConfiguration) -> optuna.trial.FrozenTrial:
    searched = {
        name: _distribution(space.parameters[name])
        for name in configuration.values
        if name in space.parameters
    }
    return optuna.create_trial(
        state=TrialState.RUNNING if configuration.score is None else TrialState.COMPLETE,
        params={name: _told(space, name, configuration) for name in searched},
        distributions=searched,
        value=configuration.score,
    )


def _distribution(parameter: Parameter) -> BaseDistribution:
    if isinstance(parameter, Choice):
        # A list is no value that Optuna takes, its JSON is.
        return CategoricalDistribution([canonical(value) for value in parameter.values])
    if parameter.kind == "int":
        return IntDistribution(int(parameter.low), int(parameter.high), step=parameter.step or 1)
    return FloatDistribution(parameter.low, parameter.high, log=parameter.kind == "log")


def _told(space: Space, name: str, configuration: ObservedConfiguration) -> object:
    value = configuration.values[name]
    return canonical(value) if isinstance(space.parameters[name], Choice) else value


def _suggest(trial: optuna.Trial, name: str, parameter: Parameter) -> object:
    if isinstance(parameter, Choice):
        options = [canonical(value) for value in parameter.values]
        return as_tuples(json.loads(trial.suggest_categorical(name, options)))
    if parameter.kind == "int":
        step = parameter.step or 1
        return trial.suggest_int(name, int(parameter.low), int(parameter.high), step=step)
    return trial.suggest_float(name, parameter.low, parameter.high, log=parameter.kind == "log")
