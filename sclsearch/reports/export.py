"""The winner of a study as a Hugging Face folder, where other programs and studies begin."""

import json
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sclsearch.encoders.models import CARD, HUB_FILES, base_model, model_digest, model_folder
from sclsearch.errors import SclsearchError
from sclsearch.methods import is_own
from sclsearch.reports.report import Report, finished_winner
from sclsearch.store.objects import check_writable
from sclsearch.store.records import StudyRecord
from sclsearch.store.remote import Remote
from sclsearch.store.storage import Storage, storage_option
from sclsearch.store.studies import existing_study

WEIGHTS = "model.safetensors"
PARTS = "parts.safetensors"
CLASSIFIER_FIELDS = {"architectures", "id2label", "label2id", "num_labels", "problem_type"}
ENCODER_PREFIX, NEW_MODULES_PREFIX = "encoder.model.", "new_modules."
OLD_PREFIX = "parts."  # of NEW_MODULES_PREFIX, in release 0.1.0


@dataclass(frozen=True, slots=True)
class Card:
    """What an exported encoder is; `sclsearch.json` in its folder.

    Attributes:
        base: Name of the encoder that was fine-tuned.
        method: The method's name.
        task: The task's name.
        size: Training examples, None for all.
        protocol: The protocol's name.
        study: The study whose winner it is.
        rule: How the winner was chosen.
        key: Name of its seed run in the run store.
        replicate: Its replicate: of those that are reported, the best on validation rows.
        seeds: Replicates of the study.
        metric: Name of the metric.
        validation: Its validation figure.
        test: Its test figure.
        fields: Every field of method and training.
        place: How the method is found again, `FILE.py:CLASS` if it is a user's own.
        method_digest: SHA-256 of that file; empty for a method of sclsearch.
        labels: Names of the classes, in the order of their scores; empty in regression.
        pair: Whether it reads two texts at once.
        columns: Where a user's own file has the texts; empty for other tasks.
        mean_test: Mean test figure of all seeds of the winner that did not fail, none picked.
    """

    base: str
    method: str
    task: str
    size: str | None
    protocol: str
    study: str
    rule: str
    key: str
    replicate: int
    seeds: int
    metric: str
    validation: float | None
    test: float | None
    fields: Mapping[str, Any]
    place: str = ""
    method_digest: str = ""
    labels: tuple[str, ...] = ()
    pair: bool = False
    columns: tuple[str, ...] = ()
    mean_test: float | None = None


def card_of(found: Report) -> Card:
    """Returns what an export of the study would be.

    Raises:
        SclsearchError: The study has no winner.
    """
    winner = finished_winner(found)
    best = winner.seeds[winner.reported[0]]
    return Card(
        base=base_model(found.model_place),
        method=found.method,
        task=found.task,
        size=found.size,
        protocol=found.protocol,
        study=found.study,
        rule=found.rule,
        key=best.key,
        replicate=best.replicate,
        seeds=found.seeds,
        metric=found.metric,
        validation=best.validation,
        test=best.test,
        fields=winner.fields,
        mean_test=winner.plain and winner.plain[0],
    )


def export(found: Report, storage: Storage, folder: Path) -> Card:
    """Writes the winner's encoder, float32, and beside it the method's own parts.

    Config and tokenizer are those of the encoder that was fine-tuned; a pooler is there if that
    one had it.

    Args:
        found: The study's report.
        storage: Where the study is stored.
        folder: A folder that is empty or not there; afterwards it is whole or still not there.

    Raises:
        SclsearchError: There is no winner, its weights are not kept, the encoder that it began
            with has changed, or the folder is not free or cannot be written.
    """
    card = card_of(found)
    folder = folder.expanduser().resolve()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise SclsearchError(
            f"{folder}: it must be empty or not be there, but it is neither. Name another one."
        )
    store, record = existing_study(storage, found.study)
    weights = store.read_weights(card.key)
    if weights is None:
        place = store.weights(card.key)
        file = place.name if isinstance(place, Remote) else place
        raise SclsearchError(
            f"{found.study}: the weights of its best seed must be in {place}, but they are not. "
            f"`sclsearch rerun {card.key[:12]}{storage_option(storage)} --weights "
            f"{shlex.quote(str(file))}` writes them."
        )
    begun = _begun_with(record)
    card = _told(card, record)
    check_writable(folder.parent)
    with TemporaryDirectory(prefix=".export-", dir=folder.parent) as near:
        # A folder within, since that one is for its owner's eyes alone.
        part = Path(near) / folder.name
        part.mkdir()
        write_folder(part, weights, begun, card)
        part.rename(folder)
    return card


