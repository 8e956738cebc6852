"""Tests of a Chinese task from the data to the report, with a user's model folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sclsearch.api import train
from sclsearch.reports.report import Report
from tests.in_process import in_process

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SHORT = {"epochs": 2, "max_length": 32, "batch_size": 8, "pooling": "mean"}
OWN = {"lacon": {"heads": 4}, "cmlm": {"post_epochs": 1}, "cssl": {"post_epochs": 1}}


@pytest.fixture(scope="module")
def chinese(save_tiny: Callable[..., Path], fewclue: Path) -> Path:
    """Return a tiny random BERT whose vocabulary is the characters of the training texts."""
    text = (fewclue / "eprstmt" / "train_few_all.json").read_text(encoding="utf-8")
    characters = sorted({c for c in text if "\u4e00" <= c <= "\u9fff"})
    sizes = {
        "vocab_size": len(SPECIAL) + len(characters),
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "pad_token_id": 0,
    }
    return save_tiny("Bert", sizes, [*SPECIAL, *characters])


@pytest.fixture
def trained(chinese: Path, fewclue: Path, tmp_path: Path) -> Callable[[str], Report]:
    """Return a function that trains a method on 8 texts per class with three seeds."""

    def trained(method: str) -> Report:
        settings = {**SHORT, **OWN.get(method, {})}
        with in_process():
            return train(
                method=method,
                task="eprstmt",
                model=str(chinese),
                shots=8,
                settings=settings,
                storage=tmp_path,
                data_dir=fewclue,
                seeds=3,
                tracking="none",
                gpus_per_trial=0,
                progress=False,
            )

    return trained


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cmlm", "cssl"])
def test_a_chinese_task_runs_end_to_end(trained: Callable[[str], Report], method: str) -> None:
    report = trained(method)
    assert report.winner is not None
    assert report.winner.failed == 0
    assert len(report.winner.seeds) == 3
    assert all(0 <= (seed.test or 0) <= 1 for seed in report.winner.seeds)
    assert any("EDA" in note for note in report.notes) == (method == "cssl")
    fresh = "masked-LM head: new"
    assert any(note.startswith(fresh) for note in report.notes) == (method == "cmlm")
