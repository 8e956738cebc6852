"""Prediction on new texts with an exported winner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sclsearch.canonical import counted
from sclsearch.encoders.models import CARD
from sclsearch.errors import SclsearchError
from sclsearch.reports.export import PARTS, Card
from sclsearch.tasks.base import Split, Task, TaskData, Texts
from sclsearch.tasks.tables import text_faults

if TYPE_CHECKING:
    from torch import nn

    from sclsearch.methods.base import Method

SPLIT = "texts"


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction for one text or text pair.

    Attributes:
        label: The predicted class, or the predicted score for regression.
        scores: Score of each class; empty for regression. Scores are logits, except for `lacon`
            and `lacon-fusion`: there they are cosine similarities of text and class.
    """

    label: str | float
    scores: Mapping[str, float]


def read_card(folder: Path) -> Card:
    """Return the card of an exported folder, from its `sclsearch.json`.

    Raises:
        SclsearchError: The folder has no valid card, or the card of an old version without classes.
    """
    from pydantic import TypeAdapter, ValidationError

    file = folder / CARD
    try:
        card = TypeAdapter(Card).validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        fault = str(error)
        if isinstance(error, ValidationError):
            faults = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            fault = "; ".join(faults)
        raise SclsearchError(
            f"{file}: not a file of `sclsearch export`: {fault}. Export the study again."
        ) from error
    if not card.place:
        raise SclsearchError(
            f"{file}: has no classes, because an older version wrote it. Export the study again."
        )
    return card


def predict(
    folder: Path,
    texts: Sequence[str | Texts],
    custom_method: "str | type[Method] | None" = None,
) -> list[Prediction]:
    """Return the predictions of an exported winner for texts, in the order of the texts.

    Args:
        folder: Folder written by `export`.
        texts: Texts, or text pairs if the task has pairs.
        custom_method: `FILE.py:CLASS` or the class; required if the export's method is a custom
            method in a file. The hash of the file must equal the recorded hash.

    Raises:
        SclsearchError: The folder is no export, its method is missing, or a text is invalid: empty,
            or a pair where the task has none, or the reverse.
    """
    import torch

    from sclsearch.encoders.load import load_encoder, load_tokenizer
    from sclsearch.methods import find_recorded_method
    from sclsearch.methods.base import Model
    from sclsearch.methods.fields import as_tuples, build
    from sclsearch.protocols.base import Rows
    from sclsearch.training.data import tokenize_task
    from sclsearch.training.evaluation import scores_of

    card = read_card(folder)
    if isinstance(texts, str):
        raise SclsearchError("texts: must be a list, got one text. Pass [text].")
    rows = tuple((text,) if isinstance(text, str) else tuple(text) for text in texts)
    for number, reason in text_faults(enumerate(rows)):
        raise SclsearchError(f"text {number}: {reason}.")
    for number, row in enumerate(rows):
        if len(row) != 1 + card.pair:
            raise SclsearchError(
                f"text {number}: must have {counted(1 + card.pair, 'part')} as in {card.task}, got "
                f"{len(row)}."
            )
    if not rows:
        return []
    found = find_recorded_method(card.place, card.method_digest, custom_method, str(folder / CARD))
    fields = {name: as_tuples(value) for name, value in card.fields.items()}
    method, training = build(found.kind, fields, str(folder / CARD))
    encoder = load_encoder(folder, str(folder))
    model = Model(encoder, method.stages(training)[-1].new_modules(encoder, len(card.labels)))
    _load_parts(model.new_modules, folder / PARTS)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    task = Task(card.task, "new texts", card.labels, card.metric, pair=card.pair)
    data = TaskData(task, {SPLIT: Split(rows, np.zeros(len(rows), np.int64))}, "memory")
    tokens = tokenize_task(data, load_tokenizer(folder), training.max_length)
    every = Rows(SPLIT, np.arange(len(rows)))
    scores = scores_of(model.to(device), method, tokens, every, None, device)
    if not card.labels:
        return [Prediction(float(score), {}) for score in scores]
    return [
        Prediction(
            card.labels[int(own.argmax())], dict(zip(card.labels, own.tolist(), strict=True))
        )
        for own in scores
    ]


def _load_parts(parts: "nn.ModuleDict", file: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        parts.load_state_dict(load_file(file))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise SclsearchError(
            f"{file}: not a file of `sclsearch export`: {error}. Export the study again."
        ) from error
