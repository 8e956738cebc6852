"""Loading of an encoder and its tokenizer from a folder."""

import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sclsearch.canonical import counted, one_line
from sclsearch.encoders.encoder import FORWARD_ERRORS, Encoder
from sclsearch.encoders.heads import load_head_weights
from sclsearch.errors import SclsearchError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CPU = torch.device("cpu")


def load_encoder(folder: Path, name: str, device: torch.device = CPU) -> Encoder:
    """Return a new copy of a pretrained encoder, float32, in evaluation mode.

    A process reads the files once, and again if they change. A worker that trains many seed runs
    copies the weights, on a GPU within its memory. Errors show `name`.
    """
    return copy.deepcopy(_pretrained(folder, name, device, _files(folder)))


def forget_encoder() -> None:
    """Free the memory of the pretrained encoder that `load_encoder` keeps."""
    _pretrained.cache_clear()


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """Return the fast tokenizer of a model's folder."""
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=False
        )
    except Exception as error:  # transformers documents no errors for damaged files
        raise SclsearchError(
            f"{folder}: transformers cannot load tokenizer.json: {_text(error)}"
        ) from error
    return tokenizer


def _files(folder: Path) -> tuple[tuple[object, ...], ...]:
    if not folder.is_dir():
        return ()
    stats = ((path.name, path.stat()) for path in sorted(folder.iterdir()))
    return tuple((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


@lru_cache(maxsize=1)
def _pretrained(
    folder: Path, name: str, device: torch.device, _: tuple[tuple[object, ...], ...]
) -> Encoder:
    model, missing = _read(folder, name)
    kind = model.config.model_type
    lacking = [key for key in missing if not key.startswith("pooler.")]
    if lacking:
        raise SclsearchError(
            f"--model {name}: model.safetensors lacks {counted(len(lacking), 'weight')} of {kind}, "
            f"or has other shapes, the first {lacking[0]}. Take a complete checkpoint."
        )
    if missing:
        model.pooler = None  # type: ignore[assignment]  # its weights would be random
    if model.config.is_encoder_decoder and hasattr(model, "decoder"):
        raise SclsearchError(f"--model {name}: {kind} has a decoder. Choose an encoder.")
    mask_token: int | None = None
    with suppress(SclsearchError):  # tokenization reports this error; the encoder itself is valid
        mask_token = load_tokenizer(folder).mask_token_id
    # Our head shares the input embeddings, so a head with a separate decoder cannot be loaded.
    tied = getattr(model.config, "tie_word_embeddings", True)
    file = folder / "model.safetensors"
    weights, activation = load_head_weights(file, model) if tied else ({}, "gelu")
    try:
        encoder = Encoder(name, model, mask_token, weights, activation)
    except FORWARD_ERRORS as error:
        raise SclsearchError(
            f"--model {name}: {kind} must encode a text of any length, but fails for four short "
            f"ones: {_text(error)}. Choose a model such as BERT or RoBERTa."
        ) from error
    if encoder.causal:
        raise SclsearchError(f"--model {name}: {kind} is a decoder. Choose an encoder.")
    if not encoder.noise_free:
        raise SclsearchError(
            f"--model {name}: {kind} has dropout with fixed rates. Set them to 0 in config.json "
            "or choose another model."
        )
    return encoder.eval().to(device)


def _read(folder: Path, name: str) -> "tuple[PreTrainedModel, list[str]]":
    """Return the model and the names of the weights that its file lacks or has in other shapes."""
    from transformers import MODEL_FOR_TEXT_ENCODING_MAPPING, AutoConfig, AutoModel

    with quiet_transformers():
        try:
            config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
            # T5 has a class for its encoder alone; AutoModel would load the decoder, too.
            kind: Any = MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), AutoModel)
            # Otherwise the checkpoint's dtype is kept, and half precision cannot be trained.
            model, loading = kind.from_pretrained(
                str(folder),
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                ignore_mismatched_sizes=True,  # otherwise its error does not name them
                output_loading_info=True,
            )
        except Exception as error:  # transformers documents no errors for damaged files
            raise SclsearchError(
                f"--model {name}: transformers cannot load it as an encoder: {_text(error)}"
            ) from error
    for weight, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise SclsearchError(
                f"--model {name}: model.safetensors: {weight} holds NaN or infinite values. Take "
                "an undamaged checkpoint."
            )
    mismatched = {name for name, *_ in loading["mismatched_keys"]}
    return model, sorted(mismatched | loading["missing_keys"])


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(str(error), 300)}"


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' progress bars and its warnings on newly initialized layers."""
    from transformers.utils import logging as transformers_logging

    level = transformers_logging.get_verbosity()
    bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.ERROR)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bar:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
