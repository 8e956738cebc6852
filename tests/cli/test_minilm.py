"""Test of a whole job with MiniLM on real texts: metric, sampler, encoders, exports."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from tests.studies import in_process

SAMPLER = """\
import optuna

def make(seed):
    return optuna.samplers.TPESampler(seed=seed)
"""


def sclsearch_(*words: str) -> str:
    """Run a command in this process and return its output."""
    with in_process():
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.slow
def test_a_job_with_minilm_on_film_reviews(
    minilm: Path, glue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reviews = pd.read_csv(glue / "SST-2" / "dev.tsv", sep="\t").head(80)
    reviews[:56].to_csv("reviews.csv", index=False)
    reviews[56:].to_csv("test.csv", index=False)
    Path("own.py").write_text(SAMPLER, encoding="utf-8")
    short = shutil.copytree(minilm, tmp_path / "short")  # MiniLM without its last three layers
    config = json.loads((short / "config.json").read_text(encoding="utf-8"))
    (short / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    task = ("--task", "reviews.csv", "--test", "test.csv", "--configs", "2", "--seeds", "2")
    fixed = ("--set", "epochs=2", "--set", "max_length=24", "--tracking", "none")

    own = ("--metric", "roc_auc", "--sampler", "own.py:make")
    sclsearch_(
        "tune", "--method", "scl", "--model", "minilm", "--study", "first", *task, *fixed, *own
    )
    found: Any = sclsearch.select("first")
    rows, positive = found.predictions().query("split == 'test'"), found.record.origin["labels"][1]
    for line in found.configurations:
        for seed in line.seeds:
            tested = rows[rows["key"] == seed.key]
            y, likely = tested["label"] == positive, tested[f"probability_{positive}"]
            assert seed.test == pytest.approx(roc_auc_score(y, likely), abs=1e-6)

    models = ("--model", f"minilm,{short}", "--start-from", "first", "--study", "second")
    printed = sclsearch_("tune", "--method", "scl", *models, *task, *fixed)
    assert "texts/s" in printed
    started = sclsearch.select("second-minilm").configurations
    assert [one.values for one in sorted(started, key=lambda one: one.number)] == [
        one.values for one in found.configurations
    ]

    export = ("export", "second-minilm", "model", "--force", "--calibrate", "--threshold", "tune")
    assert "Fitted on" in sclsearch_(*export, "--onnx")
    classifier: Any = sclsearch.load("model")
    texts = reviews["sentence"].tolist()[56:]
    threshold = classifier.record.calibration.threshold
    likely = classifier.predict_proba(texts)[:, 1] >= threshold
    expected = [classifier.labels[int(one)] for one in likely]
    assert [one.label for one in classifier.predict(texts)] == expected
