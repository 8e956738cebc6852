"""Tests of exported classifiers in other libraries: same scores as `sclsearch predict`."""

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PretrainedConfig,
    pipeline,
)

import sclsearch
from sclsearch.encoders.load import load_encoder, load_tokenizer
from sclsearch.encoders.models import model_folder
from sclsearch.methods import METHODS, find_method
from sclsearch.methods.base import Model, Training
from sclsearch.protocols.base import Rows
from sclsearch.reports.commands import main_example
from sclsearch.reports.export import write_folder
from sclsearch.reports.predictor import ExportRecord, read_record
from sclsearch.tasks.base import Split, Task, TaskData
from sclsearch.training.data import tokenize_task
from sclsearch.training.device import Backend
from sclsearch.training.evaluation import outputs_of
from tests.conftest import Save

TEXTS = ["the film was good", "it was awful, and very dull", "a lovely film and not bad"]
LABELS = ("praise", "complaint", "other")
NO_FORMAT = {"lacon", "lacon-fusion", "leam", "lsan"}
RECORD = ExportRecord(
    base="tiny",
    method="",
    task="demo",
    size="8",
    protocol="plain",
    study="mine",
    rule="mean",
    key="0" * 64,
    replicate=0,
    seeds=1,
    metric="accuracy",
    validation=0.5,
    test=0.5,
    fields={},
    labels=LABELS,
)


@dataclass(frozen=True)
class Export:
    """Export of a method with random weights, and the scores of the exported model."""

    folder: Path
    scores: np.ndarray[Any, Any]


def exported(
    encoder: Path, folder: Path, name: str, record: ExportRecord = RECORD, **fields: Any
) -> Export:
    """Write an export of a method with random weights in its modules."""
    torch.manual_seed(0)
    method: Any = find_method(name).kind(**fields)
    training = Training(max_length=16)
    loaded = load_encoder(encoder, "tiny")
    parts = method.stages(training)[-1].new_modules(loaded, len(record.labels))
    model = Model(loaded, parts).eval()
    for parameter in parts.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    folder.mkdir()
    values = {**asdict(method), **asdict(training)}
    write_folder(folder, model.state_dict(), encoder, replace(record, place=name, fields=values))
    rows = tuple((text,) for text in TEXTS)
    data = TaskData(
        Task("demo", "a test", record.labels, "accuracy"),
        {"texts": Split(rows, np.zeros(len(rows), np.int64))},
        "memory",
    )
    tokens = tokenize_task(data, load_tokenizer(encoder), 16)
    every = Rows("texts", np.arange(len(rows)))
    compute, cpu = partial(method.scores, model), Backend(torch.device("cpu"))
    return Export(folder, outputs_of(model, compute, tokens, every, None, cpu))


def read_format(folder: Path) -> str:
    return str(json.loads((folder / "sclsearch.json").read_text(encoding="utf-8"))["format"])


def probabilities(
    folder: Path, texts: list[str], dtype: str = "float32", **options: Any
) -> list[dict[str, float]]:
    trusted = read_format(folder) == "transformers-code"
    classifier = pipeline(
        "text-classification", model=str(folder), top_k=None, trust_remote_code=trusted, dtype=dtype
    )
    outputs: Any = classifier(texts, **options)
    return [{one["label"]: one["score"] for one in output} for output in outputs]


def logits(folder: Path, texts: list[str]) -> np.ndarray[Any, Any]:
    return np.array([list(one.scores.values()) for one in sclsearch.predict(folder, texts)])


def check(export: Export) -> str:
    """Check that every library that loads an export gives the scores of the trained model."""
    folder, expected = export.folder, export.scores
    assert logits(folder, TEXTS) == pytest.approx(expected, abs=1e-5)
    form = read_format(folder)
    trusted = form == "transformers-code"
    if form != "sclsearch":
        model = AutoModelForSequenceClassification.from_pretrained(
            folder, trust_remote_code=trusted
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trusted)
        assert tokenizer.model_max_length == 16
        with torch.inference_mode():
            theirs = model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits.numpy()
        assert theirs.reshape(expected.shape) == pytest.approx(expected, abs=1e-5)
    if form == "transformers":
        return form
    with pytest.raises((OSError, ValueError), match=r"config\.json|model_type|trust_remote_code"):
        AutoModelForSequenceClassification.from_pretrained(folder)
    if trusted:
        theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
        assert theirs == pytest.approx(expected, abs=1e-5)
    else:
        assert not (folder / "modules.json").exists()
    encoder = AutoModel.from_pretrained(folder, subfolder="encoder")
    assert type(encoder).__name__ in encoder.config.architectures
    assert encoder.config.id2label == PretrainedConfig().id2label
    return form


@pytest.mark.parametrize("name", METHODS)
def test_an_export_of_each_method_never_predicts_with_a_random_head(
    name: str, tiny_bert: Path, tmp_path: Path
) -> None:
    form = check(exported(tiny_bert, tmp_path / "winner", name))
    assert (form == "sclsearch") == (name in NO_FORMAT)


TANH = {"head_hidden": "transformers", "cls_raw": "transformers-code"}
ODD_PART = {"head_hidden": "transformers-code", "cls_raw": "transformers"}
ANY = {"head_hidden": "transformers", "cls_raw": "transformers"}
NONE = {"head_hidden": "transformers-code", "cls_raw": "transformers-code"}
FAMILIES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "Bert": (TANH, {}),
    "Albert": (TANH, {}),
    "Roberta": (TANH, {"add_pooling_layer": False}),
    "XLMRoberta": (TANH, {}),
    "Camembert": (TANH, {"add_pooling_layer": False}),
    "MPNet": (TANH, {}),
    "DistilBert": (ODD_PART, {}),
    "Electra": (ODD_PART, {}),
    "Deberta": (ANY, {}),
    "DebertaV2": (ANY, {}),
    **dict.fromkeys(("ModernBert", "NomicBert", "T5"), (NONE, {})),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", ["head_hidden", "cls_raw"])
