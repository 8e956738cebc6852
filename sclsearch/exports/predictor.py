"""Exported classifier: its description, and prediction on new texts with it in memory."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sclsearch.canonical import as_tuples, check_regular, counted, read_file
from sclsearch.encoders.models import CARD, encoder_folder
from sclsearch.errors import SclsearchError, first_line
from sclsearch.exports.calibration import Calibration, scaled
from sclsearch.store.schema import Count, Number, Text, Value
from sclsearch.tasks.base import Split, Task, TaskData, Texts
from sclsearch.tasks.tables import character_fault, has_blank

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from sclsearch.methods.base import Method, Model, Training
    from sclsearch.training.device import Backend

SPLIT = "texts"
MOST_LABELS, MOST_MEMBERS = 2**16, 100
Member = Annotated[str, Field(pattern=r"^[\w-]+$")]
"""Folder of an ensemble's member."""
BATCH_SIZE = 64
PARTS = "parts.safetensors"
"""File with the modules beside the encoder."""
Scores = npt.NDArray[np.float32]
CARD_FILE = "README.md"
RefitRows = Literal["validation", "all"]
"""Rows of a refit: those for training and validation, or also those for the test."""
Format = Literal["transformers", "transformers-code", "sclsearch"]
"""Way in which transformers loads the whole classifier: by a class of its own, by the code in the
export, or not at all."""


@dataclass(frozen=True, slots=True)
class Refit:
    """Rows of the search that a later training read, and the updates of its last stage, if any.

    `rows` counts training and validation rows.
    """

    rows: Count
    test_rows: Count
    updates: Count | None = None

    def __str__(self) -> str:
        tested = f" and all {self.test_rows} test rows" if self.test_rows else ""
        updates = "" if self.updates is None else f", for {counted(self.updates, 'update')}"
        return f"{self.rows} training and validation rows{tested}{updates}"


