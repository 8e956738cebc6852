"""Scores of configurations and of their seed runs, as reports show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sclsearch.selection.rules import mean_std
from sclsearch.selection.significance import Comparison, compare
from sclsearch.tasks.metrics import METRICS


@dataclass(frozen=True, slots=True)
class SeedLine:
    """Scores of one seed run of a configuration.

    Attributes:
        replicate: Number of its replicate.
        key: Key of the seed run in the run store.
        validation: Validation score; None if the seed run failed.
        test: Test score; None if the seed run failed or has not been tested.
        failure: Cause and message of the failure; None on success.
        seconds: Training time in seconds.
        untested: True if the seed run has test rows, and its test score is still to come.
    """

    replicate: int
    key: str
    validation: float | None
    test: float | None
    failure: str | None
    seconds: float = 0.0
    untested: bool = False


@dataclass(frozen=True, slots=True)
class ConfigurationLine:
    """Scores of one configuration under a selection rule.

    Attributes:
        number: Number of the configuration in its study.
        origin: `published`, `start`, `sampled` or `given`; for a baseline its name.
        values: Values of the searched hyperparameters, or of the fixed ones if none is searched.
        fields: Every hyperparameter of method and training.
        seeds: Finished seed runs.
        score: Score under the rule; None while seed runs are missing.
        loss: Mean validation loss of the seeds that the score counts, which decides between equal
            scores; None if unknown.
        reported: Indices into `seeds` of the reported seed runs, best validation score first.
        test_mean: Mean test score of the reported seed runs; None if there are none, or if one has
            not been tested.
        test_std: Sample standard deviation of these test scores; None for fewer than two.
    """

    number: int
    origin: str
    values: Mapping[str, Any]
    fields: Mapping[str, Any]
    seeds: tuple[SeedLine, ...]
    score: float | None
    reported: tuple[int, ...]
    test_mean: float | None
    test_std: float | None
    loss: float | None = None

    @property
    def plain(self) -> tuple[float, float | None] | None:
        """Return mean and standard deviation of all test scores.

        None if no seed run succeeded, or if one has not been tested.
        """
        tests = [seed.test for seed in self.seeds if seed.test is not None]
        return mean_std(tests) if tests and not self.untested else None

    @property
    def partial(self) -> float | None:
        """Return the mean validation score of the seeds that succeeded; None without any."""
        found = [seed.validation for seed in self.seeds if seed.validation is not None]
        return mean_std(found)[0] if found else None

    @property
    def untested(self) -> int:
        """Return the number of successful seed runs whose test score is still to come."""
        return sum(seed.untested for seed in self.seeds)

    @property
    def failed(self) -> int:
        """Return the number of seed runs that failed permanently."""
        return sum(seed.failure is not None for seed in self.seeds)


def best_line(lines: Sequence[ConfigurationLine]) -> ConfigurationLine | None:
    """Return the best finished configuration of which a seed run succeeded."""
    return next((line for line in lines if line.score is not None and line.reported), None)


def paired(
    line: ConfigurationLine,
    other: ConfigurationLine,
    subsets: Mapping[int, str],
    metric: str,
    split: Literal["test", "validation"] = "test",
) -> Comparison | None:
    """Return the paired comparison of scores, `line` minus `other`; None without a pair.

    Replicates with the same training rows, by their SHA-256 in `subsets`, count once.
    """
    theirs = {seed.replicate: getattr(seed, split) for seed in other.seeds}
    ours = {seed.replicate: getattr(seed, split) for seed in line.seeds}
    common = [one for one in ours if None not in (ours[one], theirs.get(one))]
    if not common:
        return None
    return compare(
        [ours[one] for one in common],
        [theirs[one] for one in common],
        [subsets[one] for one in common],
        largest=METRICS[metric].span,
    )
