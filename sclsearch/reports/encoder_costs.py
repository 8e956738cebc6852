"""Size and speed of encoders, for comparisons of studies that differ in the encoder."""

import math
import time
from functools import cache
from pathlib import Path

from sclsearch.encoders.models import model_folder
from sclsearch.errors import SclsearchError
from sclsearch.reports.report import Report, finished_winner

BATCH, REPEATS = 64, 3


def encoder_name(one: Report) -> str:
    """Return the name of a study's encoder without the path of its folder."""
    return Path(one.model).name


def weights_in_words(one: Report) -> str:
    """Return the number of the encoder's weights in millions; empty if its files are gone."""
    count = weights_of(one.model_place)
    return "" if count is None else f"{count / 1e6:.3g} M"


def speed_in_words(one: Report) -> str:
    """Return the texts of `max_length` that the encoder reads in a second here; see `speed_of`."""
    speed = speed_of(one.model_place, int(finished_winner(one).fields["max_length"]))
    return "" if speed is None else f"{speed:.3g}"


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


@cache
def speed_of(place: str, length: int) -> float | None:
    """Return the texts a second in batches of 64 on this machine; None if the files are gone."""
    import torch

    from sclsearch.encoders.load import load_encoder
    from sclsearch.training.device import backend_here

    try:
        device = backend_here().device
        model = load_encoder(model_folder(place, download=False), place, device).model
    except SclsearchError:
        return None
    ids = torch.full((BATCH, length), 5, device=device)
    times = []
    with torch.inference_mode():
        for _ in range(1 + REPEATS):  # the first one warms up
            began = time.perf_counter()
            model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.sum().item()
            times.append(time.perf_counter() - began)
    return BATCH / min(times[1:])