@dataclass(frozen=True, slots=True)
class ExportRecord:
    """Description of an exported classifier, stored as `sclsearch.json` in its folder.

    An ensemble has the record of its best seed, with the members' folders and the mean scores. A
    model that was trained after the search has no scores.
    """

    base: Text  # encoder that was fine-tuned
    method: Text
    task: Text
    size: Text | None  # training set size; None for all training examples
    protocol: Text
    study: Text
    rule: Text
    # The exported seed run, of an ensemble the best one by validation score.
    key: Text
    replicate: Count
    seeds: Count  # replicates of the study
    metric: Text
    validation: Number | None
    test: Number | None
    # Every hyperparameter of method and training.
    fields: Mapping[Text, Value]
    # Name of the method, or `FILE.py:CLASS` with the SHA-256 of that file.
    place: Text = ""
    method_digest: Text = ""
    # Names of the classes, in the order of the scores; empty for regression.
    labels: Annotated[tuple[Text, ...], Field(max_length=MOST_LABELS)] = ()
    pair: bool = False  # whether the classifier reads text pairs
    columns: tuple[Text, ...] = ()  # text columns of the user's own file
    mean_test: Number | None = None  # over all seeds of the winner that did not fail
    format: Format = "sclsearch"
    # Folders of an ensemble's members, relative to its own; empty for one seed.
    members: Annotated[tuple[Member, ...], Field(max_length=MOST_MEMBERS)] = ()
    numerics: Text = ""  # device and precision of the training, `cpu-fp32` or `cuda-bf16`
    data: Text = ""  # SHA-256 of the task's texts and labels
    # True for the linear model on the frozen encoder: `method` is its name, and `place` is `ce`,
    # whose head has the same form.
    baseline: bool = False
    refit: Refit | None = None
    # The temperature is in the weights of the head, but not for the format `sclsearch`.
    calibration: Calibration | None = None
    # Score on validation rows, difference from torch and size of `onnx/model.onnx`.
    onnx: Mapping[Text, Number] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the record to a folder."""
        write_json(folder / CARD, asdict(self))

    @property
    def thresholded(self) -> bool:
        return self.calibration is not None and self.calibration.threshold is not None

    @property
    def onnx_lines(self) -> Iterator[str]:
        if scores := ", ".join(f"{name} {number:.4g}" for name, number in self.onnx.items()):
            yield f"`onnx/model.onnx`: {scores}."


def read_record(folder: Path) -> ExportRecord:
    """Return the record of an exported folder, from its `sclsearch.json`.

    Raises:
        SclsearchError: The folder has no valid record.
    """
    from pydantic import TypeAdapter, ValidationError

    from sclsearch.arguments import fault_texts

    file = folder / CARD
    try:
        return TypeAdapter(ExportRecord).validate_json(read_file(file, 2**24))
    except OSError as error:
        raise _not_exported(file, error.strerror) from error
    except ValidationError as error:
        raise _not_exported(file, "; ".join(fault_texts(error))) from error


def _not_exported(file: Path, fault: object) -> SclsearchError:
    return SclsearchError(
        f"{file}: not a file of `sclsearch export`: {fault}. Name the folder of an export, or "
        "export the study again."
    )


def write_json(path: Path, value: Any) -> None:
    """Write a value to a file as indented JSON; create its folder if it is missing."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


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

    Threads may share it: it computes one batch at a time. It has the `record` of the export, the
    `labels` in the order of the probabilities (none for regression), its `device`, and
    `batch_size`, the most texts that the encoder reads at a time.
    """

    def __init__(
        self,
        record: ExportRecord,
        members: "Sequence[_SeedClassifier]",
        batch_size: int,
        device: str | None = None,
    ) -> None:
        from sclsearch.training.device import Backend, fast_bf16

        self.record = record
        self.labels = record.labels
        self.batch_size = batch_size
        self.device = _device(device)
        bf16 = record.numerics.endswith("bf16") and fast_bf16(self.device)
        self._backend = Backend(self.device, bf16)
        self._rows = partial(text_rows, task=record.task, pair=record.pair)
        self.members = members
        for one in members:
            one.model.to(self.device)
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the weights on the CPU; they are read onto the GPU if there is one."""
        members = [replace(one, model=deepcopy(one.model).cpu()) for one in self.members]
        return Predictor, (self.record, members, self.batch_size)

    def predict(self, texts: Sequence[str | Texts]) -> list[Prediction]:
        """Return the predictions for texts, or for text pairs if the task has pairs.

        Raises:
            SclsearchError: A text is empty, a pair where the task has none, or the reverse.
        """
        return self._predict(self._rows(texts))

    def predict_proba(self, texts: Sequence[str | Texts]) -> "npt.NDArray[np.float32]":
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
        """Yield the predictions for texts as they arrive, read only one batch ahead.

        Raises:
            SclsearchError: A text is invalid; the predictions before its batch are complete.
        """
        _check_list(texts)
        rest, first = iter(texts), 0
        while batch := list(islice(rest, self.batch_size)):
            yield from self._predict(self._rows(batch, first=first))
            first += len(batch)

    def _predict(self, rows: Sequence[Texts]) -> list[Prediction]:
        scores, probabilities = self._compute(rows)
        if not self.labels:
            return [Prediction(float(score), {}, {}) for score in scores]
        threshold = self.record.calibration and self.record.calibration.threshold
        return [
            Prediction(
                self.labels[int(own.argmax() if threshold is None else likely[1] >= threshold)],
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
            found = [one.compute(rows, self.batch_size, self._backend) for one in self.members]
        scores, likely = found[0]
        if len(found) > 1:
            likely = np.mean([probabilities for _, probabilities in found], axis=0)
        if self.record.calibration and self.record.format == "sclsearch":
            likely = scaled(likely, self.record.calibration.temperature)
        return (likely if len(found) > 1 else scores), likely


def text_rows(
    texts: Sequence[str | Texts], task: str, *, pair: bool, first: int = 0
) -> list[Texts]:
    """Return texts, or pairs of texts, as rows; raise SclsearchError for the first invalid one.

    `first` is the number of the first text, and `task` the name of the task, for the error.
    """
    _check_list(texts)
    rows = list[Texts]()
    for number, text in enumerate(texts, first):
        whole = isinstance(text, str | bytes | Mapping) or not isinstance(text, Iterable)
        row: Texts = (text,) if whole else tuple(text)  # type: ignore[assignment]
        if fault := _row_fault(row, text, task, 1 + pair):
            raise SclsearchError(f"text {number}: {fault}. Correct it.")
        rows.append(row)
    return rows


def _row_fault(row: Texts, text: object, task: str, parts: int) -> str:
    if not all(isinstance(part, str) for part in row):
        return f"must be a text or a pair of texts, got {text!r:.80}"
    if has_blank(row):
        return "a text is empty"
    if len(row) != parts:
        return f"must have {counted(parts, 'part')} as in {task}, got {len(row)}"
    return "; ".join(filter(None, map(character_fault, row)))


def _check_list(texts: object) -> None:
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        got = "one text" if isinstance(texts, str) else f"{texts!r:.80}"
        raise SclsearchError(f"texts: must be a list, got {got}. Pass [text].")


@dataclass(frozen=True, slots=True)
class _SeedClassifier:
    """Model of one seed run with its method, tokenizer and training settings."""

    record: ExportRecord
    method: "Method"
    training: "Training"
    model: "Model"
    tokenizer: "PreTrainedTokenizerBase"

    def compute(
        self, rows: Sequence[Texts], batch_size: int, backend: "Backend"
    ) -> tuple[Scores, Scores]:
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
        scores = outputs_of(self.model, compute, tokens, every, None, backend, batch_size)
        return scores, class_probabilities(self.method, scores) if labels else scores


def load(
    folder: Path,
    custom_method: "str | type[Method] | None" = None,
    device: str | None = None,
    batch_size: int = BATCH_SIZE,
) -> Predictor:
    """Return an exported classifier, loaded into memory; `sclsearch.load` describes the arguments.

    The hash of a custom method's file must equal the recorded hash.

    Raises:
        SclsearchError: The folder is no export, its method is missing, or there is no such device.
    """
    if batch_size < 1:
        raise SclsearchError(f"--batch-size: must be at least 1, got {batch_size}.")
    record = read_record(folder)
    members = [_load_seed(folder / name, custom_method) for name in record.members or ("",)]
    for name, one in zip(record.members, members, strict=False):
        if one.record.labels != record.labels:
            raise _not_exported(folder / CARD, f"labels: must be those of {name}")
    return Predictor(record, members, batch_size, device)


def _load_seed(folder: Path, custom_method: "str | type[Method] | None") -> _SeedClassifier:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from sclsearch.encoders.load import load_encoder, load_tokenizer
    from sclsearch.methods import find_recorded_method
    from sclsearch.methods.base import Model, new_modules
    from sclsearch.methods.fields import build

    record, where = read_record(folder), str(folder / CARD)
    found = find_recorded_method(record.place, record.method_digest, custom_method, where)
    fields = {name: as_tuples(value) for name, value in record.fields.items()}
    method, training = build(found.kind, fields, where)
    # A transformers export has its encoder at the top; a folder beside it is of an earlier upload.
    at_top = record.format == "transformers"
    place = folder if at_top else encoder_folder(folder)
    encoder = load_encoder(place, str(folder))
    encoder.check_pooling(str(getattr(method, "pooling", "mean")), "pooling")
    model = Model(encoder, new_modules(method.stages(training), encoder, len(record.labels)))
    file = folder / PARTS
    try:
        check_regular(file)
        model.new_modules.load_state_dict(load_file(file))
    except (OSError, SafetensorError, RuntimeError) as error:
        fault = "No such file or directory" if isinstance(error, FileNotFoundError) else error
        raise _not_exported(file, fault) from error
    if not all(tensor.isfinite().all() for tensor in model.new_modules.state_dict().values()):
        raise _not_exported(file, "it holds NaN or infinite values")
    return _SeedClassifier(record, method, training, model.eval(), load_tokenizer(place))


def _device(name: str | None) -> "torch.device":
    import torch

    from sclsearch.training.device import backend_here

    if name is None:
        return backend_here().device
    try:
        found = torch.zeros(1, device=name)
        found.item()
    except (RuntimeError, AssertionError) as error:
        fault = first_line(error)
        raise SclsearchError(f"--device {name}: torch cannot use it: {fault}") from error
    return found.device
