"""Test of searches on SST-2 with MiniLM: all views of the results agree on the winner."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sclsearch
from sclsearch.reports.report import finished_winner
from tests.in_process import in_process
from tests.reports.test_head_mapping import probabilities
from tests.tracking.conftest import NOLOAD

TEXTS = ["a gripping, beautifully acted film .", "a tedious mess .", "i have seen worse ."]
ROWS = {"train": 1000, "dev": 120}
"""Number of rows that the test reads from the start of each file."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings(NOLOAD, "ignore::UserWarning")
def test_all_views_of_a_search_agree_on_the_winner_and_its_score(
    glue: Path, minilm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    storage, uri = tmp_path / "storage", f"sqlite:///{tmp_path / 'mlflow.db'}"
    (tmp_path / "SST-2").mkdir()
    for name, count in ROWS.items():
        lines = (glue / "SST-2" / f"{name}.tsv").read_text(encoding="utf-8").splitlines(True)
        text = "".join(lines[: count + 1])
        (tmp_path / "SST-2" / f"{name}.tsv").write_text(text, encoding="utf-8")
    with in_process():
        compared = sclsearch.tune(
            method=["scl", "ce"],
            task="sst2",
            model="minilm",
            train_size=100,
            data_dir=tmp_path,
            settings={"pooling": "head_hidden", "epochs": 2, "max_length": 16},
            configs=2,
            seeds=2,
            rule="mean",
            storage=storage,
            tracking=uri,
            gpus_per_trial=0,
            progress=False,
        )
    names = [one.study for one in compared.studies]
    winners = {one.method: finished_winner(one) for one in compared.reports}

    page = sclsearch.write_report(*names, output=tmp_path / "report", storage=storage)
    text = page.read_text(encoding="utf-8")
    for winner in winners.values():
        assert f"#{winner.number} (" in text
        assert f"is best: validation accuracy {winner.score:.4f}" in text
        assert f"Its test accuracy is {winner.test_mean:.4f}" in text

    sclsearch.track(names[0], storage=storage, tracking=uri, register="sst2")
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name("sst2, 100 examples, minilm")
    runs = client.search_runs(
        [experiment.experiment_id],
        "tags.level = 'configuration'",
        order_by=["metrics.score DESC", "params.configuration ASC"],  # as ties are broken
    )
    assert len(runs) == 4
    assert runs[0].data.metrics["score"] == max(winner.score or 0 for winner in winners.values())
    for method, winner in winners.items():
        own = next(run for run in runs if run.data.params["method"] == method)
        assert own.data.params["configuration"] == str(winner.number)
        assert own.data.metrics["score"] == winner.score
        assert own.data.metrics["test"] == winner.test_mean

    sclsearch.export(names[0], tmp_path / "winner", storage=storage)
    expected = sclsearch.load(tmp_path / "winner").predict(TEXTS)
    by_transformers = probabilities(tmp_path / "winner", TEXTS)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    model: Any = mlflow.pyfunc.load_model("models:/sst2/1")
    table = model.predict(pd.DataFrame({"text": TEXTS}))
    assert table["label"].tolist() == [one.label for one in expected]
    for row, (one, theirs) in enumerate(zip(expected, by_transformers, strict=True)):
        ours = np.array(list(one.probabilities.values()))
        assert [theirs[label] for label in one.scores] == pytest.approx(ours, abs=1e-5)
        assert {label: table[f"score.{label}"][row] for label in one.scores} == one.scores
