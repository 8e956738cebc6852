"""Prediction on new texts with an exported classifier that stays in memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sclsearch.canonical import as_tuples, counted
from sclsearch.encoders.models import CARD, encoder_folder
from sclsearch.errors import SclsearchError, first_line
from sclsearch.reports.export import PARTS
from sclsearch.reports.export_record import ExportRecord, read_record
from sclsearch.tasks.base import Split, Task, TaskData, Texts
from sclsearch.tasks.tables import character_fault, has_blank

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedTokenizerBase

    from sclsearch.methods.base import Method, Model, Training
    from sclsearch.training.device import Backend

SPLIT = "texts"
BATCH_SIZE = 64
Scores = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction for one text or text pair.

    Attributes:
        label: The predicted class, or the predicted score for regression.
        scores: Score of each class; empty for regression. Scores are logits, except for `lacon`
            and `lacon-fusion`: there they are cosine similarities of text and class. The scores of
            an ensemble are the mean probabilities.
        probabilities: Probability of each class; empty for regression.
    """

    label: str | float
    scores: Mapping[str, float]
    probabilities: Mapping[str, float]


class Predictor:
    """Exported classifier in memory, for many predictions; `sclsearch.load` returns one.

    Threads may share it: it computes one batch at a time.

    Attributes:
        record: Description of the export.
        labels: Names of the classes, in the order of the probabilities; empty for regression.
        batch_size: Most texts that the encoder reads at a time.
        device: Device of the weights.
    """

    def __init__(
        self, record: ExportRecord, members: "Sequence[_SeedClassifier]", batch_size: int
    ) -> None:
        self.record = record
        self.labels = record.labels
        self.batch_size = batch_size
        self.device = members[0].backend.device
        self._members = members
        self._lock = Lock()

    def predict(self, texts: Sequence[str | Texts]) -> list[Prediction]:
        """Return the predictions for texts, in their order.

        Args:
            texts: Texts, or text pairs if the task has pairs.

        Raises:
            SclsearchError: A text is empty, a pair where the task has none, or the reverse.
        """
        return self._predict(self._rows(texts))

    def predict_proba(self, texts: Sequence[str | Texts]) -> Scores:
        """Return the probability of each class, `[texts, C]`, in the order of `labels`.

        Raises:
            SclsearchError: A text is invalid, or the task is a regression.
        """
        if not self.labels:
            raise SclsearchError(
                f"predict_proba: {self.record.task} must have classes, got a regression. Use "
                "predict."
            )
        return self._compute(self._rows(texts))[1]

    def predict_stream(self, texts: Iterable[str | Texts]) -> Iterator[Prediction]:
        """Yield the predictions for texts as they arrive, one batch at a time.

        Args:
            texts: Any iterable, such as a generator; it is read only one batch ahead.

        Raises:
            SclsearchError: A text is invalid; the predictions before its batch are complete.
        """
        _check_list(texts)
        rest, first = iter(texts), 0
        while batch := list(islice(rest, self.batch_size)):
            yield from self._predict(self._rows(batch, first))
            first += len(batch)

    def _predict(self, rows: Sequence[Texts]) -> list[Prediction]:
        scores, probabilities = self._compute(rows)
        if not self.labels:
            return [Prediction(float(score), {}, {}) for score in scores]
        return [
            Prediction(
                self.labels[int(own.argmax())],
                dict(zip(self.labels, own.tolist(), strict=True)),
                dict(zip(self.labels, likely.tolist(), strict=True)),
            )
            for own, likely in zip(scores, probabilities, strict=True)
        ]

    def _compute(self, rows: Sequence[Texts]) -> tuple[Scores, Scores]:
        """Return the scores and the probabilities, `[texts, C]` each; `[texts]` in regression."""
        if not rows:
            empty = np.zeros((0, len(self.labels)) if self.labels else 0, np.float32)
            return empty, empty
        with self._lock:
            found = [one.compute(rows, self.batch_size) for one in self._members]
        if len(found) == 1:
            return found[0]
        mean: Scores = np.mean([probabilities for _, probabilities in found], axis=0)
        return mean, mean

    def _rows(self, texts: Sequence[str | Texts], first: int = 0) -> list[Texts]:
        """Return texts as rows; raise SclsearchError for the first invalid one, by its number."""
        _check_list(texts)
        rows = [_row(text, number) for number, text in enumerate(texts, first)]
        for number, row in enumerate(rows, first):
            fault = "a text is empty" if has_blank(row) else "; ".join(map(character_fault, row))
            if fault.strip("; "):
                raise SclsearchError(f"text {number}: {fault}. Correct it.")
        count = 1 + self.record.pair
        for number, row in enumerate(rows, first):
            if len(row) != count:
                raise SclsearchError(
                    f"text {number}: must have {counted(count, 'part')} as in "
                    f"{self.record.task}, got {len(row)}."
                )
        return rows


