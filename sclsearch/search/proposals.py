"""Proposal of the next configuration, from the scores observed so far."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.search_space import IntersectionSearchSpace
from optuna.trial import TrialState

from sclsearch.canonical import as_tuples, canonical
from sclsearch.errors import SclsearchError, first_line
from sclsearch.methods import is_own
from sclsearch.methods.custom import load_custom_sampler
from sclsearch.randomness import seed_for
from sclsearch.spaces.space import Choice, Parameter, Range, Space

ATTEMPTS, GP_ATTEMPTS = 20, 2  # each attempt of a Gaussian process takes up to a second
STARTUP, GP_CONFIGS = 3, 200
"""Scores from which on a sampler learns, and configurations up to which `gp` is not TPE."""
STATEFUL = (optuna.samplers.CmaEsSampler, optuna.samplers.QMCSampler)
"""Samplers that keep a state between proposals, which a resumed search could not restore."""
HISTORY = 500
"""Configurations up to which a sampler reads all; beyond, the best `BLOCK` and the latest."""
BLOCK = 100
"""Proposals after which the best configurations are chosen anew."""

Values = dict[str, object]


@dataclass(slots=True)
class ObservedConfiguration:
    """Earlier configuration with its score, as input of the sampler."""

    values: Mapping[str, object]
    score: float | None = None  # by the seeds that all get; None while unfinished
    text: str = field(init=False)  # canonical form of the values

    def __post_init__(self) -> None:
        self.text = canonical(self.values)


class Proposals:
    """Proposals of configurations, each a pure function of the scores observed so far.

    Published configurations come first. Each proposal has a new sampler, seeded by the search seed
    and the configuration number. A resumed study therefore proposes the same configurations as an
    uninterrupted one.
    """

    def __init__(self, space: Space, sampler: str, search_seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.space, self.sampler, self.search_seed = space, sampler, search_seed
        self._make_sampler = _sampler_maker(sampler)
        self._distributions = {name: _distribution(p) for name, p in space.parameters.items()}
        # Optuna's study is kept, because to add a trial takes longer than to propose from it.
        self._study: optuna.Study | None = None
        self._common = IntersectionSearchSpace()
        self._added: dict[int, tuple[int, float | None]] = {}  # trial and score by configuration

    def next(self, known: Sequence[ObservedConfiguration]) -> tuple[Values, str] | None:
        """Return the values of configuration `len(known)` and their origin.

        The origin is `published`, `start`, `sampled`, or `given` in a space without parameters.
        Returns None if the space has no further configuration. Raises SclsearchError if a user's
        sampler fails or proposes what the space does not have.
        """
        with _errors_of(self.sampler):
            return self._next(known)

    def _next(self, known: Sequence[ObservedConfiguration]) -> tuple[Values, str] | None:
        number, space = len(known), self.space
        if number < len(space.published):
            return dict(space.published[number]), space.start
        seen = {configuration.text for configuration in known}
        if not space.parameters:
            return None if seen else ({}, "given")
        if self.sampler == "grid":
            # Earlier proposals used at least the points before this one.
            return _next_unseen(space, seen, start=number - len(space.published))
        seed = seed_for(self.search_seed, f"proposal/{number}/0") % 2**32
        random = RandomSampler(seed=seed)
        # It reads no earlier trials, and to add them takes quadratic time.
        study = optuna.create_study() if self.sampler == "random" else self._study_of(known)
        # A sampler that only repeats configurations has converged, or the space is exhausted.
        sampler = self._make_sampler(seed, number)
        if type(sampler) is TPESampler:
            sampler._search_space = self._common  # a new one compares all earlier trials again
        attempts = GP_ATTEMPTS if isinstance(sampler, GPSampler) else ATTEMPTS
        values = self._sample(study, sampler, seen, range(attempts))
        if values is None:
            more = range(ATTEMPTS) if space.size() else count()
            values = self._sample(optuna.create_study(), random, seen, more)
        return _next_unseen(space, seen) if values is None else (values, "sampled")

    def _sample(
        self, study: optuna.Study, sampler: BaseSampler, seen: set[str], attempts: Iterable[int]
    ) -> Values | None:
        """Return a new proposal; each repetition counts as unfinished for the next one."""
        study.sampler = sampler
        asked, new, parameters = list[optuna.trial.Trial](), None, self.space.parameters
        for _ in attempts:
            asked.append(study.ask(self._distributions))
            found = asked[-1].params
            # Raises if a value is outside its distribution; `ask` does not.
            optuna.create_trial(value=0.0, params=found, distributions=self._distributions)
            values = {
                name: one.values[value] if isinstance(one := parameters[name], Choice) else value
                for name, value in found.items()
            }
            if canonical(values) not in seen:
                new = values
                break
        for trial in asked:  # samplers do not read failed trials
            study.tell(trial, state=TrialState.FAIL)
        return new

    def _study_of(self, known: Sequence[ObservedConfiguration]) -> optuna.Study:
        """Return the study of the configurations that the sampler reads, in order."""
        members = _best_and_latest(known)
        kept = list(self._added) == members[: len(self._added)] and all(
            score in {None, known[number].score} for number, (_, score) in self._added.items()
        )
        if self._study is None or not kept:
            self._study, self._added = optuna.create_study(direction="maximize"), {}
            self._common = IntersectionSearchSpace()
        for number in members:
            score = known[number].score
            trial, earlier = self._added.get(number, (None, None))
            if trial is None:
                trial = len(self._study.get_trials(deepcopy=False))
                self._study.add_trial(self._trial(known[number]))
            elif score != earlier:
                self._study.tell(trial, score)
            self._added[number] = trial, score
        return self._study

    def _trial(self, configuration: ObservedConfiguration) -> optuna.trial.FrozenTrial:
        values = configuration.values
        parameters = {n: one for n, one in self.space.parameters.items() if n in values}
        return optuna.create_trial(
            state=TrialState.RUNNING if configuration.score is None else TrialState.COMPLETE,
            params={
                name: one.values.index(as_tuples(found)) if isinstance(one, Choice) else found
                for name, one in parameters.items()
                for found in [values[name]]
            },
            distributions={name: self._distributions[name] for name in parameters},
            value=configuration.score,
        )


def _next_unseen(space: Space, seen: set[str], start: int = 0) -> tuple[Values, str] | None:
    points = islice(space.grid(), start, None)
    unseen = (values for values in points if canonical(values) not in seen)
    return next(((values, "sampled") for values in unseen), None)


@contextmanager
def _errors_of(sampler: str) -> Iterator[None]:
    """Convert errors of a user's sampler to SclsearchError."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, SclsearchError) or not is_own(sampler):
            raise
        raise SclsearchError(
            f"--sampler {sampler}: it raised {type(error).__name__}: "
            f"{first_line(error).rstrip('.')}. It must take a seed and return an Optuna sampler "
            "that proposes values of the search space."
        ) from error


