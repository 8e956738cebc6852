"""Opus-mt translation models: download, and translation by sampling."""

import copy
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sclsearch.errors import SclsearchError

if TYPE_CHECKING:
    from transformers import GenerationConfig

OWNER = "Helsinki-NLP"
NEEDED = ("config.json", "vocab.json", "source.spm", "target.spm")
MORE = ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json")
# Most models on the hub have only the second file.
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Target-language token of a multilingual model, by the language in the model's name.
TARGETS: Mapping[str, str] = MappingProxyType({"zh": ">>cmn_Hans<<"})


def opus_folders(directions: Iterable[str], models: Path | None) -> dict[str, Path]:
    """Return the model folder of each direction, downloaded from the hub if necessary.

    Args:
        directions: `en-de`, `de-en`.
        models: Folder that contains `opus-mt-en-de`; None uses the hub and its cache.

    Raises:
        SclsearchError: Some models are unavailable; the message names each.
    """
    folders, faults = {}, []
    for direction in directions:
        try:
            folders[direction] = _folder(f"opus-mt-{direction}", models)
        except SclsearchError as error:
            faults.append(str(error))
    if faults:
        raise SclsearchError("\n".join(faults))
    return folders


def model_files(folder: Path) -> list[Path]:
    """Return the files that determine the model's output."""
    weights = next(name for name in WEIGHTS if (folder / name).is_file())
    return [folder / name for name in (*NEEDED, *MORE, weights) if (folder / name).is_file()]


class Opus:
    """Translation model with its tokenizer, on the GPU if there is one.

    Args:
        folder: Folder of the model's files.
        target: Target language.

    Raises:
        SclsearchError: transformers cannot load the files as a model.
    """

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
                f"{folder}: it must be a Marian model that transformers can load, but: "
                f"{str(error).partition(chr(10))[0]}"
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

        most = self.model.config.max_position_embeddings
        inputs = self.tokenizer(
            [self.prefix + text for text in texts],
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=most,
        ).to(self.model.device)
        longest = min(most, 2 * inputs["input_ids"].shape[1] + 10)
        devices = [self.model.device] if self.model.device.type == "cuda" else []
        with torch.random.fork_rng(devices), torch.inference_mode():
            torch.manual_seed(seed)
            drawn = self.model.generate(
                **inputs, generation_config=self._sampling(temperature, longest)
            )
        decoded: list[str] = self.tokenizer.batch_decode(drawn, skip_special_tokens=True)
        return [" ".join(text.split()) for text in decoded]

    def _sampling(self, temperature: float, longest: int) -> "GenerationConfig":
        # The model's default is beam search, whose outputs are nearly always the same.
        config: GenerationConfig = copy.deepcopy(self.model.generation_config)
        config.update(  # type: ignore[no-untyped-call]
            do_sample=True,
            num_beams=1,
            early_stopping=False,
            temperature=temperature,
            top_k=0,
            top_p=1.0,
            max_length=longest,
        )
        return config


def _folder(name: str, models: Path | None) -> Path:
    folder = _fetch(name) if models is None else models.expanduser() / name
    missing = [file for file in NEEDED if not (folder / file).is_file()]
    if not any((folder / file).is_file() for file in WEIGHTS):
        missing.append(" or ".join(WEIGHTS))
    if missing:
        raise SclsearchError(
            f"{folder}: the files of the model {name} must be there, but {', '.join(missing)} is "
            f"missing. Take them from {OWNER}/{name} on the hub."
        )
    return folder


def _fetch(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
    )

    hub = f"{OWNER}/{name}"
    try:
        folder = Path(snapshot_download(hub, allow_patterns=[*NEEDED, *MORE, WEIGHTS[0]]))
        if not (folder / WEIGHTS[0]).is_file():
            folder = Path(snapshot_download(hub, allow_patterns=[*NEEDED, *MORE, WEIGHTS[1]]))
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
        raise SclsearchError(
            f"--backend marian: {hub} must be on the hub or in its cache, but it could not be had "
            f"({type(error).__name__}). Check the pivots and the network, or give --models FOLDER "
            f"with the folder {name} in it."
        ) from error
    return folder
