"""Export of a study's winner as a folder for other programs and studies.

transformers reads the top of an export only if it computes the same scores. The weights are there
if the head has an exact counterpart in the encoder's architecture. Otherwise the encoder is in the
subfolder `encoder`, and transformers reads the head by code at the top, or not at all, so that no
program classifies with a random head.
"""

import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sclsearch.arguments import check_fields
from sclsearch.encoders.models import ENCODER, HUB_FILES, base_model, model_digest, model_folder
from sclsearch.errors import SclsearchError
from sclsearch.exports.calibration import calibrate, scaled
from sclsearch.exports.model_card import write_model_card
from sclsearch.exports.predictor import (
    PARTS,
    ExportRecord,
    Format,
    RefitRows,
    write_json,
)
from sclsearch.methods import is_own
from sclsearch.reports.report import Report, SeedLine, finished_winner, tested_winner, undamaged
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import LocalPath, check_writable, new_folder, storage_path
from sclsearch.store.studies import StudyRecord, StudyStore
from sclsearch.study.spec import AtLeastOne

if TYPE_CHECKING:
    from torch import Tensor

    from sclsearch.methods.base import Method
    from sclsearch.training.evaluation import TrainingResult

WEIGHTS = "model.safetensors"
DROPPED_FIELDS = {
    *("architectures", "id2label", "label2id", "num_labels", "problem_type"),
    "torch_dtype",  # with half precision, transformers would round the weights
}
"""Fields of the encoder's config.json that an export does not keep."""
ENCODER_PREFIX, NEW_MODULES_PREFIX = "encoder.model.", "new_modules."
FROM_REPORT = ("method", "task", "size", "protocol", "study", "rule", "seeds", "metric", "data")
"""Fields that the description of an export takes from the report."""
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
ROWS_COMPARED = 100
"""Rows whose predictions an export compares with the stored ones."""
CLOSE, CLOSE_ON_GPU = 1e-3, 0.05
"""Differences of probabilities that rounding explains."""

Model = tuple[ExportRecord, "TrainingResult"]
"""Model to export, with its weights, predictions and probabilities."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Choice of the exported model; `sclsearch.export` describes the options."""

    ensemble: bool = False
    refit: RefitRows | None = None
    baseline: bool = False
    seeds: AtLeastOne = 1
    data_dir: Path | None = None
    method: "str | type[Method] | None" = None
    force: bool = False
    calibrate: bool = False
    threshold: Literal["tune"] | None = None
    onnx: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        missing = [name for name in ONNX_PACKAGES if self.onnx and not find_spec(name)]
        conflicts = {
            f"--{'calibrate' if self.calibrate else 'threshold'}: needs stored probabilities of "
            "validation rows, but --refit trains on these rows, and --baseline has none. Leave one "
            "out.": (self.calibrate or self.threshold) and (self.refit or self.baseline),
            f"--onnx: needs {', '.join(missing)}. Run pip install 'sclsearch[onnx]'.": missing,
            "--ensemble: exports seed runs of the search, but --refit trains new models. Pass "
            "--refit with --seeds K for an ensemble of K.": self.ensemble and self.refit,
            "--baseline: does not depend on a seed, so there is no ensemble of it. Leave out "
            "--ensemble and --seeds.": self.baseline and (self.ensemble or self.seeds > 1),
            f"--seeds: counts the models that --refit trains, got {self.seeds} without it. Pass "
            "--refit, or leave it out.": self.seeds > 1 and not self.refit,
        }
        for conflict, found in conflicts.items():
            if found:
                raise SclsearchError(conflict)


