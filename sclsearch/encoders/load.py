"""Loads an encoder and its tokenizer from a folder."""

import copy
import logging
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from sclsearch.encoders.encoder import Encoder
from sclsearch.errors import SclsearchError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_encoder(folder: Path, name: str) -> Encoder:
    """Returns a fresh copy of the encoder, float32, in evaluation mode.

    The files are read once in a process: a worker that trains many seed runs copies the weights.

    Args:
        folder: Holds config.json, model.safetensors and tokenizer.json.
        name: The model's name, for errors.

    Raises:
        SclsearchError: It is no encoder that transformers can load.
    """
    return copy.deepcopy(_pretrained(folder, name))


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """Returns the fast tokenizer of a model's folder."""
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(folder))
    return tokenizer


@lru_cache(maxsize=1)
def _pretrained(folder: Path, name: str) -> Encoder:
    from transformers import AutoModel

    with _quiet():
        try:
            # The checkpoint's own type is kept otherwise, and half precision does not train.
            model, loading = AutoModel.from_pretrained(
                str(folder), dtype=torch.float32, use_safetensors=True, output_loading_info=True
            )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            first = str(error).partition("\n")[0]
            raise SclsearchError(
                f"--model {name}: it must be an encoder that transformers can load, but: {first}"
            ) from error
    if getattr(model.config, "is_encoder_decoder", False) or getattr(
        model.config, "is_decoder", False
    ):
        raise SclsearchError(
            f"--model {name}: it must be an encoder, but {model.config.model_type} is a decoder."
        )
    pooler = getattr(model, "pooler", None) is not None
    lacking = any(key.startswith("pooler.") for key in loading["missing_keys"])
    return Encoder(name, model, pretrained_pooler=pooler and not lacking)


class _quiet:  # noqa: N801  # reads as a verb
    """Silences transformers' bars and warnings on newly initialised layers while loading."""

    def __enter__(self) -> None:
        from transformers.utils import logging as transformers_logging

        self._level = transformers_logging.get_verbosity()
        self._bar = transformers_logging.is_progress_bar_enabled()
        transformers_logging.set_verbosity(logging.ERROR)
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]

    def __exit__(self, *_: object) -> None:
        from transformers.utils import logging as transformers_logging

        transformers_logging.set_verbosity(self._level)
        if self._bar:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
