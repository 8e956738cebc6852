"""What an exported winner says of new texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

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
    """What is said of one text or pair.

    Attributes:
        label: The class, or the score in regression.
        scores: By class: what its head gives, of which the softmax is a probability, and the
            cosines of text and class in `lacon` and `lacon-fusion`; empty in regression.
    """

    label: str | float
    scores: Mapping[str, float]


def read_card(folder: Path) -> Card:
    """Returns what an exported folder says of itself.

    Raises:
        SclsearchError: It is none, or of a version that did not say its classes.
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
            f"{file}: it must be what `sclsearch export STUDY FOLDER` writes, but: {fault}."
        ) from error
    if not card.place:
        raise SclsearchError(
            f"{file}: it must tell the classes, but an older version wrote it. Export the study "
            "again."
        )
    return card


def predict(
    folder: Path,
    texts: Sequence[str | Texts],
    custom_method: "str | type[Method] | None" = None,
) -> list[Prediction]:
    """Returns what an exported winner says of some texts, in their order.

    Args:
        folder: What `export` wrote.
        texts: Texts, or pairs of them where the task has pairs.
        custom_method: `FILE.py:CLASS` or the class, required if the export's method is in a file of
            code: its hash must be the recorded one.

    Raises:
        SclsearchError: The folder is none, its method is not there, or a text is no pair or one.
    """
    import torch

    from sclsearch.encoders.load import load_encoder, load_tokenizer
    from sclsearch.methods import find_recorded_method
    from sclsearch.methods.base import Model
    from sclsearch.methods.fields import as_tuples, build
    from sclsearch.protocols.base import Rows
    from sclsearch.training.evaluation import scores_of
    from sclsearch.training.tokens import tokenize_task

    card = read_card(folder)
    if isinstance(texts, str):
        raise SclsearchError("texts: they must be a list, but there is one text. Pass [text].")
    rows = tuple((text,) if isinstance(text, str) else tuple(text) for text in texts)
    for number, reason in text_faults(enumerate(rows)):
        raise SclsearchError(f"text {number}: {reason}.")
    for number, row in enumerate(rows):
        if len(row) != 1 + card.pair:
            raise SclsearchError(
                f"text {number}: there must be {1 + card.pair} as in {card.task}, but there are "
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
            f"{file}: it must be as `sclsearch export` wrote it, but: {error}. Export the study "
            "again."
        ) from error
