"""A winner is trained on replicates that did not choose it, and only what is missing is trained."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation.texts import find_drawn
from sclsearch.papers.confirm import Confirmation, confirm, variance
from sclsearch.reports.report import report
from sclsearch.selection.variance import Spread
from sclsearch.store.studies import StudyStore, study_names
from sclsearch.study.restore import restore_spec
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks import load_task
from sclsearch.tasks.base import Texts

Fill = Callable[..., str]
FIELDS = {"epochs": 2, "batch_size": 8, "max_length": 16}
QUIET = Console(quiet=True)


@pytest.fixture
def spec(small: Path) -> StudySpec:
    return StudySpec(
        method="scl", task="demo", model=str(small), train_size=20, settings=FIELDS, sampler="grid"
    )


@pytest.fixture
def chosen(spec: StudySpec, options: RunOptions, fill: Fill) -> str:
    """Returns a study of two configurations on twelve replicates; the second is better."""
    options = replace(options, configs=2, seeds=12)
    return fill(
        spec, options, lambda number, r: [[20 + r, 30 - r], [10 - 5 * number, 40 + 5 * number]]
    )


@pytest.fixture
def repeating(options: RunOptions, chosen: str, fill: Fill) -> Callable[..., str]:
    """Returns what finishes a repetition of the study's winner without training."""

    def repeating(counts: Callable[..., Any], **repetition: Any) -> str:
        return fill(winner_again(options, chosen, **repetition), options, counts)

    return repeating


def winner_again(options: RunOptions, study: str, **repetition: Any) -> StudySpec:
    """Returns the winner of a study as it is asked for again."""
    record, winner = (
        StudyStore(options.storage, study).record(),
        report(options.storage, study).winner,
    )
    assert record is not None
    assert winner is not None
    return restore_spec(record.origin, winner.fields, **repetition)


def confirmed(study: str, options: RunOptions, count: int = 3) -> Confirmation:
    return confirm(study, count, options, QUIET)


def spread(study: str, options: RunOptions, **levels: int) -> Spread:
    return variance(study, levels, options, QUIET)


def test_fresh_replicates_begin_after_every_one_that_chose(
    options: RunOptions, chosen: str, repeating: Callable[..., str]
) -> None:
    name = repeating(lambda _, r: [[30 + r, 20 - r], [10, 40]], fresh=3, first_fresh=12)
    found = confirmed(chosen, options)
    assert found.fresh.study == name
    own, fresh = (StudyStore(options.storage, study).replicates() for study in (chosen, name))
    assert [replicate.seeds["order"] for replicate in fresh] == [12, 13, 14]
    assert not {r.rows["train"] for r in own} & {r.rows["train"] for r in fresh}


def test_the_winner_is_told_as_chosen_over_all_seeds_and_on_fresh_ones(
    options: RunOptions, chosen: str, repeating: Callable[..., str]
) -> None:
    repeating(lambda _, r: [[30 + r, 20 - r], [10, 40]], fresh=3, first_fresh=12)
    found = confirmed(chosen, options)
    winner, again = found.chosen.winner, found.fresh.winner
    assert winner is not None
    assert again is not None
    assert winner.number == 1
    assert winner.test_mean == pytest.approx(0.75)  # the three best of 0.65 … 0.76
    assert winner.plain == pytest.approx((0.705, 0.036056), abs=1e-6)
    assert found.fresh.rule == "mean"
    assert again.test_mean == pytest.approx(0.71)
    assert again.fields == winner.fields


def test_fewer_fresh_replicates_than_are_stored_are_the_first_of_them(
    options: RunOptions, chosen: str, repeating: Callable[..., str]
) -> None:
    repeating(lambda _, r: [[30 + r, 20 - r], [10, 40]], fresh=5, first_fresh=12)
    found = confirmed(chosen, options, 2)
    assert found.fresh.seeds == 2
    for rule in ("best", "top-3"):
        assert confirmed(chosen, replace(options, rule=rule), 2).fresh == found.fresh
    assert found.fresh.winner
    assert found.fresh.winner.test_mean == pytest.approx(0.705)


def test_a_confirmation_cannot_be_confirmed(
    options: RunOptions, chosen: str, repeating: Callable[..., str]
) -> None:
    levels = {"order": 2, "initialization": 2}
    for repetition in ({"fresh": 3, "first_fresh": 12}, {"crossed": levels}):
        name = repeating(lambda *_: [[30, 20], [10, 40]], **repetition)
        with pytest.raises(
            SclsearchError, match=rf"^{name}: it must be a study that chose its win"
        ):
            confirmed(name, options)


