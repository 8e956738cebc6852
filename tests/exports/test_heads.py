"""Tests of exported classifiers in other libraries: same scores as `sclsearch predict`."""

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
from sclsearch.exports.calibration import Calibration
from sclsearch.exports.export import write_folder
from sclsearch.exports.loading import loading_code
from sclsearch.exports.predictor import ExportRecord, read_record
from sclsearch.methods import METHODS, find_method
from sclsearch.methods.base import Model, Training
from sclsearch.methods.lacon import LaCon
from sclsearch.protocols.base import Rows
from sclsearch.tasks.base import Split, Task, TaskData
from sclsearch.training.data import tokenize_task
from sclsearch.training.device import Backend
from sclsearch.training.evaluation import outputs_of
from tests.conftest import Save

TEXTS = ["the film was good", "it was awful, and very dull", "a lovely film and not bad"]
LABELS = ("praise", "complaint", "other")
NAMES = ("base", "method", "task", "size", "protocol", "study", "rule", "key")
ABOUT: dict[str, Any] = {**dict.fromkeys(NAMES, "tiny"), "metric": "accuracy", "fields": {}}
RECORD = ExportRecord(**ABOUT, validation=None, test=None, replicate=0, seeds=1, labels=LABELS)
OWN, MAPPED, CODE = "sclsearch", "transformers", "transformers-code"


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
    split = Split(tuple((text,) for text in TEXTS), np.zeros(len(TEXTS), np.int64))
    task = Task("demo", "a test", record.labels, "accuracy")
    tokens = tokenize_task(TaskData(task, {"texts": split}, ""), load_tokenizer(encoder), 16)
    every = Rows("texts", np.arange(len(TEXTS)))
    compute, cpu = partial(method.scores, model), Backend(torch.device("cpu"))
    return Export(folder, outputs_of(model, compute, tokens, every, None, cpu))


def probabilities(
    folder: Path, texts: list[str], dtype: str = "float32", **options: Any
) -> list[dict[str, float]]:
    """Return the outputs of the pipeline of transformers."""
    trusted = read_record(folder).format == CODE
    classifier = pipeline(
        "text-classification", model=str(folder), top_k=None, trust_remote_code=trusted, dtype=dtype
    )
    outputs: Any = classifier(texts, **options)
    return [{one["label"]: one["score"] for one in output} for output in outputs]


def logits(folder: Path, texts: list[str]) -> np.ndarray[Any, Any]:
    return np.array([list(one.scores.values()) for one in sclsearch.load(folder).predict(texts)])


def check(export: Export) -> str:
    """Check that every library that loads an export gives the scores of the trained model."""
    folder, expected = export.folder, export.scores
    assert logits(folder, TEXTS) == pytest.approx(expected, abs=1e-5)
    form = read_record(folder).format
    if form != OWN:
        model = AutoModelForSequenceClassification.from_pretrained(
            folder, trust_remote_code=form == CODE
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=form == CODE)
        assert tokenizer.model_max_length == 16
        with torch.inference_mode():
            theirs = model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits.numpy()
        assert theirs.reshape(expected.shape) == pytest.approx(expected, abs=1e-5)
    if form == MAPPED:
        return form
    with pytest.raises((OSError, ValueError), match=r"config\.json|model_type|trust_remote_code"):
        AutoModelForSequenceClassification.from_pretrained(folder)
    if form == CODE:
        theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
        assert theirs == pytest.approx(expected, abs=1e-5)
    else:
        assert not (folder / "modules.json").exists()
    encoder = AutoModel.from_pretrained(folder, subfolder="encoder")
    assert type(encoder).__name__ in encoder.config.architectures
    assert encoder.config.id2label == PretrainedConfig().id2label
    assert model_folder(str(folder)) == folder / "encoder"  # for further studies
    return form


@pytest.mark.parametrize("name", METHODS)
def test_an_export_of_each_method_never_predicts_with_a_random_head(
    name: str, tiny_bert: Path, tmp_path: Path
) -> None:
    form = check(exported(tiny_bert, tmp_path / "winner", name))
    assert (form == OWN) == (name in {"lacon", "lacon-fusion", "leam", "lsan"})


MAPPED_FAMILIES = ("Bert", "Albert", "Roberta", "XLMRoberta", "Camembert", "MPNet")
OTHERS = ("DistilBert", "Electra", "Deberta", "DebertaV2", "ModernBert", "NomicBert", "T5")


