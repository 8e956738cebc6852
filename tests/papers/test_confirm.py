"""Tests of `confirm`: new replicates, plans and errors."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation.write import select_texts
from sclsearch.papers.confirm import confirm, prepare_confirmation
from sclsearch.reports.comparison import compare_studies
from sclsearch.reports.report import Report, finished_winner, report
from sclsearch.search.plan import plan_prepared
from sclsearch.spaces.load import load_space, practical_file
from sclsearch.store.studies import StudyStore, study_names
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks import load_task
from sclsearch.tasks.base import Texts
from tests.finished import finish, repeated_spec
from tests.papers.conftest import QUIET

Repeat = Callable[..., str]

FIELDS = {"epochs": 2, "batch_size": 8, "max_length": 16}


@pytest.fixture
def spec(small: Path) -> StudySpec:
    return StudySpec(
        method="scl",
        task="demo",
        model=str(small),
        train_size=20,
        space="paper",
        settings=FIELDS,
        sampler="grid",
    )


@pytest.fixture
def chosen(spec: StudySpec, options: RunOptions) -> str:
    """Return a study of two configurations on twelve replicates; the second is better."""
    options = replace(options, configs=2, seeds=12)
    return finish(
        spec, options, lambda number, r: [[20 + r, 30 - r], [10 - 5 * number, 40 + 5 * number]]
    )


@pytest.fixture
def repeat(options: RunOptions, chosen: str) -> Repeat:
    """Return a function that finishes a repetition of the winner without training."""

    def repeat(counts: Callable[..., Any], **repetition: Any) -> str:
        return finish(repeated_spec(options.storage, chosen, **repetition), options, counts)

    return repeat


def seventy_percent(_configuration: int, replicate: int) -> list[list[int]]:
    return [[30 + replicate, 20 - replicate], [10, 40]]


def confirmed(study: str, options: RunOptions, count: int = 3) -> tuple[Report, Report]:
    return confirm(study, count, options, QUIET)


def test_a_winner_is_confirmed_on_replicates_after_those_of_its_search(
    options: RunOptions, chosen: str, repeat: Repeat
) -> None:
    name = repeat(seventy_percent, fresh=3, first_fresh=12)
    search, repetition = confirmed(chosen, options)
    own, fresh = (StudyStore(options.storage, study).replicates() for study in (chosen, name))
    assert repetition.study == name
    assert [replicate.seeds["order"] for replicate in fresh] == [12, 13, 14]
    assert not {r.rows["train"] for r in own} & {r.rows["train"] for r in fresh}
    winner, again = finished_winner(search), finished_winner(repetition)
    assert winner.number == 1
    assert winner.test_mean == pytest.approx(0.75)  # the three best of 0.65 … 0.76
    assert winner.plain == pytest.approx((0.705, 0.036056), abs=1e-6)
    assert repetition.rule == "mean"
    assert again.test_mean == pytest.approx(0.71)
    assert again.fields == winner.fields
    beside = compare_studies([search, repetition]).studies[0].confirmed
    assert beside is not None
    assert (beside.study, beside.mean, beside.seeds) == (name, again.test_mean, 3)


def test_fewer_fresh_replicates_than_stored_are_the_first_stored_ones(
    options: RunOptions, chosen: str, repeat: Repeat
) -> None:
    repeat(seventy_percent, fresh=5, first_fresh=12)
    _, fresh = confirmed(chosen, options, 2)
    assert fresh.seeds == 2
    for rule in ("best", "top-3"):
        assert confirmed(chosen, replace(options, rule=rule), 2)[1] == fresh
    assert fresh.winner
    assert fresh.winner.test_mean == pytest.approx(0.705)


def test_a_confirmation_cannot_be_confirmed(options: RunOptions, repeat: Repeat) -> None:
    name = repeat(lambda *_: [[30, 20], [10, 40]], fresh=3, first_fresh=12)
    with pytest.raises(SclsearchError, match=rf"^{name}: repeats the winner of another"):
        confirmed(name, options)


def test_a_paraphrase_file_may_gain_texts_but_not_change(
    spec: StudySpec, options: RunOptions, tmp_path: Path
) -> None:
    file = tmp_path / "paraphrases.jsonl"
    noisy = replace(spec, protocol="gunel-noisy", paraphrases=file)
    selections = [select_texts("demo", "gunel-noisy", 20, replicates=n) for n in (13, 10)]
    every, chosen = (one.texts(load_task("demo")) for one in selections)

    def write(texts: Iterable[Texts], word: str) -> None:
        lines = [{"text": text, "paraphrases": [[word], ["b"], ["c"]]} for text in texts]
        header = {"paraphrases": 1, "source": "a test"}
        file.write_text("\n".join(map(json.dumps, [header, *lines])))

    write(chosen, "a")
    name = finish(noisy, replace(options, configs=1, seeds=10))
    with pytest.raises(SclsearchError, match="--replicates 13"):
        confirmed(name, options)
    write(every, "a")
    finish(repeated_spec(options.storage, name, fresh=3, first_fresh=10), options)
    _, fresh = confirmed(name, options)
    assert fresh.seeds == 3
    write(every, "changed")
    with pytest.raises(SclsearchError, match=rf"^{name}: paraphrases "):
        confirmed(name, options)


def test_a_plan_counts_stored_seed_runs_and_trains_nothing(
    options: RunOptions, chosen: str, repeat: Repeat
) -> None:
    def plan(count: int) -> tuple[int, int]:
        found = plan_prepared(prepare_confirmation(chosen, count, options, dry=True)[1], list)
        return found["seed_runs"], found["stored"]

    assert plan(3) == (3, 0)
    assert study_names(options.storage) == [chosen]
    repeat(seventy_percent, fresh=2, first_fresh=12)
    assert plan(3) == (3, 2)


def test_an_unknown_unfinished_or_failed_study_is_an_error(
    spec: StudySpec, options: RunOptions
) -> None:
    one = replace(options, configs=1, seeds=3)
    failed = finish(spec, replace(one, study="failed"), lambda *_: None)
    unfinished = finish(replace(spec, train_size=40), replace(one, study="unfinished"))
    finished = (
        path
        for path in Path(options.storage, "runs").glob("*.json")
        if json.loads(path.read_text())["failure"] is None
    )
    next(finished).unlink()
    for name, message in {
        "unfinishd": "^Unknown study 'unfinishd'",
        unfinished: "^unfinished: no configuration is finished",
        failed: "^failed: no seed run succeeded",
    }.items():
        with pytest.raises(SclsearchError, match=message):
            confirmed(name, options)


def test_changed_inputs_are_named_before_training(
    options: RunOptions, chosen: str, small: Path
) -> None:
    (small / "model.safetensors").write_text("other weights")
    with pytest.raises(SclsearchError, match=rf"^{chosen}: weights |cannot be read"):
        confirmed(chosen, options)
    assert study_names(options.storage) == [chosen]


def test_the_winner_of_a_custom_method_is_confirmed(
    spec: StudySpec, options: RunOptions, custom_method: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(custom_method, encoding="utf-8")
    custom = f"{file}:Smoothed"
    settings = {"smoothing": 0.2}
    changed = replace(spec, method=custom, space=None, searched=False, settings=settings)
    name = finish(changed, replace(options, seeds=3))
    options = replace(options, custom_method=custom)
    finish(repeated_spec(options.storage, name, fresh=2), options, lambda *_: [[50, 0], [0, 50]])
    _, fresh = confirmed(name, options, 2)
    assert finished_winner(fresh).test_mean == 1


def test_the_winner_of_a_gpu_study_is_confirmed_on_cpus(
    spec: StudySpec, options: RunOptions
) -> None:
    on_gpu = replace(options, configs=1, seeds=3, gpus_per_trial=1)
    name = finish(replace(spec, precision="tf32"), on_gpu)
    here = replace(options, gpus_per_trial=0)
    plan = plan_prepared(prepare_confirmation(name, 2, here, dry=True)[1], list)
    assert plan["seed_runs"] == 2


def test_a_confirmation_keeps_a_default_that_differs_from_the_spaces_start(
    spec: StudySpec, options: RunOptions
) -> None:
    found = load_space(practical_file("scl"), "scl")
    assert found.published[0]["head_lr_mult"] != 1
    options = replace(options, configs=1, seeds=3)
    settings = {**FIELDS, "head_lr_mult": 1.0}
    study = finish(
        replace(spec, model="minilm", space="practical", settings=settings, sampler="random"),
        options,
    )
    again = finish(repeated_spec(options.storage, study, fresh=2, first_fresh=3), options)
    first, second = (report(options.storage, name).winner for name in (study, again))
    assert first is not None
    assert second is not None
    assert first.fields == second.fields
    record = StudyStore(options.storage, again).record()
    assert record is not None
    assert record.identity["space"]["fixed"] == first.fields
