"""From Python a search is asked for as on the command line, and answers with its report."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sclsearch
from sclsearch import Report, RunOptions, StudySpec, compare, export, select, train, tune
from sclsearch.errors import SclsearchError
from sclsearch.search.prepare import prepare_study
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import SeedRun


@pytest.fixture
def encoder(tmp_path: Path, tiny_encoder: Path) -> str:
    """Return the folder of a tiny encoder."""
    return str(shutil.copytree(tiny_encoder, tmp_path / "encoder"))


@pytest.fixture
def options(tmp_path: Path) -> RunOptions:
    return RunOptions(
        study="mine", storage=tmp_path / "storage", configs=2, seeds=2, tracking="none"
    )


def finish(spec: StudySpec, options: RunOptions) -> None:
    """Stores made-up figures of every seed run, the later the better."""
    prepared = prepare_study(spec, options)
    prepared.begin()
    scheduler = Scheduler.of(prepared)
    while (task := scheduler.next()) is not None:
        right = 300 + 10 * len(scheduler.done)
        evaluation = {"confusion": [[right, 500 - right], [0, 0]]}
        evaluations = ({"update": 9, "validation": evaluation},)
        run = SeedRun(task.key, task.identity, {}, evaluations=evaluations, test=evaluation)
        prepared.runs.put(run)
        scheduler.finish(task, run)


def numbers(report: Report) -> list[int]:
    return [line.number for line in report.configurations]


def test_a_finished_search_answers_with_its_report_from_the_store(
    encoder: str, options: RunOptions
) -> None:
    spec = StudySpec(method="scl", task="demo", model=encoder)
    finish(spec, options)
    report = tune(spec, options)
    assert numbers(report) == [1, 0]
    assert report.winner is not None
    assert report.winner.test_mean == pytest.approx(0.65)
    assert report == select("mine", storage=options.storage)


def test_a_rule_of_an_earlier_start_is_no_rule_of_this_one(
    encoder: str, options: RunOptions
) -> None:
    spec = StudySpec(method="scl", task="demo", model=encoder)
    finish(spec, replace(options, rule="best"))
    assert tune(spec, options).rule == "mean"
    assert tune(spec, replace(options, rule="mean/best")).rule == "mean/best"
    assert select("mine", storage=options.storage).rule == "best"


def test_a_search_that_is_stopped_says_so(
    encoder: str, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = StudySpec(method="scl", task="demo", model=encoder)
    finish(spec, options)
    monkeypatch.setattr("sclsearch.search.run._train", lambda *_: "interrupted")
    with pytest.raises(KeyboardInterrupt):
        tune(spec, replace(options, configs=3))


def test_a_search_whose_time_is_used_shows_by_its_scores(
    encoder: str, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = StudySpec(method="scl", task="demo", model=encoder)
    finish(spec, options)
    monkeypatch.setattr("sclsearch.search.run._train", lambda *_: "out of time")
    scores = [line.score for line in tune(spec, replace(options, configs=3)).configurations]
    assert (len(scores), scores.count(None)) == (3, 1)


def test_training_is_one_configuration_of_the_starting_point_and_the_settings(
    encoder: str, options: RunOptions
) -> None:
    spec = StudySpec(method="scl", task="demo", model=encoder, settings={"epochs": 3})
    finish(replace(spec, searched=False), options)
    [line] = train(spec, options).configurations
    assert line.values == {
        "tau": 0.3,
        "lam": 0.9,
        "learning_rate": 1e-05,
        "batch_size": 16,
        "epochs": 3,
    }
    assert (line.fields["tau"], line.fields["epochs"]) == (0.3, 3)


def test_a_study_is_selected_from_under_any_rule_and_for_fewer_seeds(
    encoder: str, options: RunOptions
) -> None:
    finish(StudySpec(method="scl", task="demo", model=encoder), options)
    assert select("mine", storage=options.storage).rule == "mean"
    assert select("mine", rule="mean/best", storage=options.storage).rule == "mean/best"
    assert select("mine", storage=options.storage, seeds=1).seeds == 1


def test_what_the_caller_can_mend_is_raised(tmp_path: Path, options: RunOptions) -> None:
    with pytest.raises(SclsearchError, match=r"Unknown study 'mien' .* Known: none"):
        select("mien", storage=tmp_path)
    with pytest.raises(SclsearchError, match="Unknown study 'mine'"):
        export("mine", tmp_path / "out", storage=tmp_path / "mien")
    assert not (tmp_path / "mien").exists()
    with pytest.raises(SclsearchError, match="Unknown rule 'median'"):
        select("mine", rule="median", storage=tmp_path)
    with pytest.raises(SclsearchError, match="Did you mean 'scl'"):
        tune(StudySpec(method="sc1", task="demo"), options)
    with pytest.raises(SclsearchError, match=r"^data_dir .* but demo is made by sclsearch"):
        tune(StudySpec(method="scl", task="demo"), replace(options, data_dir=tmp_path))


def test_winners_of_two_methods_are_compared_on_the_rows_of_both(
    encoder: str, options: RunOptions
) -> None:
    for method in ("scl", "ce"):
        finish(StudySpec(method=method, task="demo", model=encoder), replace(options, study=method))
    found = compare("scl", "ce", storage=options.storage)
    assert [(one.study, one.number) for one in found.studies] == [("scl", 1), ("ce", 1)]
    assert (found.task, found.seeds, found.notes) == ("demo", 2, ())
    comparison = found.studies[1].comparison
    assert comparison is not None
    assert (comparison.n, comparison.difference) == (2, 0)


@pytest.mark.parametrize(
    ("spec", "changes", "told"),
    [
        ({"shots": 0}, {}, "shots 0: it must lie between 1 and"),
        ({"train_size": 0}, {}, "train_size 0: it must lie between 1 and"),
        ({"settings": {"tua": 1}}, {}, "settings tua: unknown key."),
        ({"method": 3}, {}, "method: it must be a name, FILE.py:CLASS or a class, but it is 3."),
        ({"model": "./nothing"}, {}, "model ./nothing: it must be"),
        ({"splits": 1}, {}, "splits: must be at least 2, got 1."),
        ({}, {"gpus_per_trial": 2}, "gpus_per_trial: must be 0, 1/k or 1"),
        ({}, {"study": "a/b"}, "study 'a/b': a name must be"),
        ({}, {"storage": ""}, "storage: must be a folder or a URI, got ''."),
        ({}, {"tracking": "http://"}, "tracking: a server or a database must be named"),
        ({}, {"cpus_per_trial": 999}, "cpus_per_trial 999, gpus_per_trial 0: a seed run must fit"),
        ({}, {"race": 3}, "race: it must be less than 1, but it is 3."),
    ],
    ids=str,
)
def test_errors_name_arguments_and_not_options(
    encoder: str, options: RunOptions, spec: dict[str, Any], changes: dict[str, Any], told: str
) -> None:
    asked: dict[str, Any] = {"method": "scl", "task": "demo", "model": encoder, **spec}
    with pytest.raises(SclsearchError) as raised:
        sclsearch.tune(
            StudySpec(**asked), replace(options, **{"seeds": 3, "gpus_per_trial": 0, **changes})
        )
    assert str(raised.value).startswith(told)
    assert "--" not in re.sub("`.*?`", "", str(raised.value))


def test_commands_in_errors_keep_their_options(encoder: str, options: RunOptions) -> None:
    asked = replace(options, address="ray://head:10001", gpus_per_trial=0)
    with pytest.raises(SclsearchError) as raised:
        sclsearch.tune(StudySpec(method="scl", task="demo", model=encoder), asked)
    told = str(raised.value)
    assert told.startswith("address ray://head:10001: it must be auto or HOST:PORT, ")
    assert told.endswith("sclsearch submit --cluster http://HOST:8265 -- tune …")