def test_a_file_of_paraphrases_may_have_got_texts_for_fresh_replicates_and_no_others(
    spec: StudySpec, options: RunOptions, fill: Fill, tmp_path: Path
) -> None:
    file = tmp_path / "paraphrases.jsonl"
    asked = replace(spec, protocol="gunel-noisy", paraphrases=file)
    every = [find_drawn("demo", "gunel-noisy", 20, None, count) for count in (13, 10)]
    drawn, chosen = (one.texts(load_task("demo")) for one in every)

    def write(texts: Iterable[Texts], word: str) -> None:
        lines = [{"text": text, "paraphrases": [[word], ["b"], ["c"]]} for text in texts]
        header = {"paraphrases": 1, "source": "a test"}
        file.write_text("\n".join(map(json.dumps, [header, *lines])))

    write(chosen, "a")
    name = fill(asked, replace(options, configs=1, seeds=10))
    with pytest.raises(SclsearchError, match=r" --replicates 13 --backend …` writes those that"):
        confirmed(name, options)
    write(drawn, "a")
    fill(winner_again(options, name, fresh=3, first_fresh=10), options)
    assert confirmed(name, options).fresh.seeds == 3
    write(drawn, "changed")
    with pytest.raises(SclsearchError, match=rf"^{name}: paraphrases must be what the study was"):
        confirmed(name, options)


def test_variance_tells_the_source_that_scores_follow(
    options: RunOptions, chosen: str, repeating: Callable[..., str]
) -> None:
    def by_order(_configuration: int, cell: int) -> list[list[int]]:
        return [[20 + cell % 3, 30 - cell % 3], [5, 45]]

    levels = {"initialization": 2, "order": 3}
    name = repeating(by_order, crossed=levels)
    found = spread(chosen, options, **levels)
    assert (found.runs, found.one_subset) == (6, True)
    assert found.share("order") == pytest.approx(1)
    assert found.share("initialization") == 0
    assert found.mean == pytest.approx(0.66)
    own, crossing = (report(options.storage, study).winner for study in (chosen, name))
    assert own is not None
    assert crossing is not None
    assert {seed.key for seed in own.seeds} & {seed.key for seed in crossing.seeds} == {
        own.seeds[0].key
    }


def test_every_failed_run_of_a_crossing_is_counted(
    options: RunOptions, chosen: str, repeating: Callable[..., str]
) -> None:
    levels = {"subset": 2, "order": 2}
    name = repeating(lambda _, cell: None if cell == 2 else [[30, 20], [10, 40]], crossed=levels)
    with pytest.raises(
        SclsearchError, match=rf"^{name}: every seed run .* finish, but 1 of 4 fail"
    ):
        spread(chosen, options, **levels)


def test_subsets_that_are_all_the_same_are_refused_before_training(
    spec: StudySpec, options: RunOptions, fill: Fill
) -> None:
    name = fill(replace(spec, train_size=None), replace(options, configs=1, seeds=2, rule="mean"))
    with pytest.raises(
        SclsearchError, match=rf"^--subsets 3: .* differ .* but {name} has 1 different of 3. Leave"
    ):
        spread(name, options, subset=3, order=2)
    assert study_names(options.storage) == [name]


def test_a_study_that_is_unknown_unfinished_or_failed_has_no_winner(
    spec: StudySpec, options: RunOptions, fill: Fill
) -> None:
    one = replace(options, configs=1, seeds=3)
    failed = fill(spec, replace(one, study="failed"), lambda *_: None)
    unfinished = fill(replace(spec, train_size=40), replace(one, study="unfinished"))
    run = next(Path(options.storage, "runs").glob("*.json"))
    for path in Path(options.storage, "runs").glob("*.json"):
        if json.loads(path.read_text())["failure"] is None:
            run = path
    run.unlink()
    faults = {
        "unfinishd": r"^Unknown study 'unfinishd' .* Did you mean 'unfinished'",
        unfinished: "^unfinished: no configuration is finished",
        failed: "^failed: all seed runs of the winner failed",
    }
    for name, message in faults.items():
        with pytest.raises(SclsearchError, match=message):
            confirmed(name, options)
        with pytest.raises(SclsearchError, match=message):
            spread(name, options, order=2, initialization=2)


def test_what_changed_since_the_study_is_named_and_nothing_is_trained(
    options: RunOptions, chosen: str, small: Path
) -> None:
    (small / "model.safetensors").write_text("other weights")
    for call in (
        lambda: confirmed(chosen, options),
        lambda: spread(chosen, options, order=2, subset=2),
    ):
        with pytest.raises(
            SclsearchError, match=rf"^{chosen}: weights must be what the study was "
        ):
            call()
    assert study_names(options.storage) == [chosen]


@pytest.fixture
def own(custom_method: str, tmp_path: Path, small: Path) -> Mapping[str, Any]:
    file = tmp_path / "mine.py"
    file.write_text(custom_method, encoding="utf-8")
    return {"method": f"{file}:Smoothed", "searched": False, "settings": {"smoothing": 0.2}}


def test_an_own_method_is_confirmed_by_its_unchanged_file_alone(
    spec: StudySpec, options: RunOptions, own: Mapping[str, Any], fill: Fill, tmp_path: Path
) -> None:
    name = fill(replace(spec, **own), replace(options, seeds=3))
    with pytest.raises(SclsearchError, match=r"Read the file, then pass --method FILE.py:CLASS"):
        confirmed(name, options, 2)
    options = replace(options, custom_method=own["method"])
    fill(winner_again(options, name, fresh=2), options, lambda *_: [[50, 0], [0, 50]])
    found = confirmed(name, options, 2)
    assert found.fresh.winner is not None
    assert found.fresh.winner.test_mean == 1
    file = tmp_path / "mine.py"
    file.write_text(file.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    with pytest.raises(SclsearchError, match="its hash differs"):
        confirmed(name, options, 2)
