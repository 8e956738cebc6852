"""Tests of the baselines against scikit-learn on the rows of a replicate."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.preprocessing import StandardScaler

from sclsearch.encoders.load import load_encoder, load_tokenizer
from sclsearch.protocols.base import Rows, Splits
from sclsearch.tasks import load_task
from sclsearch.training import evaluation as module
from sclsearch.training.data import tokenize_task
from sclsearch.training.evaluation import LOGISTIC, MAJORITY, baselines

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