@pytest.mark.parametrize("family", [*MAPPED_FAMILIES, *OTHERS])
@pytest.mark.parametrize("pooling", ["head_hidden", "cls_raw"])
def test_a_head_has_the_same_scores_on_each_architecture(
    family: str, pooling: str, save_tiny: Save, tmp_path: Path
) -> None:
    options = {"add_pooling_layer": False} if family in {"Roberta", "Camembert"} else {}
    encoder = save_tiny(family, **options)
    form = check(exported(encoder, tmp_path / "winner", "ce", pooling=pooling))
    assert (form == MAPPED) == (family in MAPPED_FAMILIES and pooling == "head_hidden")


@pytest.mark.parametrize(
    ("method", "fields", "form"),
    [
        ("scl", {"pooling": "cls_pooled", "scl_features": "cls_raw"}, MAPPED),
        ("scl", {"pooling": "cls_pooled", "scl_features": "head_hidden"}, CODE),
        ("scl", {"pooling": "cls_raw", "scl_features": "head_hidden"}, MAPPED),
        ("scl", {"pooling": "mean", "scl_features": "head_hidden"}, CODE),
        ("ce", {"projection": "g"}, OWN),
    ],
)
def test_a_head_of_any_layers_keeps_its_input(
    method: str, fields: dict[str, Any], form: str, tiny_bert: Path, tmp_path: Path
) -> None:
    assert check(exported(tiny_bert, tmp_path / "winner", method, **fields)) == form


@pytest.mark.parametrize("pooling", ["head_hidden", "mean"])
def test_the_temperature_is_in_the_weights_of_a_head(
    pooling: str, tiny_bert: Path, tmp_path: Path
) -> None:
    record = replace(RECORD, calibration=Calibration(2.5, None, 9, {}))
    export = exported(tiny_bert, tmp_path / "winner", "ce", record, pooling=pooling)
    assert check(replace(export, scores=export.scores / 2.5)) != OWN
    own = exported(tiny_bert, tmp_path / "own", "lacon", record)
    assert check(own) == OWN
    expected = LaCon().probabilities(torch.from_numpy(own.scores) / 2.5)
    assert sclsearch.load(own.folder).predict_proba(TEXTS) == pytest.approx(expected, abs=1e-5)


def test_an_export_of_an_earlier_version_still_predicts(tiny_bert: Path, tmp_path: Path) -> None:
    export = exported(tiny_bert, tmp_path / "winner", "ce", projection="g")
    for file in (export.folder / "encoder").iterdir():  # earlier versions wrote one folder
        file.rename(export.folder / file.name)
    (export.folder / "encoder").rmdir()
    assert logits(export.folder, TEXTS) == pytest.approx(export.scores, abs=1e-5)
    assert model_folder(str(export.folder)) == export.folder


@pytest.mark.parametrize("pooling", ["head_hidden", "mean"])
def test_the_pipeline_has_our_predictions_and_truncates_like_training(
    pooling: str, tiny_bert: Path, tmp_path: Path
) -> None:
    folder = exported(tiny_bert, tmp_path / "winner", "scl", pooling=pooling).folder
    texts = [*TEXTS, "good " * 40]
    expected = torch.tensor(logits(folder, texts)).softmax(1).numpy()
    for dtype, most in {"float32": 1e-5, "float16": 5e-3, "bfloat16": 5e-2}.items():
        outputs = probabilities(folder, texts, dtype, truncation=True)
        ordered = np.array([[one[label] for label in LABELS] for one in outputs])
        assert ordered == pytest.approx(expected, abs=most), dtype
    record = replace(RECORD, labels=())
    regression = exported(tiny_bert, tmp_path / "scores", "ce", record, pooling=pooling).folder
    theirs = [one["score"] for one in probabilities(regression, TEXTS)]
    ours = [one.label for one in sclsearch.load(regression).predict(TEXTS)]
    assert theirs == pytest.approx(ours, abs=1e-5)


@pytest.mark.parametrize("pair", [False, True])
def test_the_suggested_code_runs(
    pair: bool,
    tiny_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    record, counts = replace(RECORD, pair=pair), []
    for name, pooling in (("ce", "mean"), ("ce", "head_hidden"), ("lacon", "mean")):
        folder = tmp_path / f"my {name} {pooling}"
        exported(tiny_bert, folder, name, record, pooling=pooling)
        codes = loading_code(folder.name, read_record(folder))
        counts.append(len(codes))
        for code in codes:
            exec(code, {})
            printed = capsys.readouterr().out
            assert ("encode(" in code) != any(label in printed for label in LABELS)
    assert counts == [3 - pair, 2, 1]  # sentence-transformers reads no pairs
