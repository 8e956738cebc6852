"""Tests of evaluations, of stored weights, and of the baselines."""

import errno
import json
import resource
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.preprocessing import StandardScaler

from sclsearch.canonical import digest
from sclsearch.encoders.load import load_encoder, load_tokenizer
from sclsearch.methods.base import Model
from sclsearch.methods.scl import CE
from sclsearch.methods.supcl_seq import SupCLSeq
from sclsearch.protocols.base import Rows, Splits
from sclsearch.tasks import load_task
from sclsearch.tasks.base import TaskData
from sclsearch.training import evaluation as module
from sclsearch.training.data import collate, tokenize_task
from sclsearch.training.device import Backend
from sclsearch.training.engine import train
from sclsearch.training.evaluation import (
    LOGISTIC,
    MAJORITY,
    NonFiniteLossError,
    baselines,
    compute_features,
    evaluate_rows,
    save_tensors,
    save_weights,
)
from tests.training.conftest import Rebuilt, Trained, WorkFor

CPU = torch.device("cpu")


def test_probabilities_are_those_of_the_methods_scores(
    work_for: WorkFor, trained: Trained, rebuilt: Rebuilt, method: str
) -> None:
    work, result = work_for(method), trained(method)
    rows = work.spec.splits.test
    model = rebuilt(work, result)
    batch = collate(work.tokens["test"], rows.index, (0.0,), CPU)
    with torch.inference_mode():
        scores = work.spec.method.scores(model, batch)
        expected = work.spec.method.probabilities(scores).numpy()
    found = result.probabilities["test"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_probabilities_in_regression_have_no_classes(
    work_for: WorkFor, toy_scores: TaskData
) -> None:
    result = train(*work_for("ce", data=toy_scores, epochs=1))
    assert result.probabilities["test"].shape == (len(result.predictions["test"]), 0)


@pytest.mark.parametrize("kind", ["classes", "scores"])
def test_nan_scores_raise_an_error(
    work_for: WorkFor, toy: TaskData, toy_scores: TaskData, kind: str
) -> None:
    work = work_for("ce", data={"classes": toy, "scores": toy_scores}[kind])
    encoder = load_encoder(work.spec.model, work.spec.model_name)
    model = Model(encoder, CE().new_modules(encoder, len(work.spec.task.labels)))
    with torch.no_grad():
        model.get_parameter("new_modules.head.out.bias").fill_(float("nan"))
    with pytest.raises(NonFiniteLossError, match=r"^validation: scores are NaN or infinite"):
        evaluate_rows(*work, work.spec.splits.validation, model, None, Backend(CPU))


def test_features_are_the_embeddings_of_their_rows_in_evaluation_mode(work_for: WorkFor) -> None:
    work = work_for("supcl-seq")
    encoder = load_encoder(work.spec.model, work.spec.model_name)
    model = Model(encoder, SupCLSeq().new_modules(encoder, 2))
    splits = work.spec.splits
    rows = (splits.train, splits.validation, splits.test, splits.validation)
    features = compute_features(model.train(), work.tokens, rows, "mean", Backend(CPU))
    assert features.values.shape == (44 + 30 + 30, 16)
    assert not features.values.requires_grad
    for part in rows:
        tokens = work.tokens[part.split]
        index = part.index[::-3].copy()
        batch = features.batch(tokens, part.split, index)
        with torch.inference_mode():
            own = model.eval().embed(collate(tokens, index, (0.0,), CPU), "mean")
        assert batch.features is not None
        torch.testing.assert_close(batch.features, own, rtol=1e-4, atol=1e-5)
        assert batch.y.tolist() == tokens.y[index].tolist()


def test_stored_weights_and_identity_are_exact(
    tmp_path: Path,
    work_for: WorkFor,
    trained: Trained,
    method: str,
) -> None:
    spec, result = work_for(method).spec, trained(method)
    path = tmp_path / "weights.safetensors"
    for _ in range(2):
        save_weights(path, result, spec)
    assert list(path.parent.iterdir()) == [path]
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert stored.keys() == result.weights.keys()
    assert all(torch.equal(tensor, result.weights[name]) for name, tensor in stored.items())
    assert {name.partition(".")[0] for name in stored} == {"encoder", "new_modules"}
    assert metadata["key"] == spec.key == digest(json.loads(metadata["identity"]))
    assert metadata["model"] == "tiny"


def test_a_full_disk_raises_an_os_error_with_the_path(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            save_tensors(tmp_path / "weights.safetensors", {"a": torch.zeros(1000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EIO
    assert caught.value.filename == str(tmp_path / "weights.safetensors")


SPLITS = Splits(
    train=Rows("train", np.arange(30)),
    validation=Rows("validation", np.arange(40)),
    test=Rows("test", np.arange(50)),
)


def test_both_baselines_use_the_rows_of_the_replicate(tiny_bert: Path) -> None:
    data = load_task("demo")
    tokenizer = load_tokenizer(tiny_bert)
    found = baselines(
        data, tokenize_task(data, tokenizer, 16), {0: SPLITS}, load_encoder(tiny_bert, "t")
    )
    train, test = data.splits["train"], data.splits["test"]
    largest = np.bincount(train.y[:30]).argmax()
    expected = np.zeros((2, 2), int)
    expected[:, largest] = np.bincount(test.y[:50])
    assert found[0][MAJORITY]["test"]["confusion"] == expected.tolist()

    model = load_encoder(tiny_bert, "t").model

    def features(
        texts: tuple[tuple[str, ...], ...],
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        rows = []
        for (text,) in texts:
            read = tokenizer(text, truncation=True, max_length=16, return_tensors="pt")
            with torch.no_grad():
                rows.append(model(**read).last_hidden_state[0].mean(0).double().numpy())
        return np.stack(rows)

    scaler = StandardScaler().fit(features(train.texts[:30]))
    linear = LogisticRegression(max_iter=1000).fit(
        scaler.transform(features(train.texts[:30])), train.y[:30]
    )
    predicted = linear.predict(scaler.transform(features(test.texts[:50])))
    counts = confusion_matrix(test.y[:50], predicted).tolist()
    assert found[0][LOGISTIC]["test"]["confusion"] == counts


def test_the_linear_model_is_omitted_for_many_rows_on_a_cpu(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS_ON_CPU", 100)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    data = load_task("demo")
    tokens = tokenize_task(data, load_tokenizer(tiny_bert), 16)
    found = baselines(data, tokens, {0: SPLITS}, load_encoder(tiny_bert, "t"))
    assert found[0].keys() == {MAJORITY}
