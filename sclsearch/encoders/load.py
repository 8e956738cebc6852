"""Loading of an encoder and its tokenizer from a folder."""

import copy
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.module import register_module_module_registration_hook

from sclsearch.canonical import counted, one_line
from sclsearch.encoders.encoder import FORWARD_ERRORS, Encoder
from sclsearch.encoders.heads import load_head_weights
from sclsearch.encoders.models import encoder_config, has_pooler
from sclsearch.errors import SclsearchError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CPU = torch.device("cpu")
CHARACTERS = 32
"""Characters per token above which a text is cut before its tokenization."""
OTHER_SHAPES = "has in other shapes than config.json"
MOST_MODULES = 5_000
"""Modules of a model at most: 48 layers have about 1,000, and many take minutes to build."""


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

    if not (folder / "tokenizer.json").is_file():  # transformers would know no words
        raise SclsearchError(f"{folder}: lacks tokenizer.json. Copy or export the model again.")
    try:
        # Every call has a length of its own, and the file's may be anything.
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=False, model_max_length=10**9
        )
    except Exception as error:  # transformers documents no errors for damaged files
        raise SclsearchError(
            f"{folder}: transformers cannot load tokenizer.json: {_text(error)}"
        ) from error
    return tokenizer


def beginnings(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], most: int) -> list[str]:
    """Return the texts without most characters that are beyond their first `most` tokens.

    A token depends on its neighbors: a beginning of twice as many tokens has the same first ones as
    the whole text, whose tokenization may take minutes.
    """
    found = []
    for text in texts:
        size = CHARACTERS * most if tokenizer.truncation_side == "right" else len(text)
        while size < len(text) and len(tokenizer(text[:size])["input_ids"]) <= 2 * most:
            size *= 2
        found.append(text[:size])
    return found


def _files(folder: Path) -> tuple[tuple[object, ...], ...]:
    if not folder.is_dir():
        return ()
    found = (path for path in sorted(folder.iterdir()) if path.exists())  # no broken links
    stats = ((path.name, path.stat()) for path in found)
    return tuple((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


@lru_cache(maxsize=1)
def _pretrained(
    folder: Path, name: str, device: torch.device, _: tuple[tuple[object, ...], ...]
) -> Encoder:
    model = _read(folder, name)
    kind = model.config.model_type
    mask_token: int | None = None
    with suppress(SclsearchError):  # tokenization reports this error; the encoder itself is valid
        mask_token = load_tokenizer(folder).mask_token_id
    # Our head shares the input embeddings, so a head with a separate decoder cannot be loaded.
    tied = getattr(model.config, "tie_word_embeddings", True)
    file = folder / "model.safetensors"
    weights, activation = load_head_weights(file, model) if tied else ({}, "gelu")
    try:
        encoder = Encoder(name, model, mask_token, weights, activation, pooler=has_pooler(folder))
    except FORWARD_ERRORS as error:
        raise SclsearchError(
            f"--model {name}: {kind} cannot encode four short texts: {_text(error).rstrip('.')}. "
            "Choose a model such as BERT or RoBERTa."
        ) from error
    if encoder.causal:
        raise SclsearchError(
            f"--model {name}: {kind} is like a decoder: states ignore later tokens. Choose an "
            "encoder."
        )
    if not encoder.noise_free:
        raise SclsearchError(
            f"--model {name}: {kind} has noise in training that dropout=0 does not turn off, such "
            "as dropout with fixed rates. Set these to 0 in config.json or choose another model."
        )
    return encoder.eval().to(device)


def _read(folder: Path, name: str) -> "PreTrainedModel":
    """Return the model; without its pooler if the file lacks it."""
    import transformers

    with quiet_transformers():
        try:
            config = encoder_config(folder)
            # T5 has a class for its encoder alone; AutoModel would load the decoder, too.
            alone = type(config) in transformers.MODEL_FOR_TEXT_ENCODING_MAPPING
            kind: Any = getattr(transformers, f"AutoModel{'ForTextEncoding' * alone}")
            if getattr(config, "attention_type", "") == "block_sparse":
                # Otherwise BigBird replaces its modules at the first short text.
                config.attention_type = "original_full"
            _check_outline(kind, config, folder, name)
            model: PreTrainedModel
            # Otherwise the checkpoint's dtype is kept, and half precision cannot be trained.
            model, loading = kind.from_pretrained(
                str(folder),
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                ignore_mismatched_sizes=True,  # otherwise its error does not name them
                output_loading_info=True,
            )
        except SclsearchError:
            raise
        except Exception as error:  # transformers documents no errors for damaged files
            raise SclsearchError(
                f"--model {name}: transformers cannot load it as an encoder: {_text(error)}"
            ) from error
    reshaped = [key for key, *_ in loading["mismatched_keys"]]
    _check_weights(model, {"lacks": loading["missing_keys"], OTHER_SHAPES: reshaped}, name)
    if any(key.startswith("pooler.") for key in (*reshaped, *loading["missing_keys"])):
        model.pooler = None  # type: ignore[assignment]  # its weights would be random
    return model


def _check_weights(
    model: "PreTrainedModel", absent: Mapping[str, Iterable[str]], name: str
) -> None:
    for fault, keys in absent.items():
        if lacking := sorted(key for key in keys if not key.startswith("pooler.")):
            raise SclsearchError(
                f"--model {name}: model.safetensors {fault} {counted(len(lacking), 'weight')} of "
                f"{model.config.model_type}, the first {lacking[0]}. Take a complete checkpoint."
            )
    for weight, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise SclsearchError(
                f"--model {name}: model.safetensors: {weight} holds NaN or infinite values. Take "
                "an undamaged checkpoint."
            )


def _check_outline(auto: Any, config: Any, folder: Path, name: str) -> None:
    """Raise SclsearchError for a decoder, and for more modules or weights than a file can have.

    The model is built without its weights, which takes no memory.
    """
    modules = count(1)

    def limit(*_: object) -> None:
        if next(modules) > MOST_MODULES:
            raise ValueError(f"config.json describes more than {MOST_MODULES:,} modules")

    hook = register_module_module_registration_hook(limit)
    try:
        with torch.device("meta"):
            model = auto.from_config(copy.deepcopy(config))
    finally:
        hook.remove()
    if config.is_encoder_decoder and hasattr(model, "decoder"):
        kind = config.model_type
        raise SclsearchError(f"--model {name}: {kind} has a decoder. Choose an encoder.")
    weights, size = model.num_parameters(), (folder / "model.safetensors").stat().st_size
    if weights > size:
        raise SclsearchError(
            f"--model {name}: config.json describes {weights:,} weights, but model.safetensors has "
            f"{size:,} bytes. Take a complete checkpoint."
        )


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
