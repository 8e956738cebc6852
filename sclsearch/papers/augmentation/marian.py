"""Back-translation by Marian models with random sampling (Edunov et al., 2018).

The models are opus-mt (Tiedemann & Thottingal, 2020); Gunel et al. use fairseq's WMT'18 models.
"""

import importlib.util
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sclsearch.canonical import digest, file_digest
from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation.base import PAPERS, Options, round_trips
from sclsearch.papers.augmentation.opus import Opus, model_files, opus_folders
from sclsearch.randomness import seed_for

PIVOTS = ("de", "zh")
TEMPERATURE = 0.7


class Marian:
    """Back-translation from English, with sampling at a temperature in both directions.

    The model treats a text as one sentence and truncates it to its maximum length.

    Raises:
        SclsearchError: An option is out of bounds, or sentencepiece is not installed.
    """

    at_once = 64
    english = True

    def __init__(self, options: Options) -> None:
        second = options.second_pivot or (PIVOTS[1] if options.views == len(PIVOTS) else None)
        pivots = [options.pivot or PIVOTS[0], second]
        self.pivots = [pivot for pivot in pivots if pivot is not None]
        self.views = options.views
        self.temperature = TEMPERATURE if options.temperature is None else options.temperature
        self.seed = options.seed or 0
        self._models = options.models
        self._loaded: dict[str, Opus] = {}
        if not 0 < self.temperature < float("inf"):
            raise SclsearchError(
                f"--temperature: it must be more than 0, but it is {self.temperature:g}."
            )
        if importlib.util.find_spec("sentencepiece") is None:
            raise SclsearchError(
                "--backend marian: sentencepiece must be installed, but it is not. Install the "
                "extra 'augment' (pip install 'sclsearch[augment]')."
            )

    @cached_property
    def folders(self) -> dict[str, Path]:
        """Model folder of each direction, downloaded from the hub if necessary."""
        pairs = [(f"en-{pivot}", f"{pivot}-en") for pivot in self.pivots]
        return opus_folders(dict.fromkeys(name for pair in pairs for name in pair), self._models)

    def header(self) -> dict[str, Any]:
        """Return the models' digests, and all other settings that determine the samples."""
        import torch

        trips = round_trips(self.pivots)
        header: dict[str, Any] = {
            "source": f"Marian opus-mt {trips}, sampled at temperature {self.temperature:g}",
            "models": {
                f"opus-mt-{direction}": digest(
                    {path.name: file_digest(path) for path in model_files(folder)}
                )
                for direction, folder in self.folders.items()
            },
            "temperature": self.temperature,
            "seed": self.seed,
            "versions": {name: version(name) for name in ("torch", "transformers")},
            "device": "cuda" if torch.cuda.is_available() else "cpu",
        }
        if not set(self.pivots) <= set(PIVOTS):
            header["note"] = f"paraphrases: Marian {trips}, not {PAPERS}"
        return header

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the round-trip translations of each text."""
        clean = [" ".join(text.split()) for text in texts]
        views = []
        for view in range(self.views):
            pivot = self.pivots[view % len(self.pivots)]
            there = self._translated(clean, f"en-{pivot}", view)
            views.append(self._translated(there, f"{pivot}-en", view))
        return list(zip(*views, strict=True))

    def _translated(self, texts: list[str], direction: str, view: int) -> list[str]:
        # A model invents a translation of an empty text.
        some = [text for text in texts if text]
        if not some:
            return texts
        if direction not in self._loaded:
            self._loaded[direction] = Opus(self.folders[direction], direction.partition("-")[2])
        seed = seed_for(self.seed, f"marian/{direction}/{view}/{digest(some)}")
        drawn = iter(self._loaded[direction].sample(some, self.temperature, seed))
        return [next(drawn) if text else "" for text in texts]
