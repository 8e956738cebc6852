"""Searches on SST-2 with MiniLM: every view of the results names one winner with one score."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sclsearch
from sclsearch.reports.comparison import StudyComparison
from sclsearch.reports.report import ConfigurationLine, Report, finished_winner
from tests.in_process import in_process
from tests.reports.test_head_mapping import probabilities
from tests.tracking.conftest import NOLOAD

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings(NOLOAD)]

TEXTS = ["a gripping, beautifully acted film .", "a tedious mess .", "i have seen worse ."]


@dataclass(frozen=True)
class Real:
    """Finished searches of `scl` and `ce`, the MLflow database, and an export of scl's winner."""

    storage: Path
    uri: str
    found: StudyComparison
    exported: Path

    def winners(self) -> dict[str, tuple[Report, ConfigurationLine]]:
        return {one.method: (one, finished_winner(one)) for one in self.found.reports}


ROWS = {"train": 1000, "dev": 120}
"""Number of first rows of each file that the tests read."""


@pytest.fixture(scope="module")
def real(glue: Path, minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Real:
    folder = tmp_path_factory.mktemp("real")
    storage, uri = folder / "storage", f"sqlite:///{folder / 'mlflow.db'}"
    (folder / "SST-2").mkdir()
    for name, count in ROWS.items():
        lines = (glue / "SST-2" / f"{name}.tsv").read_text(encoding="utf-8").splitlines(True)
        (folder / "SST-2" / f"{name}.tsv").write_text("".join(lines[: count + 1]), encoding="utf-8")
    settings = {"pooling": "head_hidden", "epochs": 2, "max_length": 16}
    with in_process():
        found = sclsearch.tune(
            method=["scl", "ce"],
            task="sst2",
            model="minilm",
            train_size=100,
            data_dir=folder,
            settings=settings,
            configs=2,
            seeds=2,
            rule="mean",
            storage=storage,
            tracking=uri,
            gpus_per_trial=0,
            progress=False,
        )
    scl = found.studies[0].study
    sclsearch.track(scl, storage=storage, tracking=uri, register="sst2")
    sclsearch.export(scl, folder / "winner", storage=storage)
    return Real(storage, uri, found, folder / "winner")


def test_the_page_and_its_figures_name_the_winners(real: Real, tmp_path: Path) -> None:
    studies = [one.study for one in real.found.studies]
    page = sclsearch.write_report(*studies, output=tmp_path / "report", storage=real.storage)
    text = page.read_text(encoding="utf-8")
    for report, winner in real.winners().values():
        assert f"#{winner.number} (" in text
        assert f"is best: validation accuracy {winner.score:.4f}" in text
        assert f"Its test accuracy is {winner.test_mean:.4f}" in text
        for name in ("seeds-test", "confusion", "embeddings"):
            assert (tmp_path / "report/figures" / f"{report.study}-{name}.svg").is_file()


def test_mlflow_sorts_the_winner_first(real: Real) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(real.uri)
    experiment = client.get_experiment_by_name("sst2, 100 examples, minilm")
    runs = client.search_runs(
        [experiment.experiment_id],
        "tags.level = 'configuration'",
        order_by=["metrics.score DESC", "params.configuration ASC"],  # as ties are broken
    )
    assert len(runs) == 4
    winners = real.winners()
    best = max(winner.score or 0 for _, winner in winners.values())
    assert runs[0].data.metrics["score"] == best
    for method, (_, winner) in winners.items():
        own = next(run for run in runs if run.data.params["method"] == method)
        assert own.data.params["configuration"] == str(winner.number)
        assert own.data.metrics["score"] == winner.score
        assert own.data.metrics["test"] == winner.test_mean


def test_transformers_alone_predicts_like_the_loaded_export(real: Real) -> None:
    expected = sclsearch.load(real.exported).predict(TEXTS)
    scores = np.array([list(one.scores.values()) for one in expected])
    ours = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    found = probabilities(real.exported, TEXTS)
    theirs = [[one[label] for label in expected[0].scores] for one in found]
    assert theirs == pytest.approx(ours, abs=1e-5)
    assert [max(one, key=lambda label: one[label]) for one in found] == [
        one.label for one in expected
    ]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_registered_model_predicts_like_the_loaded_export(
    real: Real, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    import pandas as pd

    monkeypatch.setenv("MLFLOW_TRACKING_URI", real.uri)
    model: Any = mlflow.pyfunc.load_model("models:/sst2/1")
    table = model.predict(pd.DataFrame({"text": TEXTS}))
    expected = sclsearch.load(real.exported).predict(TEXTS)
    assert table["label"].tolist() == [one.label for one in expected]
    for label in expected[0].scores:
        assert table[f"score.{label}"].tolist() == [one.scores[label] for one in expected]
