"""Size and speed of encoders, for comparisons of studies that differ in the encoder."""

import math
from functools import cache
from pathlib import Path

from sclsearch.encoders.models import model_folder
from sclsearch.errors import SclsearchError
from sclsearch.reports.report import Report


def encoder_name(one: Report) -> str:
    """Return the name of a study's encoder without the path of its folder."""
    return Path(one.model).name


def weights_in_words(one: Report) -> str:
    """Return the number of the encoder's weights in millions; empty if its files are gone."""
    count = weights_of(one.model_place)
    return "" if count is None else f"{count / 1e6:.3g} M"


def speed_in_words(one: Report) -> str:
    """Return the texts a second that the search measured; empty if unknown."""
    return f"{one.texts_per_second:.3g}" if one.texts_per_second else ""


def costs_in_words(one: Report) -> str:
    """Return the number of weights and the speed, as far as they are known."""
    speed = speed_in_words(one)
    return ", ".join(filter(None, (weights_in_words(one), speed and f"{speed} texts/s")))


@cache
def weights_of(place: str) -> int | None:
    """Return the number of weights of an encoder; None if its files are gone."""
    from safetensors import safe_open

    try:
        file = model_folder(place, download=False) / "model.safetensors"
    except SclsearchError:
        return None
    with safe_open(file, "np") as weights:
        shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118
    return sum(map(math.prod, shapes))
