"""Exported classifiers give other libraries' users the predictions of `sclsearch predict`."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save
from sentence_transformers import SentenceTransformer
from transformers import pipeline

import sclsearch
from sclsearch.encoders.load import load_encoder
from sclsearch.methods import METHODS, find_method
from sclsearch.methods.base import Model, Training
from sclsearch.reports.export import write_folder
from sclsearch.reports.export_record import ExportRecord

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


def exported(
    encoder: Path, folder: Path, name: str, record: ExportRecord = RECORD, **fields: Any
) -> Path:
    """Write an export of a method with random weights in its modules."""
    torch.manual_seed(0)
    method: Any = find_method(name).kind(**fields)
    training = Training(max_length=16)
    loaded = load_encoder(encoder, "tiny")
    parts = method.stages(training)[-1].new_modules(loaded, len(record.labels))
    model = Model(loaded, parts)
    for parameter in parts.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    folder.mkdir()
    values = {**asdict(method), **asdict(training)}
    write_folder(
        folder, save(model.state_dict()), encoder, replace(record, place=name, fields=values)
    )
    return folder


def probabilities(folder: Path, texts: list[str], **options: Any) -> list[dict[str, float]]:
    classifier = pipeline("text-classification", model=str(folder), top_k=None)
    answers: Any = classifier(texts, **options)
    return [{one["label"]: one["score"] for one in answer} for answer in answers]


def logits(folder: Path, texts: list[str]) -> np.ndarray[Any, Any]:
    return np.array([list(one.scores.values()) for one in sclsearch.predict(folder, texts)])


@pytest.mark.parametrize("name", METHODS)
def test_another_library_gives_the_same_scores_or_no_class_names(
    name: str, tiny_bert: Path, tmp_path: Path
) -> None:
    folder = exported(tiny_bert, tmp_path / "winner", name)
    ours = logits(folder, TEXTS)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    found = probabilities(folder, TEXTS)
    if config["architectures"] == ["BertForSequenceClassification"]:
        expected = torch.tensor(ours).softmax(1).numpy()
        theirs = np.array([[one[label] for label in LABELS] for one in found])
        assert theirs == pytest.approx(expected, abs=1e-5)
        return
    assert not {label for one in found for label in one} & set(LABELS)
    if name in NO_FORMAT:
        assert not (folder / "modules.json").exists()
    else:
        theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
        assert theirs == pytest.approx(ours, abs=1e-5)


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta", "tiny_distilbert"])
@pytest.mark.parametrize("pooling", ["head_hidden", "cls_raw", "mean"])
def test_every_pooling_of_every_family_has_an_exact_format(
    family: str, pooling: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    encoder: Path = request.getfixturevalue(family)
    folder = exported(encoder, tmp_path / "winner", "ce", pooling=pooling)
    ours = logits(folder, TEXTS)
    if (folder / "modules.json").exists():
        theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
        assert theirs == pytest.approx(ours, abs=1e-5)
        return
    assert pooling == "head_hidden"
    expected = torch.tensor(ours).softmax(1)
    for one, row in zip(probabilities(folder, TEXTS), expected, strict=True):
        assert [one[label] for label in LABELS] == pytest.approx(row.tolist(), abs=1e-5)


def test_a_head_behind_a_projection_has_no_format(tiny_bert: Path, tmp_path: Path) -> None:
    folder = exported(tiny_bert, tmp_path / "winner", "ce", projection="g")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert not any("Classification" in kind for kind in config["architectures"])
    assert {"id2label", "label2id", "num_labels"}.isdisjoint(config)
    assert not (folder / "modules.json").exists()


def test_scores_of_a_regression_are_the_pipelines(tiny_bert: Path, tmp_path: Path) -> None:
    folder = exported(tiny_bert, tmp_path / "winner", "ce", replace(RECORD, labels=()))
    ours = [one.label for one in sclsearch.predict(folder, TEXTS)]
    theirs = [one["score"] for one in probabilities(folder, TEXTS)]
    assert theirs == pytest.approx(ours, abs=1e-5)


def test_long_texts_are_cut_where_they_were_cut_in_training(
    tiny_bert: Path, tmp_path: Path
) -> None:
    folder = exported(tiny_bert, tmp_path / "winner", "scl")
    long = ["good " * 40]
    (scores,) = probabilities(folder, long, truncation=True)
    expected = torch.tensor(logits(folder, long)[0]).softmax(0).tolist()
    assert [scores[label] for label in LABELS] == pytest.approx(expected, abs=1e-5)
