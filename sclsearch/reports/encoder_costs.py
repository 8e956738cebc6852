"""Size and speed of encoders, for comparisons of studies that differ in the encoder."""

import math
from functools import cache

from sclsearch.encoders.models import model_folder
from sclsearch.errors import SclsearchError
from sclsearch.reports.report import Report


def costs(one: Report) -> dict[str, str]:
    """Return the encoder's weights in millions and its measured texts a second, as text.

    An unknown one is empty: the files of the encoder are gone, or no search measured its speed.
    """
    weights, speed = weights_of(one.model_place), one.texts_per_second
    return {
        "weights": "" if weights is None else f"{weights / 1e6:.3g} M",
        "texts/s": f"{speed:.3g}" if speed else "",
    }


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