def describe_winner(found: Report, seed: SeedLine | None = None) -> ExportRecord:
    """Return the description of a seed run of the winner, by default of its best one."""
    winner, origin = finished_winner(found), found.record.origin
    seed = seed or winner.seeds[winner.reported[0]]
    run = RunStore(found.storage).get(seed.key)
    # Exports are published, and the folders of the user's machine are private. The encoder is not
    # the bare name: a folder `minilm` is not the encoder `minilm`.
    base, place = base_model(found.model_place), origin["method"]
    return ExportRecord(
        **{name: getattr(found, name) for name in FROM_REPORT},
        **{name: getattr(seed, name) for name in ("key", "replicate", "validation", "test")},
        base=f"./{Path(base).name}" if Path(base).is_absolute() else base,
        fields=winner.fields,
        place=Path(place).name if Path(place).is_absolute() else place,
        method_digest=found.record.training.get("method_file", ""),
        labels=tuple(origin.get("labels", ())),
        pair=origin.get("pair", False),
        columns=() if isinstance(origin["task"], str) else tuple(origin["task"]["text"]),
        mean_test=winner.plain and winner.plain[0],
        numerics="" if run is None else str(run.identity.get("numerics", "")),
    )


def export(found: Report, folder: Path, options: ExportOptions = ExportOptions()) -> ExportRecord:
    """Write the winner's encoder in float32, its new modules and a model card to a folder.

    Config and tokenizer come from the encoder that was fine-tuned. A model of the search is read
    again, and its predictions are compared with the stored ones. The folder is empty or missing; on
    failure no partial export remains.

    Raises:
        SclsearchError: There is no winner, it is useless or has not been tested, or the original
            encoder has changed. Also if the folder is not empty or not writable, an ensemble would
            have one member, a training fails, or the written model predicts otherwise than the
            stored one.
    """
    winner = tested_winner(undamaged(found))
    if found.verdict is not None and not (options.force or options.baseline):
        raise SclsearchError(
            f"{found.study}: {' '.join(found.verdict.lines)} Or pass --force to export it anyway."
        )
    if options.ensemble and len(winner.reported) < 2:
        raise SclsearchError(
            f"--ensemble: rule {found.rule} must report at least 2 seeds, got "
            f"{len(winner.reported)}. Pass --rule top-3, for example."
        )
    begun = _begun_with(found.record)
    with new_export(folder) as part:
        models = list(_models(found, options))
        written = _write_all(part, models, begun)
        if options.onnx:
            from sclsearch.exports.onnx import add_onnx

            written = add_onnx(part, found, options)
        write_model_card(part, written, found, begun)
        if not (options.baseline or options.refit):
            _check_predictions(part, written, models, found, options)
    return written


@contextmanager
def new_export(folder: Path) -> Iterator[Path]:
    """Yield a folder to write an export into, and rename it to `folder` if the body succeeds.

    Raises:
        SclsearchError: The folder is not empty or not writable.
    """
    folder = folder.expanduser().resolve()
    _check_empty(folder)
    check_writable(LocalPath(folder.parent))
    with new_folder(folder) as part:
        yield part
        _check_empty(folder)  # another export may have written it meanwhile


def export_encoder(found: Report) -> Path:
    """Return the folder of a winner's best model in the storage; write it first if it is missing.

    A search with this folder as its model begins with the fine-tuned encoder and a new head.
    """
    folder = encoder_place(found)
    if not folder.exists():
        export(found, folder, ExportOptions(force=True))
    return folder


def encoder_place(found: Report) -> Path:
    """Return the folder of a winner's best encoder in its storage, whether it exists or not."""
    # In the storage, so that the workers of a cluster can read it.
    place, record = storage_path(found.storage).local, describe_winner(found)
    if place is None:
        raise SclsearchError(
            f"--storage {found.storage}: a fine-tuned encoder needs a folder that all machines can "
            "read."
        )
    return place / "encoders" / f"{Path(record.task).name}-{record.key[:12]}"