def _told(card: Card, record: StudyRecord) -> Card:
    """Returns the card with what a new text needs to be read."""
    origin, own = record.origin, record.origin["task"]
    return replace(
        card,
        place=origin["method"],
        method_digest=record.training.get("method_file", ""),
        labels=tuple(origin.get("labels", ())),
        pair=origin.get("pair", False),
        columns=() if isinstance(own, str) else tuple(own["text"]),
    )


def _begun_with(record: StudyRecord) -> Path:
    name = record.origin["model"]
    folder = model_folder(name)
    if model_digest(folder) != record.training["weights"]:
        raise SclsearchError(
            f"{record.name}: the encoder {name} must be what the study was made from, but it "
            "changed since. Take the same files."
        )
    return folder


def write_folder(folder: Path, weights: bytes, begun: Path, card: Card) -> None:
    """Write an exported classifier in the format that represents its head exactly.

    Args:
        folder: An empty folder.
        weights: A seed run's weights, safetensors.
        begun: Folder of the encoder that was fine-tuned.
        card: Its description.
    """
    from safetensors.torch import load

    from sclsearch.reports.classifier import (
        as_sequence_classifier,
        format_of,
        label_fields,
        write_sentence_transformer,
    )
    from sclsearch.training.weights import save_tensors

    for name in HUB_FILES:
        if name != WEIGHTS and (begun / name).is_file():
            shutil.copyfile(begun / name, folder / name)
    max_length = int(card.fields["max_length"])
    tokenizer = folder / "tokenizer_config.json"
    if tokenizer.is_file():
        read = json.loads(tokenizer.read_text(encoding="utf-8"))
        _write_json(tokenizer, {**read, "model_max_length": max_length})
    stored = load(weights)
    encoder, parts = (
        {
            n.removeprefix(start): t
            for start in starts
            for n, t in stored.items()
            if n.startswith(start)
        }
        for starts in ((ENCODER_PREFIX,), (NEW_MODULES_PREFIX, OLD_PREFIX))
    )
    save_tensors(folder / PARTS, parts, {"format": "pt"})
    config = json.loads((begun / "config.json").read_text(encoding="utf-8"))
    # Where it says half precision, transformers would round the weights to it.
    config.pop("torch_dtype", None)
    # Names of classes, or a classifier's name, beside weights without its head would make
    # transformers answer from random weights in our words.
    kinds = [kind for kind in config.get("architectures") or () if "Classification" not in kind]
    config = {name: config[name] for name in config.keys() - CLASSIFIER_FIELDS}
    pooling = None if is_own(card.place) else card.fields.get("pooling")
    form = format_of(config["model_type"], parts, pooling)
    if form == "transformers":
        kind, encoder = as_sequence_classifier(config["model_type"], encoder, parts)
        kinds, config = [kind], {**config, **label_fields(card.labels)}
    elif form == "sentence-transformers":
        write_sentence_transformer(folder, parts, str(pooling), max_length)
    _write_json(folder / "config.json", {**config, "dtype": "float32", "architectures": kinds})
    save_tensors(folder / WEIGHTS, encoder, {"format": "pt"})
    _write_json(folder / CARD, asdict(card))


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