def _sampler_maker(kind: str) -> Callable[[int, int], BaseSampler]:
    """Return a function that makes the sampler of a seed and of a configuration number."""
    if not is_own(kind):
        return partial(_sampler, kind)
    own = load_custom_sampler(kind)

    def make(seed: int, _number: int) -> BaseSampler:
        with _errors_of(kind):
            found = own(seed)
        if not isinstance(found, BaseSampler) or isinstance(found, STATEFUL):
            raise SclsearchError(
                f"--sampler {kind}: must return an Optuna sampler that proposes from the scores "
                "alone, such as optuna.samplers.TPESampler(seed=seed), got "
                f"{type(found).__name__}. A search makes a new sampler for every configuration."
            )
        return found

    make(0, 0)  # raises before the search begins
    return make


def _sampler(kind: str, seed: int, number: int) -> BaseSampler:
    if kind == "random":
        return RandomSampler(seed=seed)
    if kind == "gp" and number < GP_CONFIGS:
        # Scores are means over seeds, so the same configuration would not score the same again.
        return GPSampler(seed=seed, n_startup_trials=STARTUP, deterministic_objective=False)
    with warnings.catch_warnings():
        # Optuna calls the options experimental.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return TPESampler(
            seed=seed, n_startup_trials=STARTUP, multivariate=True, constant_liar=True
        )


def _best_and_latest(known: Sequence[ObservedConfiguration]) -> list[int]:
    """Return the numbers of the configurations that a sampler reads, in order."""
    if len(known) <= HISTORY:
        return list(range(len(known)))
    scored = sum(one.score is not None for one in known)
    early = min(len(known) - BLOCK, scored) // BLOCK * BLOCK
    best = sorted(range(early), key=lambda number: -_score(known[number]))[:BLOCK]
    return [*sorted(best), *range(early, len(known))]


def _score(configuration: ObservedConfiguration) -> float:
    return -math.inf if configuration.score is None else configuration.score


def _distribution(parameter: Parameter) -> BaseDistribution:
    """Return the Optuna distribution of a searched parameter; choices are positions of values."""
    if isinstance(parameter, Range):
        return FloatDistribution(parameter.low, parameter.high, log=parameter.type == "log")
    last = len(parameter.values) - 1
    return (
        IntDistribution(0, last) if parameter.ordered else CategoricalDistribution(range(last + 1))
    )