def _check_list(texts: object) -> None:
    if isinstance(texts, str):
        raise SclsearchError("texts: must be a list, got one text. Pass [text].")
    if not isinstance(texts, Iterable):
        raise SclsearchError(f"texts: must be a list, got {texts!r:.80}. Pass [text].")


def _row(text: Any, number: int) -> Texts:
    """Return a text or a pair as a row; raise SclsearchError if it is neither."""
    whole = isinstance(text, str | bytes | Mapping) or not isinstance(text, Iterable)
    row = (text,) if whole else tuple(text)
    if not all(isinstance(part, str) for part in row):
        raise SclsearchError(f"text {number}: must be a text or a pair of texts, got {text!r:.80}.")
    return row


@dataclass(frozen=True, slots=True)
class _SeedClassifier:
    """Model of one seed run with its method, tokenizer and training settings."""

    record: ExportRecord
    method: "Method"
    training: "Training"
    model: "Model"
    tokenizer: "PreTrainedTokenizerBase"
    backend: "Backend"

    def compute(self, rows: Sequence[Texts], batch_size: int) -> tuple[Scores, Scores]:
        from sclsearch.protocols.base import Rows
        from sclsearch.training.data import tokenize_task
        from sclsearch.training.evaluation import class_probabilities, outputs_of

        labels = self.record.labels
        task = Task(self.record.task, "new texts", labels, self.record.metric, self.record.pair)
        split = Split(tuple(rows), np.zeros(len(rows), np.int64))
        data = TaskData(task, {SPLIT: split}, "memory")
        tokens = tokenize_task(data, self.tokenizer, self.training.max_length)
        every = Rows(SPLIT, np.arange(len(rows)))
        compute = partial(self.method.scores, self.model)
        scores = outputs_of(self.model, compute, tokens, every, None, self.backend, batch_size)
        return scores, class_probabilities(self.method, scores) if labels else scores


def load(
    folder: Path,
    custom_method: "str | type[Method] | None" = None,
    device: str | None = None,
    batch_size: int = BATCH_SIZE,
) -> Predictor:
    """Return an exported classifier, loaded into memory.

    Args:
        folder: Folder written by `export`.
        custom_method: `FILE.py:CLASS` or the class; required if the export's method is a custom
            method in a file. The hash of the file must equal the recorded hash.
        device: `cpu`, `cuda` or another device of torch; None uses the GPU if there is one.
        batch_size: Most texts that the encoder reads at a time.

    Raises:
        SclsearchError: The folder is no export, its method is missing, or there is no such device.
    """
    if batch_size < 1:
        raise SclsearchError(f"--batch-size: must be at least 1, got {batch_size}.")
    record = read_record(folder)
    place = _device(device)
    members = [_load_seed(folder / name, custom_method, place) for name in record.members or ("",)]
    for one in members:
        if one.record.labels != record.labels:
            raise SclsearchError(
                f"{folder / CARD}: labels: must be {', '.join(one.record.labels)} as in seed "
                f"{one.record.replicate}, got {', '.join(record.labels)}. Export the study again."
            )
    return Predictor(record, members, batch_size)


def _load_seed(
    folder: Path, custom_method: "str | type[Method] | None", device: "torch.device"
) -> _SeedClassifier:
    from sclsearch.encoders.load import load_encoder, load_tokenizer
    from sclsearch.methods import find_recorded_method
    from sclsearch.methods.base import Model
    from sclsearch.methods.fields import build
    from sclsearch.training.device import Backend, fast_bf16

    record, where = read_record(folder), str(folder / CARD)
    found = find_recorded_method(record.place, record.method_digest, custom_method, where)
    fields = {name: as_tuples(value) for name, value in record.fields.items()}
    method, training = build(found.kind, fields, where)
    # A transformers export has its encoder at the top; a folder beside it is of an earlier upload.
    at_top = record.format == "transformers"
    place = folder if at_top else encoder_folder(folder)
    encoder = load_encoder(place, str(folder))
    encoder.check_pooling(str(getattr(method, "pooling", "mean")), "pooling")
    model = Model(encoder, method.stages(training)[-1].new_modules(encoder, len(record.labels)))
    _load_parts(model.new_modules, folder / PARTS)
    tokenizer = load_tokenizer(place)
    bf16 = record.numerics.endswith("bf16") and fast_bf16(device)
    backend = Backend(device, bf16)
    return _SeedClassifier(record, method, training, model.to(device).eval(), tokenizer, backend)


def _load_parts(parts: "nn.ModuleDict", file: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        parts.load_state_dict(load_file(file))
    except (OSError, SafetensorError, RuntimeError) as error:
        fault = "No such file or directory" if isinstance(error, FileNotFoundError) else error
        raise SclsearchError(
            f"{file}: not a file of `sclsearch export`: {fault}. Export the study again."
        ) from error


def _device(name: str | None) -> "torch.device":
    import torch

    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error).rstrip(".")
        raise SclsearchError(
            f"--device {name}: torch cannot use it: {reason}. Pass cpu, or leave it out."
        ) from error
