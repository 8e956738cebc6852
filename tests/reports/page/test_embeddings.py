"""Tests of the embeddings of test rows: predictions, map, alignment and uniformity."""

import numpy as np
import pytest
from safetensors.torch import load
from torch import Tensor

from sclsearch import select
from sclsearch.objectives.lacon import label_scores
from sclsearch.reports.page.embeddings import (
    Embeddings,
    alignment,
    collapsed,
    embed_test_rows,
    normalize,
    tsne_map,
    uniformity,
)
from sclsearch.reports.report import finished_winner
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.studies import StudyStore
from sclsearch.study.restore import restore_seed_run
from tests.reports.page.conftest import Studies


def best_of(studies: Studies, name: str) -> tuple[SeedRun, dict[str, Tensor]]:
    winner = finished_winner(select(name, storage=studies.storage))
    key = winner.seeds[winner.reported[0]].key
    run = RunStore(studies.storage).get(key)
    weights = StudyStore(studies.storage, name).weights(key).read()
    assert run is not None
    assert weights is not None
    return run, load(weights)


def test_the_head_predicts_the_stored_classes_from_the_embeddings(studies: Studies) -> None:
    run, weights = best_of(studies, "scl")
    embeddings = embed_test_rows(*restore_seed_run(run), weights)
    logits = embeddings.values @ weights["new_modules.head.out.weight"].double().numpy().T
    logits += weights["new_modules.head.out.bias"].double().numpy()
    assert logits.argmax(1).tolist() == run.predictions["test"]
    assert embeddings.vectors is None
    assert embeddings.description == "the mean of the encoder's last states"


def test_label_vectors_predict_the_stored_classes_of_lacon(studies: Studies) -> None:
    import torch

    run, weights = best_of(studies, "lacon")
    embeddings = embed_test_rows(*restore_seed_run(run), weights)
    assert embeddings.vectors is not None
    h, labels = torch.from_numpy(embeddings.values), torch.from_numpy(embeddings.vectors)
    scores = label_scores(h, labels)
    assert scores.argmax(1).tolist() == run.predictions["test"]


def test_the_map_is_deterministic_and_has_the_label_vectors() -> None:
    draw = np.random.default_rng(0)
    given = Embeddings(draw.normal(size=(30, 4)), np.zeros(30, np.int64), np.eye(3, 4), "")
    (points, vectors), again = tsne_map(given), tsne_map(given)
    assert points.shape == (30, 2)
    assert vectors is not None
    assert vectors.shape == (3, 2)
    assert np.array_equal(points, again[0])


def test_alignment_is_the_mean_squared_distance_within_classes() -> None:
    z, y = np.array([[2.0, 0], [0, 3.0], [-1.0, 0]]), np.array([0, 0, 1])
    assert alignment(z, y) == pytest.approx(2)
    assert alignment(np.ones((4, 2)), np.zeros(4, np.int64)) == pytest.approx(0)
    assert alignment(z, np.arange(3)) == 0


def test_uniformity_is_the_log_of_the_mean_gaussian_potential() -> None:
    z = np.array([[1.0, 0], [0, 1.0], [-1.0, 0]])
    expected = np.log((2 * np.exp(-4.0) + np.exp(-8.0)) / 3)
    assert uniformity(z) == pytest.approx(expected)
    assert uniformity(np.ones((4, 2))) == pytest.approx(0)


def test_embeddings_of_one_direction_are_collapsed_and_zero_vectors_stay_zero() -> None:
    assert collapsed(np.array([[1.0, 2.0], [3.0, 6.0]]))
    assert not collapsed(np.array([[1.0, 2.0], [3.0, 6.1]]))
    assert normalize(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0.0, 0.0]]
