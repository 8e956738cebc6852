"""Tests of the comparison of methods: its tables, its statistics, its recording and its rivals."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import comparison, rivals, tiny_bert
from benchmarks.comparison import ALL, LOGISTIC, SETFIT, filled, measured, packed, unpacked
from sclsearch.encoders.models import model_digest
from sclsearch.selection.significance import compare
from tests.studies import in_process

ROOT = Path(__file__).parents[2]
DRAW = np.random.default_rng(0)
SIDE = {"data": "a", "digest": "b", "engine": "7", "device": "cpu", "precision": "bf16"}


def side(share: float, **fields: Any) -> dict[str, Any]:
    """Return the record of a side that is right on a share of the rows."""
    correct = DRAW.random((30, 400)) < share
    found = {**SIDE, "learning_rate": 1e-4, "edge": False, "accuracy": correct.mean()}
    return {**found, "seconds": 2.0, "correct": packed(correct), **fields}


SHARES = {"sst2": {"scl": 0.7, "lacon": 0.3}, "dbpedia": {SETFIT: 0.9}}
RECORDS = {
    ("minilm", task, 20, name): side(SHARES[task].get(name, 0.5), edge=name == "lacon")
    for task in SHARES
    for name in ALL
} | {("bert-4x256", "sst2", 20, name): side(0.5, device=name) for name in ("ce", "scl")}


def test_the_pages_hold_the_tables_of_the_records() -> None:
    records = comparison.read()
    for page in comparison.PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert filled(text, records) == text
    for one in records.values():
        assert unpacked(one["correct"]).mean() == pytest.approx(one["accuracy"])


def test_a_difference_is_bold_if_its_simultaneous_interval_excludes_zero() -> None:
    found = measured(RECORDS)
    assert len(found) == 6  # the sides of `bert-4x256` have other devices
    better, worse = (found["minilm", "sst2", 20, name] for name in ("scl", "lacon"))
    assert (better.sign, worse.sign) == (1, -1)
    a, b = (unpacked(one["correct"]).mean(axis=1).tolist() for one in (better.own, better.base))
    assert better.comparison == compare(a, b, alpha=0.05 / comparison.PLANNED)
    usual = compare(a, b)
    assert usual.p == better.comparison.p
    assert better.interval[0] < (usual.interval or (1, 1))[0] < better.comparison.difference
    lines = comparison.differences(RECORDS).splitlines()
    scl, lacon, supcl_seq = (cell.strip() for cell in lines[2].split("|")[3:6])
    assert scl.startswith("**+")
    assert "**† (" in lacon
    assert not supcl_seq.startswith("**")
    assert len(lines) == 2 + 2  # places with a difference
    text = comparison.sentences(RECORDS)
    counts = "1 with a gain, in 1 cases; 1 with a loss; 4 inconclusive. 30 more were planned"
    assert text.startswith(f"6 comparisons with `ce` in 2 cases: {counts}")
    assert "The highest score of 2 cases: " in text
    page = filled("<!-- scores -->\n<!-- end -->", RECORDS)
    assert "**90." in page


def test_the_bootstrap_includes_the_choice_of_rows() -> None:
    rows = np.repeat(DRAW.random((1, 50)) < 0.6, 30, axis=0)  # equal seeds
    low, high = comparison.resampled(rows, np.zeros((30, 50), bool), 0.05)
    assert (high - low) / 2 == pytest.approx(1.96 * rows[0].std() / 50**0.5, rel=0.15)


def test_recorded_sides_and_rivals_have_the_same_rows(
    tmp_path: Path, tiny_roberta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{'good' if n % 2 else 'bad'} film {n}\t{n % 2}" for n in range(80)]
    for name, rows in (("train", lines[:60]), ("dev", lines[60:])):
        file = tmp_path / f"SST-2/{name}.tsv"
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(["sentence\tlabel", *rows, ""]), encoding="utf-8")
    monkeypatch.setenv("SCLSEARCH_DATA", str(tmp_path))
    for name, value in {"SEEDS": 1, "FRESH": 2}.items():
        monkeypatch.setattr(comparison, name, value)
    monkeypatch.setattr(comparison, "FACTORS", (0.5, 1.0))
    monkeypatch.setattr(comparison, "RECORDS", tmp_path / "records.jsonl")
    with in_process():
        comparison.train_missing(tmp_path, [str(tiny_roberta)], ["sst2/20/ce"], 1)
    ((key, record),) = comparison.read().items()
    assert key == (tiny_roberta.name, "sst2", 20, "ce")
    assert unpacked(record["correct"]).shape == (2, 20)
    comparison.train_missing(tmp_path / "other", [str(tiny_roberta)], ["sst2/20/ce"], 1)
    assert not (tmp_path / "other").exists()
    found = rivals.record(tmp_path / "runs", LOGISTIC, str(tiny_roberta), "sst2", 20)
    assert {name: found[name] for name in ("data", "digest")} == {
        name: record[name] for name in ("data", "digest")
    }
    assert unpacked(found["correct"]).shape == (2, 20)


@pytest.mark.usefixtures("minilm")
def test_interrupted_pretraining_resumes_with_equal_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_bert, "EVERY", 2)
    sizes = {"layers": 1, "width": 64, "words": 200, "length": 8, "updates": 4, "precision": "bf16"}
    options, texts, save = (
        argparse.Namespace(**sizes),
        ["a fine film", "a bad film"] * 20,
        torch.save,
    )

    def save_once(state: object, path: Path) -> None:
        if path.with_suffix(".pt").exists():
            raise KeyboardInterrupt
        save(state, path)

    folders = tmp_path / "whole", tmp_path / "interrupted"
    for folder in folders:
        folder.mkdir()
    tiny_bert.pretrain(folders[0], texts, options)
    monkeypatch.setattr(torch, "save", save_once)
    with pytest.raises(KeyboardInterrupt):
        tiny_bert.pretrain(folders[1], texts, options)
    monkeypatch.setattr(torch, "save", save)
    tiny_bert.pretrain(folders[1], texts, options)
    assert model_digest(folders[0]) == model_digest(folders[1])
