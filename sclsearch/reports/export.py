"""Export of a study's winner as a Hugging Face folder for other programs and studies."""

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
from sclsearch.store.local import LocalPath
from sclsearch.store.objects import check_writable
from sclsearch.store.records import StudyRecord
from sclsearch.store.storage import Storage, storage_option
from sclsearch.store.studies import existing_study

WEIGHTS = "model.safetensors"
PARTS = "parts.safetensors"
CLASSIFIER_FIELDS = {"architectures", "id2label", "label2id", "num_labels", "problem_type"}
ENCODER_PREFIX, NEW_MODULES_PREFIX = "encoder.model.", "new_modules."
OLD_PREFIX = "parts."  # value of NEW_MODULES_PREFIX in release 0.1.0


@dataclass(frozen=True, slots=True)
class Card:
    """Description of an exported encoder, stored as `sclsearch.json` in its folder.

    Attributes:
        base: Name of the encoder that was fine-tuned.
        method: The method's name.
        task: The task's name.
        size: Training set size; None for all training examples.
        protocol: The protocol's name.
        study: Name of the study that the winner belongs to.
        rule: Selection rule that chose the winner.
        key: Key of the exported seed run in the run store.
        replicate: Number of the exported replicate: the best reported one by validation score.
        seeds: Number of replicates of the study.
        metric: Name of the metric.
        validation: Validation score of the exported seed run.
        test: Test score of the exported seed run.
        fields: Every hyperparameter of method and training.
        place: Name of the method, or `FILE.py:CLASS` for a custom method.
        method_digest: SHA-256 of that file; empty for a method of sclsearch.
        labels: Names of the classes, in the order of the scores; empty for regression.
        pair: True if the classifier reads text pairs.
        columns: Text columns of the user's own file; empty for other tasks.
        mean_test: Mean test score over all seeds of the winner that did not fail.
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
    """Return the card of a study's winner; `export` adds fields from the stored record.

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
    """Write the winner's encoder in float32 and its new modules to a folder.

    Config and tokenizer come from the encoder that was fine-tuned. The export has a pooler if that
    encoder had one.

    Args:
        found: The study's report.
        storage: Storage of the study.
        folder: An empty or missing folder. On failure no partial export remains.

    Raises:
        SclsearchError: There is no winner, its weights are not stored, or the original encoder
            has changed. Also if the folder is not empty or not writable.
    """
    card = card_of(found)
    folder = folder.expanduser().resolve()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise SclsearchError(f"{folder}: exists and is not an empty folder. Name another one.")
    store, record = existing_study(storage, found.study)
    weights = store.read_weights(card.key)
    if weights is None:
        path = store.weights(card.key)
        file = path.local or path.name
        raise SclsearchError(
            f"{found.study}: the weights of its best seed are not in {path}. "
            f"`sclsearch rerun {card.key[:12]}{storage_option(storage)} --weights "
            f"{shlex.quote(str(file))}` writes them."
        )
    begun = _begun_with(record)
    card = _told(card, record)
    check_writable(LocalPath(folder.parent))
    with TemporaryDirectory(prefix=".export-", dir=folder.parent) as near:
        # Use a subfolder: the temporary folder itself is readable only by its owner.
        part = Path(near) / folder.name
        part.mkdir()
        write_folder(part, weights, begun, card)
        part.rename(folder)
    return card


def _told(card: Card, record: StudyRecord) -> Card:
    """Return the card with the fields that prediction needs: method, classes and text columns."""
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
            f"{record.name}: the encoder {name} has changed since the study used it. Use the same "
            "files."
        )
    return folder


def write_folder(folder: Path, weights: bytes, begun: Path, card: Card) -> None:
    """Write a classifier to a folder in the format that represents its head exactly.

    Args:
        folder: An empty folder.
        weights: Weights of a seed run, in safetensors format.
        begun: Folder of the encoder that was fine-tuned.
        card: Description of the classifier.
    """
    from safetensors.torch import load

    from sclsearch.reports.classifier import (
        as_sequence_classifier,
        format_of,
        label_fields,
        write_sentence_transformer,
    )
    from sclsearch.training.result import save_tensors

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
    # With a half precision dtype here, transformers would round the weights.
    config.pop("torch_dtype", None)
    # These weights may lack a head. With class names or a classifier class in the config,
    # transformers would then predict our labels from a randomly initialized head.
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
