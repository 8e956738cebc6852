"""Export of a classifier to ONNX, and its check against torch.

The folder `onnx` of an export has all that a server reads: the model, with the names of the classes
in its metadata, and a tokenizer that truncates and pads as in training.
"""

import json
import logging
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from sclsearch.errors import SclsearchError, first_line
from sclsearch.exports.predictor import ExportRecord, Predictor, load
from sclsearch.exports.refit import restore_winner
from sclsearch.methods.base import Batch
from sclsearch.tasks.base import Texts
from sclsearch.tasks.metrics import evaluate, value

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from sclsearch.exports.export import ExportOptions
    from sclsearch.reports.report import Report

INPUTS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""Inputs of the model, and the fields of the tokenizer's rows that they get."""
ROWS, BATCH, CLOSE = 500, 32, 1e-4
"""Most validation rows of the check, its batches, and the largest difference of a probability."""


def add_onnx(folder: Path, found: "Report", options: "ExportOptions") -> ExportRecord:
    """Add a classifier's ONNX file to its export; return the record with its scores.

    Raises:
        SclsearchError: The study's data are missing, torch cannot export the method, or the written
            model has other outputs than torch.
    """
    winner = restore_winner(found, options.data_dir, options.method)
    data, rows = winner.study.data, winner.spec.splits.validation.some(ROWS)
    texts, loaded = rows.texts(data), load(folder, options.method, "cpu")
    # A model that was trained in bfloat16 is compared in float32, too.
    model = Predictor(replace(loaded.record, numerics=""), loaded.members, BATCH, "cpu")
    labels = model.labels
    expected = model.predict_proba(texts) if labels else [one.label for one in model.predict(texts)]
    tokenizer, file = write_model(folder / "onnx", model, texts[:2])
    outputs = compute(file, tokenizer, texts)
    difference = float(np.abs(outputs - expected).max())
    if not difference <= CLOSE * max(1, np.abs(outputs).max()):
        raise SclsearchError(
            f"--onnx: {model.record.method} must have the outputs of torch, but differs by "
            f"{difference:.1e}. Leave it out."
        )
    predicted = outputs.argmax(1) if labels else outputs
    evaluation = evaluate(data.task, rows.labels(data), predicted, outputs, found.metric)
    scores = {
        found.metric: value(found.metric, evaluation),
        "largest difference from torch": difference,
        "rows that trained it" if model.record.refit else "validation rows": len(texts),
        "MB": file.stat().st_size / 1e6,
    }
    record = replace(loaded.record, onnx=scores)
    record.write(folder)
    return record


class _Classifier(nn.Module):
    """Token ids, mask and types, `[B, T]`, to probabilities, `[B, C]`, or scores, `[B]`."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = predictor
        self.models = nn.ModuleList([one.model for one in predictor.members])

    def forward(self, *inputs: Tensor) -> Tensor:
        ids, tokens, *types = inputs
        mask, zeros = tokens.bool(), torch.zeros_like(ids)
        batch = Batch(ids, mask, types[0] if types else zeros, mask, zeros[:, 0], (0.0,))
        outputs = []
        for one in self.predictor.members:
            scores = one.method.scores(one.model, batch)
            outputs.append(one.method.probabilities(scores) if self.predictor.labels else scores)
        mean, own = torch.stack(outputs).mean(0), self.predictor.record
        if own.calibration and own.calibration.temperature and own.format == "sclsearch":
            # As in `scaled`; other formats have the temperature in the head's weights.
            logits = mean.double().clamp(2.0**-149).log() / own.calibration.temperature
            mean = logits.softmax(-1).float()
        return mean


def write_model(folder: Path, model: Predictor, texts: Sequence[Texts]) -> "tuple[Tokenizer, Path]":
    """Write and return the tokenizer and the model's file; `texts` are examples of its input."""
    folder.mkdir()
    file = folder / "model.onnx"
    for one in model.members:  # shapes must not depend on the number of tokens
        one.model.encoder.can_pack = one.model.encoder.can_trim = False
    first = model.members[0]
    tokenizer: Tokenizer = first.tokenizer.backend_tokenizer
    tokenizer.enable_truncation(first.training.max_length)
    tokenizer.enable_padding(pad_id=first.tokenizer.pad_token_id or 0)
    tokenizer.save(str(folder / "tokenizer.json"))
    segments = getattr(first.model.encoder.model.config, "type_vocab_size", 0) > 1
    inputs = _inputs(tokenizer, texts, list(INPUTS)[: 2 + segments])
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    logging.disable()  # torch and onnxruntime warn their own developers
    try:
        with warnings.catch_warnings(action="ignore"):
            program: Any = torch.onnx.export(
                _Classifier(model).eval(),
                tuple(map(torch.from_numpy, inputs.values())),
                input_names=[*inputs],
                output_names=["probabilities" if model.labels else "score"],
                dynamic_shapes={"inputs": (shape,) * len(inputs)},
                dynamo=True,
                verbose=False,
            )
            program.model.metadata_props["labels"] = json.dumps(model.labels)
            program.save(file)
    except Exception as error:  # torch documents no errors for what it cannot export
        raise SclsearchError(
            f"--onnx: torch cannot export {model.record.method} on {model.record.base}: "
            f"{first_line(error.__cause__ or error).rstrip('.')}. Leave it out."
        ) from error
    finally:
        logging.disable(logging.NOTSET)
    return tokenizer, file


def compute(file: Path, tokenizer: "Tokenizer", texts: Sequence[Texts]) -> Any:
    """Return the outputs of a written model for texts, as a server computes them."""
    from onnxruntime import InferenceSession

    session = InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    batches = (texts[first : first + BATCH] for first in range(0, len(texts), BATCH))
    inputs = (_inputs(tokenizer, batch, names) for batch in batches)
    return np.concatenate([session.run(None, batch)[0] for batch in inputs])


def _inputs(tokenizer: "Tokenizer", texts: Sequence[Texts], names: Iterable[str]) -> dict[str, Any]:
    rows = tokenizer.encode_batch([row if len(row) > 1 else row[0] for row in texts])
    return {name: np.array([getattr(row, INPUTS[name]) for row in rows]) for name in names}
