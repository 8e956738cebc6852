"""Tests of the model card: metadata, scores, search and code examples."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

import sclsearch
from sclsearch.reports.export import describe_winner
from sclsearch.reports.model_card import write_model_card
from sclsearch.reports.report import finished_winner, report
from sclsearch.store.studies import existing_study
from tests.reports.conftest import WriteStudy
from tests.reports.trained import Trained, study_on


@pytest.fixture(scope="module")
def folder(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an export of the study."""
    folder = tmp_path_factory.mktemp("export") / "winner"
    trained.export(folder)
    return folder


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


def run_examples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the Python code of a card beside its folder; return the number of blocks."""
    monkeypatch.chdir(folder.parent)
    blocks = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    for block in blocks:
        exec(block, {})
    return len(blocks)


def test_the_card_has_the_metadata_of_a_hub_model(trained: Trained, folder: Path) -> None:
    data = ModelCard.load(folder / "README.md").data.to_dict()
    assert (data["pipeline_tag"], data["library_name"]) == ("text-classification", "transformers")
    assert "license" not in data
    winner = finished_winner(report(trained.storage, "mine"))
    assert winner.plain is not None
    (result,) = data["model-index"][0]["results"]
    assert result["metrics"][0]["value"] == pytest.approx(winner.plain[0])
    assert result["dataset"]["split"] == "test"


def test_the_card_lists_the_scores_of_every_seed(trained: Trained, folder: Path, text: str) -> None:
    found = report(trained.storage, "mine")
    exported = sclsearch.load(folder).record.replicate
    for seed in finished_winner(found).seeds:
        name = f"{seed.replicate}{' (exported)' if seed.replicate == exported else ''}"
        assert f"| {name} | {seed.validation:.4f} | {seed.test:.4f} |" in text
    assert found.data in text
    assert all(rows["train"][:12] in text for rows in found.rows)
    assert "`unacceptable`, `acceptable`" in text
    assert "License of the base model: unknown." in text


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_electra"])
def test_the_code_of_a_card_runs(
    family: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained = study_on(request.getfixturevalue(family), tmp_path / "storage")
    trained.export(tmp_path / "winner")
    assert run_examples(tmp_path / "winner", monkeypatch) >= 2
    sclsearch.export("mine", tmp_path / "both", storage=trained.storage, ensemble=True, force=True)
    assert run_examples(tmp_path / "both", monkeypatch) == 1


def test_the_license_is_taken_from_the_card_of_the_base_model(
    trained: Trained, tiny_bert: Path, tmp_path: Path
) -> None:
    encoder = shutil.copytree(tiny_bert, tmp_path / "encoder")
    (encoder / "README.md").write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    study_on(encoder, tmp_path / "storage").export(tmp_path / "first")
    study_on(tmp_path / "first", tmp_path / "again").export(tmp_path / "second")
    for name in ("first", "second"):
        card = ModelCard.load(tmp_path / name / "README.md")
        assert card.data.to_dict()["license"] == "mit"
        assert "License of the base model: mit." in card.text


PARAMETERS = (
    {"name": "tau", "type": "choice", "values": [0.1, 0.2, 0.3]},
    {"name": "learning_rate", "type": "log", "low": 1e-5, "high": 1e-3},
)


def card_of(storage: Path, folder: Path) -> str:
    """Return the model card of the study `made-up`."""
    _, record = existing_study(storage, "made-up")
    found = report(storage, "made-up")
    described = replace(describe_winner(found), labels=("no", "ye\ns" + "x" * 999))
    folder.mkdir(exist_ok=True)
    write_model_card(folder, described, found, record, storage, folder)
    return (folder / "README.md").read_text(encoding="utf-8")


def test_the_card_of_a_search_has_space_configurations_and_race(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    storage = write_study(
        [(70, 60), (72, 62)],
        [(90, 79), (90, 81)],
        [(50, 50), None],
        parameters=PARAMETERS,
        values=[{"tau": 0.1}, {"tau": 0.2}, {"tau": 0.3}],
        fixed={"epochs": 3, "max_length": 64},
        settings={"epochs": 3},
    )
    text = card_of(storage, tmp_path / "winner")
    assert "| tau | 0.1, 0.2, 0.3 |" in text
    assert "| learning_rate | 1e-05 to 0.001 (log scale) |" in text
    assert "Fixed by the space: `max_length=64`.\n\nSet by hand: `epochs=3`." in text
    assert "3 configurations tried, best first:" in text
    assert "| 1 | 0.9000 | 0.8000 ± 0.0141 | 2/2 | `tau=0.2` |" in text
    assert "| 2 | – | 0.5000 | 1/2 | `tau=0.3` |" in text
    assert "1 of 3 configurations have fewer than 2 seeds (1 with 1): the search is un" in text
    assert "The storage has no finished study of `ce`" in text
    assert f"- labels: `no`, `ye s{'x' * 75}…`\n" in text


def test_a_failed_seed_is_shown(write_study: WriteStudy, tmp_path: Path) -> None:
    text = card_of(write_study([(70, 60), "it failed"], parameters=[]), tmp_path / "winner")
    assert "name: accuracy, mean of 1 seed\n" in text
    assert "| 1 | failed | failed |" in text
    assert "No hyperparameter was searched." in text
    assert "Every configuration has all 2 seeds, so none was left out early." in text


def test_the_card_of_a_repeated_winner_names_no_defaults(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    storage = write_study([(70, 60)], parameters=[], values=[{}], fresh=7)
    text = card_of(storage, tmp_path / "winner")
    assert text.count("`the winner that it repeats`") == 2
    assert "`defaults`" not in text


def test_a_card_of_the_base_model_with_invalid_yaml_names_no_license(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    (tmp_path / "winner").mkdir()
    (tmp_path / "winner" / "README.md").write_text("---\nlicense: [mit\n---\n", encoding="utf-8")
    text = card_of(write_study([(70, 60)], model="mine", parameters=[]), tmp_path / "winner")
    assert "License of the base model: unknown." in text


def test_the_card_compares_the_winner_with_a_study_of_cross_entropy(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    write_study([(70, 61), (70, 59)], method="ce", name="plain", parameters=[])
    write_study([(70, 1), (70, 2)], method="ce", name="of-other-rows", data="e", parameters=[])
    storage = write_study([(80, 66), (80, 62)], parameters=[])
    text = card_of(storage, tmp_path / "winner")
    assert "Against `ce` (study `plain`, test 0.6000 ± 0.0141): +4.0 points" in text
    assert "over 2 pairs, p = " in text
    write_study([(70, 61), (70, 59)], [(1, 1)] * 2, method="ce", name="plain-2", parameters=[])
    worse = report(storage, "plain-2").configurations[1]
    (storage / "runs" / f"{worse.seeds[0].key}.json").write_text("{")
    text = card_of(storage, tmp_path / "beside-damaged")
    assert "plain-2: damaged files, left out of the ranking: 1;" in text
    assert str(storage) not in text


def test_the_card_recommends_to_quote_the_score_on_fresh_seeds(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    storage = write_study([(60, 50), (62, 54)], parameters=[])
    assert "over all 2 seeds: report this number." in card_of(storage, tmp_path / "winner")
    write_study([(1, 48), (1, 52)], name="again", confirms="made-up", fresh=7)
    text = card_of(storage, tmp_path / "confirmed")
    assert "over all 2 seeds. The ± is over seeds" in text
    assert (
        "0.5000 ± 0.0283 over 2 fresh seeds: not used to choose the winner. Report this number."
        in text
    )
    assert "name: accuracy, mean of 2 fresh seeds" in text


def test_the_card_says_if_fresh_seeds_read_the_rows_of_the_search(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    splits = {"train": "ab", "test": "t"}
    storage = write_study([(60, 50), (62, 54)], parameters=[], rows=splits)
    write_study([(1, 48), (1, 52)], name="again", confirms="made-up", fresh=7, rows=splits)
    text = card_of(storage, tmp_path / "confirmed")
    assert "new initial weights and orders, but rows that also chose the winner. Report" in text