def _check_predictions(
    folder: Path,
    written: ExportRecord,
    models: Sequence[Model],
    found: Report,
    options: ExportOptions,
) -> None:
    from sclsearch.exports.predictor import load
    from sclsearch.study.restore import restore_seed_run

    run = RunStore(found.storage).get(written.key)
    assert run is not None
    try:
        study, _ = restore_seed_run(run, options.data_dir, options.method)
    except SclsearchError as error:
        _LOG.warning("Not compared with the predictions of the search: %s", error)
        return
    store = StudyStore(found.storage, found.study)
    for name, (record, result) in zip(written.members or ("",), models, strict=True):
        if not result.probabilities:
            continue
        split = "test" if "test" in result.probabilities else "validation"
        texts = getattr(study.splits(record.replicate), split).texts(study.data)[:ROWS_COMPARED]
        on_gpu, key = record.numerics.startswith("cuda"), record.key[:12]
        remedy = (
            f"Delete {store.weights(record.key)} and export again: the seed run then trains again."
        )
        try:
            predictor = load(folder / name, options.method, None if on_gpu else "cpu")
        except SclsearchError as error:
            raise SclsearchError(f"{key}: damaged weights. {remedy}") from error
        close = CLOSE_ON_GPU if on_gpu or record.numerics.endswith("bf16") else CLOSE
        if record.labels:
            read, trained = predictor.predict_proba(texts), result.probabilities[split]
        else:
            read = np.array([prediction.label for prediction in predictor.predict(texts)])
            trained = np.array(result.predictions[split])
        if written.calibration and not written.members:
            trained = scaled(trained, written.calibration.temperature)
            close /= min(1.0, written.calibration.temperature or 1.0)
        if not np.allclose(read, trained[:ROWS_COMPARED], rtol=close, atol=close):
            raise SclsearchError(
                f"{key}: the exported model predicts otherwise than the search on {split} rows. "
                f"{remedy}"
            )


def _check_empty(folder: Path) -> None:
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise SclsearchError(f"{folder}: exists and is not an empty folder. Name another one.")


def _models(found: Report, options: ExportOptions) -> Iterator[Model]:
    from sclsearch.exports.refit import fit_linear, refit_winner, restore_winner, train_again
    from sclsearch.training.evaluation import TrainingResult

    if options.baseline:
        winner = restore_winner(found, options.data_dir, options.method)
        changes, weights = fit_linear(found, winner, options.refit)
        yield replace(describe_winner(found), **changes), TrainingResult(weights=weights)
        return
    if options.refit:
        winner = restore_winner(found, options.data_dir, options.method)
        for changes, result in refit_winner(winner, options.refit, options.seeds):
            yield replace(describe_winner(found), **changes), result
        return
    line, runs = finished_winner(found), RunStore(found.storage)
    store = StudyStore(found.storage, found.study)
    seeds = [line.seeds[position] for position in line.reported][: None if options.ensemble else 1]
    chosen = options.calibrate or options.threshold
    calibration = calibrate(found, seeds, options) if chosen else None
    for seed, run in zip(seeds, runs.get_all([seed.key for seed in seeds]), strict=True):
        assert run is not None
        if (stored := store.load_weights(seed.key)) is None:
            result = train_again(run, options.data_dir, options.method)
        else:
            (rows,) = runs.rows([run])
            result = TrainingResult(predictions=dict(run.predictions), weights=dict(stored))
            result.probabilities |= rows.probabilities if rows else {}
        yield replace(describe_winner(found, seed), calibration=calibration), result


def _begun_with(record: StudyRecord) -> Path:
    folder = model_folder(name := record.origin["model"])
    if model_digest(folder) == record.training["weights"]:
        return folder
    raise SclsearchError(
        f"{record.name}: the encoder {name} has changed since the study used it. Use the same "
        "files."
    )


def _write_all(folder: Path, models: Sequence[Model], begun: Path) -> ExportRecord:
    described, first = models[0]
    if len(models) == 1:
        return write_folder(folder, first.weights, begun, described)
    names = tuple(f"seed-{record.replicate}" for record, _ in models)
    for name, (record, result) in zip(names, models, strict=True):
        (folder / name).mkdir()
        # An ensemble is calibrated as a whole.
        write_folder(folder / name, result.weights, begun, replace(record, calibration=None))
    validation, test = (
        fmean(known) if (known := [score for score in scores if score is not None]) else None
        for scores in zip(*((one.validation, one.test) for one, _ in models), strict=True)
    )
    described = replace(described, members=names, validation=validation, test=test)
    described.write(folder)
    return described