def test_a_head_is_mapped_exactly_onto_each_architecture(
    family: str, pooling: str, save_tiny: Save, tmp_path: Path
) -> None:
    formats, options = FAMILIES[family]
    encoder = save_tiny(family, **options)
    form = check(exported(encoder, tmp_path / "winner", "ce", pooling=pooling))
    assert form == formats[pooling]


@pytest.mark.parametrize(
    ("pooling", "features", "form"),
    [
        ("cls_pooled", "cls_raw", "transformers"),
        ("cls_pooled", "head_hidden", "transformers-code"),
        ("cls_raw", "head_hidden", "transformers"),
        ("mean", "head_hidden", "transformers-code"),
    ],
)
def test_a_dense_layer_on_any_pooling_keeps_its_input(
    pooling: str, features: str, form: str, tiny_bert: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "winner"
    export = exported(tiny_bert, folder, "scl", pooling=pooling, scl_features=features)
    assert check(export) == form


def test_more_classes_than_half_the_width_do_not_fit_a_relu_head(
    tiny_distilbert: Path, tmp_path: Path
) -> None:
    labels = tuple(map(str, range(9)))
    record = replace(RECORD, labels=labels)
    export = exported(tiny_distilbert, tmp_path / "winner", "ce", record, pooling="cls_raw")
    assert check(export) == "transformers-code"


def test_a_head_behind_a_projection_has_only_the_sclsearch_format(
    tiny_bert: Path, tmp_path: Path
) -> None:
    assert check(exported(tiny_bert, tmp_path / "winner", "ce", projection="g")) == "sclsearch"


def test_an_unmapped_export_is_an_encoder_for_further_studies(
    tiny_bert: Path, tmp_path: Path
) -> None:
    folder = exported(tiny_bert, tmp_path / "winner", "lacon", heads=4).folder
    assert model_folder(str(folder)) == folder / "encoder"
    assert load_encoder(model_folder(str(folder)), "mine").pretrained_pooler


def test_an_export_of_an_earlier_version_still_predicts(tiny_bert: Path, tmp_path: Path) -> None:
    export = exported(tiny_bert, tmp_path / "winner", "ce", projection="g")
    for file in (export.folder / "encoder").iterdir():  # earlier versions wrote one folder
        file.rename(export.folder / file.name)
    (export.folder / "encoder").rmdir()
    assert logits(export.folder, TEXTS) == pytest.approx(export.scores, abs=1e-5)
    assert model_folder(str(export.folder)) == export.folder


@pytest.mark.parametrize("pooling", ["head_hidden", "mean"])
def test_a_regression_has_the_same_scores_in_the_pipeline(
    pooling: str, tiny_bert: Path, tmp_path: Path
) -> None:
    record = replace(RECORD, labels=())
    folder = exported(tiny_bert, tmp_path / "winner", "ce", record, pooling=pooling).folder
    ours = [one.label for one in sclsearch.predict(folder, TEXTS)]
    theirs = [one["score"] for one in probabilities(folder, TEXTS)]
    assert theirs == pytest.approx(ours, abs=1e-5)


@pytest.mark.parametrize("pooling", ["head_hidden", "mean"])
def test_the_pipeline_has_our_probabilities_and_truncates_like_training(
    pooling: str, tiny_bert: Path, tmp_path: Path
) -> None:
    folder = exported(tiny_bert, tmp_path / "winner", "scl", pooling=pooling).folder
    texts = [*TEXTS, "good " * 40]
    expected = torch.tensor(logits(folder, texts)).softmax(1).numpy()
    for dtype, most in {"float32": 1e-5, "float16": 5e-3, "bfloat16": 5e-2}.items():
        outputs = probabilities(folder, texts, dtype, truncation=True)
        ordered = np.array([[one[label] for label in LABELS] for one in outputs])
        assert ordered == pytest.approx(expected, abs=most), dtype


@pytest.mark.parametrize("tokenizer_class", [None, "BertTokenizer"])
def test_the_tokenizer_is_found_without_the_kind_of_model(
    tokenizer_class: str | None, tiny_bert: Path, tmp_path: Path
) -> None:
    encoder = shutil.copytree(tiny_bert, tmp_path / "bert")
    settings = json.loads((encoder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings = {name: value for name, value in settings.items() if name != "tokenizer_class"}
    settings |= {"tokenizer_class": tokenizer_class} if tokenizer_class else {}
    (encoder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    folder = exported(encoder, tmp_path / "winner", "ce", pooling="mean").folder
    assert len(probabilities(folder, TEXTS)) == len(TEXTS)


@pytest.mark.parametrize("name", ["ce", "lacon"])
@pytest.mark.parametrize("pair", [False, True])
def test_the_example_runs_as_printed(
    name: str, pair: bool, tiny_bert: Path, tmp_path: Path
) -> None:
    fields = {"pooling": "mean"} if name == "ce" else {}
    record = replace(RECORD, pair=pair)
    folder = exported(tiny_bert, tmp_path / "my model", name, record, **fields).folder
    code = main_example(folder.name, read_record(folder))
    assert len(code.splitlines()) == 3
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert any(label in result.stdout for label in LABELS)
