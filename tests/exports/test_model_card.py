"""Tests of the model card: metadata, scores, caveats, data and search."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

import sclsearch
from sclsearch.exports.export import describe_winner
from sclsearch.exports.model_card import write_model_card
from sclsearch.reports.report import finished_winner, report
from tests.made_up import WriteStudy

TAU = {"name": "tau", "type": "choice", "values": [0.1, 0.2, 0.3]}


def card_of(storage: Path, folder: Path, **changes: Any) -> str:
    """Return the model card of the study `made-up`."""
    found = report(storage, "made-up")
    described = replace(describe_winner(found), labels=("no", "yes"))
    described = replace(described, **changes)
    folder.mkdir(exist_ok=True)
    write_model_card(folder, described, found, folder)
    return (folder / "README.md").read_text(encoding="utf-8")


def metric_of(card: str, split: str = "test") -> dict[str, Any]:
    """Return the score that a card's metadata publishes."""
    data: Any = ModelCard(card).data
    (result,) = data.to_dict()["model-index"][0]["results"]
    assert result["dataset"]["split"] == split
    metric: dict[str, Any] = result["metrics"][0]
    return metric


def test_the_card_has_metadata_scores_of_every_seed_and_digests(
    trained: Path, tmp_path: Path
) -> None:
    exported = sclsearch.export("mine", tmp_path / "winner", storage=trained, force=True)
    text = (tmp_path / "winner" / "README.md").read_text(encoding="utf-8")
    found = report(trained, "mine")
    winner = finished_winner(found)
    assert winner.plain is not None
    assert metric_of(text)["value"] == pytest.approx(winner.plain[0])
    for seed in winner.seeds:
        name = f"{seed.replicate}{' (exported)' if seed.replicate == exported.replicate else ''}"
        assert f"| {name} | {seed.validation:.4f} | {seed.test:.4f} |" in text
    assert found.data in text
    assert all(rows["train"][:12] in text for rows in found.rows)
    assert "`unacceptable`, `acceptable`" in text


def test_the_card_of_a_search_has_space_configurations_and_escaped_names(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    storage = write_study(
        [(70, 60), (72, 62)],
        [(90, 79), (90, 81)],
        [(50, 50), None],
        parameters=[TAU],
        values=[{"tau": 0.1}, {"tau": 0.2}, {"tau": 0.3}],
        fixed={"epochs": 3, "max_length": 64},
        settings={"epochs": 3},
        study_notes=("unknown to /home/me/encoder: <img onerror=x>|`",),
    )
    names = {"task": "<img src=x>|*", "labels": ("a`<b>", "ye\ns" + "x" * 999)}
    text = card_of(storage, tmp_path / "winner", **names)
    for line in (
        "| tau | 0.1, 0.2, 0.3 |",
        "Fixed by the space: `max_length=64`.\n\nSet by hand: `epochs=3`.",
        "| 1 | 0.9000 | 0.8000 ± 0.0141 | 2/2 | `tau=0.2` |",
        "| 2 | – | 0.5000 | 1/2 | `tau=0.3` |",
        r" on \<img src=x\>\|\*",
        r"- Unknown to encoder: \<img onerror=x\>\|\`.",
        f"- labels: `a'<b>`, `ye s{'x' * 75}…`\n",
    ):
        assert line in text


def test_the_card_has_every_caveat_and_no_path_of_this_machine(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    storage = write_study(
        [(70, 60), "it failed"],
        [(1, 1), (1, 1)],
        parameters=[],
        model="mine",
        notes=("chosen and reported on the same rows",),
        rows={"train": "ab", "test": "t", "validation": "t"},
        baselines={"logistic regression on the frozen encoder": 55},
    )
    damaged = report(storage, "made-up").configurations[1].seeds[0]
    (storage / "runs" / f"{damaged.key}.json").write_text("{")
    (tmp_path / "winner").mkdir()
    (tmp_path / "winner" / "README.md").write_text("---\nlicense: [mit\n---\n", encoding="utf-8")
    text = card_of(storage, tmp_path / "winner")
    limits = text.partition("## Limits\n")[2]
    for caveat in (
        "Texts are truncated to ",
        "so its validation score is optimistic.",
        "The scores hold for rows like those of the task.",
        "License of the base model: unknown.",
        "Damaged files, left out of the ranking: 1;",
        "Chosen and reported on the same rows.",
    ):
        assert caveat in limits
    assert "| 1 | failed | failed |" in text
    assert metric_of(text, "validation")["name"] == "accuracy, mean of 1 seed"
    assert "With other test rows than these 100, the score may differ by 9 points (95 %)" in text
    assert str(storage) not in text


def test_the_card_recommends_to_quote_the_score_on_fresh_seeds(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    rows = {"train": "ab", "test": "t"}
    storage = write_study([(60, 50), (62, 54)], parameters=[], rows=rows)
    text = card_of(storage, tmp_path / "winner")
    assert "0.5200 ± 0.0283 over all 2 seeds: report this number." in text
    assert metric_of(text)["value"] == pytest.approx(0.52)
    write_study([(1, 44), (1, 46)], name="again", confirms="made-up", fresh=7, rows=rows)
    text = card_of(storage, tmp_path / "confirmed")
    assert "over all 2 seeds. The ± is over seeds" in text
    use = "new initial weights and orders, but rows that also chose the winner."
    assert f"0.4500 ± 0.0141 over 2 new seeds: {use} Report this number." in text
    published = metric_of(text)
    assert published["name"] == "accuracy, mean of 2 new seeds"
    assert published["value"] == pytest.approx(0.45)
