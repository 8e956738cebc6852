"""Practical search space: a method's own hyperparameters, and those that suit encoder and texts."""

from collections.abc import Iterable
from dataclasses import replace
from typing import get_args, get_type_hints

from sclsearch.encoders.models import EncoderTraits
from sclsearch.methods.base import Method
from sclsearch.methods.fields import field_types
from sclsearch.spaces.space import Choice, Parameter, Range, Space

# Multiples of the learning rate at the start: ends of its range, and that of post-training.
LOWEST_RATE, HIGHEST_RATE, POST_TRAINING = 0.2, 3.0, 0.5
LENGTHS = tuple(part * 2**power for power in range(4, 13) for part in (1, 1.5))
"""Maximum lengths in tokens: 16, 24, 32, 48, … 6144."""
COVERED = 0.95
"""Share of the texts that the maximum length must not cut."""


def practical_space(
    space: Space, method: type[Method], traits: EncoderTraits, max_length: int
) -> Space:
    """Return a method's practical space for an encoder.

    The range of the learning rate is that of `EncoderTraits.learning_rate`, for every method alike.
    """
    start, usual = traits.learning_rate, usual_values(method, traits, max_length)
    del usual["learning_rate"]
    low, high = _two_digits(start * LOWEST_RATE), _two_digits(start * HIGHEST_RATE)
    rates = Range(low, high, "log")
    parameters: dict[str, Parameter] = {"learning_rate": rates, **space.parameters}
    heads = parameters.get("heads")
    if isinstance(heads, Choice):  # LaCon cuts the embedding into slices of one width
        divisors = tuple(n for n in heads.values if traits.width % int(str(n)) == 0)
        parameters["heads"] = replace(heads, values=divisors)
    published = tuple({"learning_rate": start, **values} for values in space.published)
    changed = replace(space, parameters=parameters, published=published, practical=True)
    return replace(changed, fixed={**space.fixed, **usual})


def usual_values(method: type[Method], traits: EncoderTraits, max_length: int) -> dict[str, object]:
    """Return the hyperparameters that suit encoder and texts, as `practical_space` fixes them."""
    found: dict[str, object] = {"learning_rate": traits.learning_rate, "max_length": max_length}
    if hasattr(method, "post_learning_rate"):
        found["post_learning_rate"] = _two_digits(traits.learning_rate * POST_TRAINING)
    # Contrasted embeddings are means over tokens, and so is the input of a linear probe.
    types = get_type_hints(method)
    for name in ("pooling", "scl_features", "contrast_pooling"):
        if name in field_types(method):
            of_head = name == "pooling" and "head_hidden" in get_args(types[name])
            found[name] = traits.head_pooling if of_head else "mean"
    return found


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")


def covering_length(lengths: Iterable[int], positions: int | None) -> int:
    """Return the maximum length that leaves 95 % of the texts whole, in steps."""
    ordered = sorted(lengths)
    covered = ordered[min(int(COVERED * len(ordered)), len(ordered) - 1)]
    step = next((length for length in LENGTHS if length >= covered), LENGTHS[-1])
    return int(min(step, positions or step))
