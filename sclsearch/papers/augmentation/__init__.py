"""Paraphrasing back-ends: EDA, and back-translation by Marian models with random sampling.

Back-translation follows Edunov et al. (2018). The models are opus-mt (Tiedemann & Thottingal,
2020); Gunel et al. use fairseq's WMT'18 models.
"""

import copy
import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from sclsearch.canonical import digest, file_digest
from sclsearch.errors import SclsearchError, first_line
from sclsearch.randomness import seed_for
from sclsearch.tasks.paraphrases import EDA_NOTE, EDA_VERSION, eda

PIVOTS = ("de", "zh")
TEMPERATURE = 0.7
OWNER = "Helsinki-NLP"
NEEDED = ("config.json", "vocab.json", "source.spm", "target.spm")
MORE = ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json")
# Most models on the hub have only the second file.
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Target-language token of a multilingual model, by the language in the model's name.
TARGETS = {"zh": ">>cmn_Hans<<"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a paraphrasing back-end; None uses the back-end's default.

    `views` is the number of paraphrases per text, two or more. The pivots are the languages of the
    round-trip translations; the second one is for every second paraphrase. `models` is the folder
    with the folders of the translation models.
    """

    views: int = 2
    pivot: str | None = None
    second_pivot: str | None = None
    temperature: float | None = None
    seed: int | None = None
    models: Path | None = None


class Backend(Protocol):
    """Generator of paraphrases.

    `at_once` is the number of rows whose texts it receives per call; `english` is True if the texts
    must be English.
    """

    at_once: int
    english: bool

    def header(self) -> dict[str, Any]:
        """Return `source` and `note` for readers, and all settings that determine the paraphrases.

        Raises:
            SclsearchError: A required resource is unavailable.
        """
        ...

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the paraphrases of each text, a pure function of the texts and the header.

        A paraphrase is empty if the back-end found none. No text is blank.
        """
        ...


class EDA:
    """Easy data augmentation: the paraphrases that methods use without a file."""

    at_once = 1000
    english = False

    def __init__(self, options: Options) -> None:
        unused = ("pivot", "second_pivot", "temperature", "seed", "models")
        faults = [
            f"--{name.replace('_', '-')}: does not apply to --backend eda, got {given}. "
            "Leave it out."
            for name in unused
            if (given := getattr(options, name)) is not None
        ]
        if faults:
            raise SclsearchError("\n".join(faults))
        self.views = options.views

    def header(self) -> dict[str, Any]:
        return {"source": "EDA", "note": EDA_NOTE, "version": EDA_VERSION}

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        return [eda(text, self.views) for text in texts]


class Marian:
    """Back-translation from English, with sampling at a temperature in both directions.

    The model treats a text as one sentence and truncates it to its maximum length.
    """

    at_once = 64
    english = True

    def __init__(self, options: Options) -> None:
        second = options.second_pivot or (PIVOTS[1] if options.views == len(PIVOTS) else None)
        self.pivots = [options.pivot or PIVOTS[0], *([second] if second else [])]
        self.views = options.views
        self.temperature = TEMPERATURE if options.temperature is None else options.temperature
        self.seed = options.seed or 0
        self._models = options.models
        self._loaded: dict[str, Opus] = {}
        if not 0 < self.temperature < float("inf"):
            raise SclsearchError(
                f"--temperature: must be a positive number, got {self.temperature:g}."
            )
        if importlib.util.find_spec("sentencepiece") is None:
            raise SclsearchError(
                "--backend marian: sentencepiece is not installed. Install the extra 'augment' "
                "(pip install 'sclsearch[augment]')."
            )

    @cached_property
    def folders(self) -> dict[str, Path]:
        """Model folder of each direction, downloaded from the hub if necessary."""
        pairs = [(f"en-{pivot}", f"{pivot}-en") for pivot in self.pivots]
        folders, faults = {}, []
        for direction in dict.fromkeys(name for pair in pairs for name in pair):
            try:
                folders[direction] = _model_folder(f"opus-mt-{direction}", self._models)
            except SclsearchError as error:
                faults.append(str(error))
        if faults:
            raise SclsearchError("\n".join(faults))
        return folders

    def header(self) -> dict[str, Any]:
        import torch

        trips = " and ".join(f"en-{pivot}-en" for pivot in dict.fromkeys(self.pivots))
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
            header["note"] = (
                f"paraphrases: Marian {trips}, not the papers' Marian en-de-en/en-zh-en"
            )
        return header

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
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


class Opus:
    """Opus-mt translation model with its tokenizer, on the GPU if there is one."""

    def __init__(self, folder: Path, target: str) -> None:
        import torch
        from safetensors import SafetensorError
        from transformers import MarianMTModel, MarianTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            with warnings.catch_warnings():
                # transformers recommends a package for a normalization that it does not call.
                warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
                self.tokenizer: Any = MarianTokenizer.from_pretrained(
                    str(folder), trust_remote_code=False
                )
            self.model: Any = MarianMTModel.from_pretrained(
                str(folder), dtype=torch.float32, trust_remote_code=False
            )
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise SclsearchError(
                f"{folder}: transformers cannot load the files as a Marian model: "
                f"{first_line(error).rstrip('.')}. Download the model again."
            ) from error
        self.model.to("cuda" if torch.cuda.is_available() else "cpu")  # type: ignore[arg-type]
        code = TARGETS.get(target, "")
        self.prefix = f"{code} " if code in self.tokenizer.supported_language_codes else ""

    def sample(self, texts: list[str], temperature: float, seed: int) -> list[str]:
        """Return a translation of each text, with every token sampled from the whole vocabulary.

        The result is a pure function of the arguments, as far as the device's arithmetic is
        deterministic. The maximum length is twice the tokens of the longest text plus 10, or the
        model's maximum.
        """
        import torch

        max_length = self.model.config.max_position_embeddings
        inputs = self.tokenizer(
            [self.prefix + text for text in texts],
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=max_length,
        ).to(self.model.device)
        # The model's default is beam search, whose outputs are nearly always the same.
        config = copy.deepcopy(self.model.generation_config)
        config.update(
            do_sample=True,
            num_beams=1,
            early_stopping=False,
            temperature=temperature,
            top_k=0,
            top_p=1.0,
            max_length=min(max_length, 2 * inputs["input_ids"].shape[1] + 10),
        )
        devices = [self.model.device] if self.model.device.type == "cuda" else []
        with torch.random.fork_rng(devices), torch.inference_mode():
            torch.manual_seed(seed)
            drawn = self.model.generate(**inputs, generation_config=config)
        decoded: list[str] = self.tokenizer.batch_decode(drawn, skip_special_tokens=True)
        return [" ".join(text.split()) for text in decoded]


def model_files(folder: Path) -> list[Path]:
    """Return the files that determine the model's output."""
    weights = next(name for name in WEIGHTS if (folder / name).is_file())
    return [folder / name for name in (*NEEDED, *MORE, weights) if (folder / name).is_file()]


def _model_folder(name: str, models: Path | None) -> Path:
    folder = _download(name) if models is None else models.expanduser() / name
    missing = [file for file in NEEDED if not (folder / file).is_file()]
    if not any((folder / file).is_file() for file in WEIGHTS):
        missing.append(" or ".join(WEIGHTS))
    if missing:
        raise SclsearchError(
            f"{folder}: lacks {', '.join(missing)}. Take the files from {OWNER}/{name} on the hub."
        )
    return folder


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    hub = f"{OWNER}/{name}"
    try:
        folder = Path(snapshot_download(hub, allow_patterns=[*NEEDED, *MORE, WEIGHTS[0]]))
        if not (folder / WEIGHTS[0]).is_file():
            folder = Path(snapshot_download(hub, allow_patterns=[*NEEDED, *MORE, WEIGHTS[1]]))
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
        raise SclsearchError(
            f"--backend marian: cannot download {hub} ({type(error).__name__}). Check the pivots "
            f"and the network, or give --models FOLDER with the folder {name} in it."
        ) from error
    return folder


BACKENDS: Mapping[str, Callable[[Options], Backend]] = {"marian": Marian, "eda": EDA}
"""Registry of the back-ends."""