def write_folder(
    folder: Path, stored: "Mapping[str, Tensor]", begun: Path, described: ExportRecord
) -> ExportRecord:
    """Write a classifier to an empty folder in the format that represents its head exactly.

    `begun` is the folder of the encoder that was fine-tuned. The result is the description with the
    format.
    """
    from sclsearch.encoders.lora import merged
    from sclsearch.exports import heads
    from sclsearch.training.evaluation import save_tensors

    stored = merged(stored, begun, described.base)
    encoder, new_modules = (
        {name.removeprefix(one): t for name, t in stored.items() if name.startswith(one)}
        for one in (ENCODER_PREFIX, NEW_MODULES_PREFIX)
    )
    pooling = None if is_own(described.place) else described.fields.get("pooling")
    head = heads.pooled_head(encoder, new_modules, pooling)
    if head and described.calibration and described.calibration.temperature:
        # In the weights, every program applies it.
        temperature = described.calibration.temperature
        new_modules |= {name: new_modules[name] / temperature for name in heads.OUT}
        head = heads.pooled_head(encoder, new_modules, pooling)
    config = _encoder_config(begun)
    mapped = head and heads.as_sequence_classifier(config["model_type"], encoder, head)
    if mapped:
        kind, encoder = mapped
        config |= {**heads.label_fields(described.labels), "architectures": [kind]}
    place = folder if mapped else folder / ENCODER
    write_json(place / "config.json", config)
    max_length = int(str(described.fields["max_length"]))
    _copy_tokenizer(begun, place, max_length)
    save_tensors(place / WEIGHTS, encoder, {"format": "pt"})
    save_tensors(folder / PARTS, new_modules, {"format": "pt"})
    if head and not mapped:
        heads.write_pooled_classifier(folder, head, described.labels, max_length)
        _copy_tokenizer(begun, folder, max_length)
    form: Format = "transformers" if mapped else "transformers-code" if head else "sclsearch"
    described = replace(described, format=form)
    described.write(folder)
    return described


def _encoder_config(begun: Path) -> dict[str, Any]:
    """Return the configuration of an encoder's folder, without the fields of a former head."""
    config = json.loads((begun / "config.json").read_text(encoding="utf-8"))
    kinds = [kind for kind in config.get("architectures") or () if "Classification" not in kind]
    kept = {name: value for name, value in config.items() if name not in DROPPED_FIELDS}
    return {**kept, "dtype": "float32", "architectures": kinds}


def _copy_tokenizer(begun: Path, place: Path, max_length: int) -> None:
    """Copy the tokenizer's files; texts are truncated where training truncated them."""
    from sclsearch.encoders.load import load_tokenizer

    for name in HUB_FILES:
        if name not in {WEIGHTS, "config.json"} and (begun / name).is_file():
            shutil.copyfile(begun / name, place / name)
    settings = place / "tokenizer_config.json"
    read = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    # Without it, transformers derives the class from the kind of model, which ours may hide.
    kind = {"tokenizer_class": type(load_tokenizer(begun)).__name__.removesuffix("Fast")}
    write_json(settings, {**kind, **read, "model_max_length": max_length})


def push(folder: Path, repository: str) -> str:
    """Upload a folder to a model repository on the hub; return the address of the upload.

    A missing repository becomes a private one. The repository then has the folder's files alone.
    The hub's address and token are those of huggingface_hub: HF_ENDPOINT, HF_TOKEN or its login.

    Raises:
        SclsearchError: The hub cannot be reached, or refuses.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi()
    try:
        name = api.create_repo(repository, private=True, exist_ok=True).repo_id
        # Files of an earlier export that this one lacks would answer in its place.
        return str(api.upload_folder(repo_id=name, folder_path=folder, delete_patterns="*"))
    # Errors of a connection derive from the base of HfHubHTTPError in the hub's HTTP library.
    except (OSError, ValueError, *HfHubHTTPError.__bases__) as error:  # type: ignore[misc]
        raise SclsearchError(
            f"--push {repository}: {api.endpoint} did not accept the upload: "
            f"{' '.join(str(error).split()).rstrip('.')}. The export is in {folder}; "
            f"`hf upload {repository} {folder}` uploads it."
        ) from error
