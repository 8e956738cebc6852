"""A search says what is wrong before it starts, what it would do, and what the store has."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from sclsearch.protocols.gunel import few_shot_training
from sclsearch.tasks import hub

Call = Callable[..., CompletedProcess[str]]

SPACE = """
method: scl
source: mine
published:
  - {tau: 0.3, lam: 0.9}
fixed: {learning_rate: 1.0e-5}
space:
  tau: {type: float, low: 0.1, high: 0.7}
  lam: {type: choice, values: [0.5, 0.9]}
"""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--method sc1", "Unknown method 'sc1'. Did you mean 'scl'? Known: ce, scl, supcl-seq."),
        ("--task demos", "Unknown task 'demos'. Did you mean 'demo'? Known: cola, demo, mnli, "),
        ("--protocol gunel-ful", "Unknown protocol 'gunel-ful'. Did you mean 'gunel-full'? Known:"),
        ("--rule median", "Unknown rule 'median'. It must be mean, best, top-K, or one for the "),
        ("--set tua=1", "--set tua: unknown key. Did you mean 'tau'? Known: batch_sampling, "),
        ("--set tau=-1", "--set tau: input should be greater than 0, but there is -1"),
        ("--set tau=warm", "--set tau: input should be a valid number, but there is 'warm'"),
        ("--set tau", "--set tau: it must be KEY=VALUE, as in --set tau=0.3."),
        ("--set tau=1 --set tau=2", "--set tau: it must be set once, but it is set twice."),
        ("--model ./nope", "--model ./nope: it must be an alias, a folder, or owner/name on the "),
        ("--model minlm", "no such folder. Did you mean 'minilm'? Known: bert-base, distilbert, "),
        ("--model ./empty", "--model ./empty: config.json, model.safetensors, tokenizer.json must"),
        ("--space no.yaml", "no.yaml: the file must be readable, but: No such file or directory"),
        ("--train-size 9 --seeds 2", "--seeds: rule top-3 needs at least 3 seeds, but there are 2"),
        ("--seeds 0", "--seeds: rule mean needs at least 1 seeds, but there are 0. Give more"),
        ("--train-size 9999", "--train-size 9999: it must lie between 1 and the 2000 training "),
        ("--train-size 9 --shots 9", "--train-size: it must come without --shots, but both are "),
        ("--protocol gunel-fewshot", "--protocol gunel-fewshot: a training size must be given."),
        ("--protocol plain --shots 9", "--protocol plain: it trains on all rows, but a training "),
        ("--time-budget soon", "--time-budget soon: it must be a positive number of seconds, or "),
        ("--trial-timeout 0", "--trial-timeout 0: it must be a positive number of seconds, or "),
        ("--configs 0", "--configs: it must be at least 1, but it is 0."),
        ("--study a/b", "--study 'a/b': a name must be letters, digits, '.', '_' and '-', 100 at"),
        ("--text t", "--text: a file of your own must come with --text and --label. Pass both, "),
        ("--metric f1", "--metric: a file of your own must come with --text and --label."),
        ("--task my.csv", "--task: a file's columns must be named, but 'my.csv' comes without "),
        ("--text t --label l --fractions 1,0", "--fractions 1,0: it must be three numbers, as in"),
        ("--storage encoder/config.json", "--storage encoder/config.json: it must be a folder "),
    ],
)
def test_what_cannot_be_searched_is_one_text_with_place_and_remedy(
    sclsearch: Call, place: Path, search: tuple[str, ...], options: str, message: str
) -> None:
    (place / "empty").mkdir()
    done = sclsearch(*search, "--dry-run", *options.split())
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (place / "sclsearch-storage" / "studies").exists()


def test_every_wrong_setting_is_named_at_once(sclsearch: Call, search: tuple[str, ...]) -> None:
    options = ("--set", "tua=1", "--set", "lam=2", "--set", "epochs=many")
    lines = sclsearch(*search, "--dry-run", *options).stderr.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["--set tua", "--set lam", "--set epochs"]


def test_a_published_configuration_outside_its_space_is_refused_with_its_place(
    sclsearch: Call, place: Path, search: tuple[str, ...]
) -> None:
    (place / "mine.yaml").write_text(SPACE.replace("tau: 0.3", "tau: 0.9"))
    done = sclsearch(*search, "--dry-run", "--space", "mine.yaml")
    assert done.returncode == 2
    assert done.stderr == (
        "mine.yaml: published[0]: tau must be from 0.1 to 0.7, but there is 0.9\n"
    )


def test_a_space_of_another_method_is_refused(
    sclsearch: Call, place: Path, search: tuple[str, ...]
) -> None:
    (place / "mine.yaml").write_text(SPACE)
    done = sclsearch(*search, "--dry-run", "--space", "mine.yaml", "--method", "ce")
    assert done.returncode == 2
    assert "mine.yaml: method: must be 'ce', but there is 'scl'\n" in done.stderr


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (None, "glue/CoLA/train.tsv: the file must be there, but it is not.\n"),
        ("s\t1\t\tFine.\ns\t1\tShort.\n", "glue/CoLA/train.tsv: line 2: 4 columns must be there, "),
        (
            "s\t1\t\tFine.\ns\t2\t\tTwo.\n",
            "glue/CoLA/train.tsv: line 2: the label must be one of 0, 1, but it is '2'",
        ),
    ],
    ids=["file", "columns", "label"],
)
def test_data_that_cannot_be_used_is_named_with_file_and_line(
    sclsearch: Call, place: Path, search: tuple[str, ...], train: str | None, message: str
) -> None:
    folder = place / "glue" / "CoLA"
    folder.mkdir(parents=True)
    (folder / "dev.tsv").write_text("s\t1\t\tFine.\n")
    if train is not None:
        (folder / "train.tsv").write_text(train)
    done = sclsearch(*search, "--dry-run", "--task", "cola", "--data-dir", "glue")
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.slow
def test_without_hub_and_data_both_ways_are_told(
    sclsearch: Call, search: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody's cache has these rows, and the tests are offline.
    monkeypatch.setattr(hub, "REPOSITORY", "nobody/has-this")
    done = sclsearch(*search, "--dry-run", "--task", "cola")
    assert done.returncode == 2
    assert "nobody/has-this: cola must be on the hub or in its cache, but: " in done.stderr
    assert "--data-dir FOLDER (or SCLSEARCH_DATA=FOLDER)" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--search-seed 1", "--study mine: search_seed must stay 0, but it is 1. Give another "),
        ("--sampler random", "--study mine: sampler must stay 'tpe', but it is 'random'."),
        (
            "--protocol gunel-full",
            "--study mine: protocol must stay 'plain', but it is 'gunel-full'",
        ),
        ("--set epochs=3", "--study mine: space must stay "),
    ],
)
def test_a_study_that_is_searched_otherwise_is_refused_with_the_name_of_the_field(
    sclsearch: Call, finished: tuple[str, ...], options: str, message: str
) -> None:
    done = sclsearch(*finished, "--dry-run", *options.split())
    assert done.returncode == 2
    assert message in done.stderr


def test_a_dry_run_prints_each_value_with_its_origin_and_writes_no_study(
    sclsearch: Call, place: Path, search: tuple[str, ...]
) -> None:
    options = ("--train-size", "100", "--configs", "6", "--set", "lam=0.5")
    done = sclsearch(*search, "--dry-run", *options)
    assert done.returncode == 0
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for row in (
        "task demo from made by sclsearch",
        f"model ./encoder from {place / 'encoder'}",
        "protocol gunel-fewshot, rule top-3, metric accuracy",
        "rows 100 / 500 / 500 (training / validation / test)",
        "tau 0.1 | 0.3 | 0.5 | 0.7 searched",
        "lam 0.5 --set",
        "learning_rate 1e-05 space",
        f"epochs {few_shot_training(100)['epochs']} protocol",
        "weight_decay 0.1 training",
        "scl_reduction mean_valid method",
    ):
        assert row in rows
    assert (
        "4 configurations x 10 seeds = 40 seed runs; 1 published come first; 0 are in" in rows[-2]
    )
    assert not any((place / "sclsearch-storage").iterdir())


def test_a_dry_run_tells_ranges_and_conditions(
    sclsearch: Call, place: Path, search: tuple[str, ...]
) -> None:
    space = SPACE.replace(
        "tau: {type: float, low: 0.1, high: 0.7}", "epochs: {type: int, low: 1, high: 5}"
    )
    space = space.replace("tau: 0.3", "epochs: 2")
    space += "  tau: {type: log, low: 0.1, high: 0.7, when: {lam: [0.5]}}\n"
    (place / "mine.yaml").write_text(space)
    done = sclsearch(*search, "--dry-run", "--space", "mine.yaml")
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "epochs 1 … 5 int searched" in rows
    assert "tau 0.1 … 0.7 log when lam in [0.5] searched" in rows


def test_a_dry_run_as_json_is_json(sclsearch: Call, place: Path, search: tuple[str, ...]) -> None:
    done = sclsearch(*search, "--dry-run", "--json", "--configs", "6", "--set", "epochs=3")
    planned = json.loads(done.stdout)
    assert planned["fields"]["epochs"] == {"value": 3, "source": "--set"}
    assert planned["searched"]["tau"]["values"] == [0.1, 0.3, 0.5, 0.7]
    assert planned["published"] == [{"tau": 0.3, "lam": 0.9}]
    assert (planned["configurations"], planned["seeds"], planned["stored"]) == (6, 5, 0)
    assert not any((place / "sclsearch-storage").iterdir())


def test_a_dry_run_of_one_configuration_takes_the_published_values(
    sclsearch: Call, search: tuple[str, ...]
) -> None:
    done = sclsearch(*("train", *search[1:], "--dry-run"))
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "tau 0.3 space" in rows
    assert "1 configurations x 5 seeds = 5 seed runs; 0 published come first; 0 are in the" in rows


def test_a_dry_run_counts_what_the_store_has(sclsearch: Call, finished: tuple[str, ...]) -> None:
    done = sclsearch(*finished, "--dry-run")
    text = " ".join(done.stdout.split())
    assert "2 configurations x 2 seeds = 4 seed runs; 1 published come first; 4 are in" in text


def test_a_protocol_that_reports_what_it_selects_by_says_so(
    sclsearch: Call, search: tuple[str, ...]
) -> None:
    done = sclsearch(*search, "--dry-run", "--protocol", "supcl-seq")
    assert "         chosen and reported on the same rows\n" in done.stdout


def test_a_file_of_ones_own_is_a_task(
    sclsearch: Call, place: Path, search: tuple[str, ...]
) -> None:
    rows = "".join(f"text {number},{'good' if number % 2 else 'bad'}\n" for number in range(60))
    (place / "my.csv").write_text(f"review,stars\n{rows}")
    own = (
        "--task",
        "./my.csv",
        "--text",
        "review",
        "--label",
        "stars",
        "--fractions",
        "0.5,0.3,0.2",
    )
    done = sclsearch(*search, "--dry-run", *own, "--metric", "f1")
    assert done.returncode == 0
    assert "protocol plain, rule mean, metric f1\n" in done.stdout
    assert "rows     30 / 18 / 12 (training / validation / test)\n" in done.stdout


def test_a_finished_search_is_read_from_the_store_and_a_failed_seed_is_exit_code_1(
    sclsearch: Call, finished: tuple[str, ...]
) -> None:
    done = sclsearch(*finished)
    assert done.returncode == 1
    assert "Winner #0 tau=0.3 lam=0.9" in done.stdout
    assert "test accuracy 0.6100 ± 0.0141, mean ± std of all 2 seeds" in done.stdout
    assert done.stdout.endswith("\nsclsearch select mine\nsclsearch ui\n")
    assert done.stderr == ""


def test_a_smaller_total_ranks_the_first_and_deletes_nothing(
    sclsearch: Call, place: Path, finished: tuple[str, ...]
) -> None:
    done = sclsearch(*finished, "--configs", "1", "--json")
    assert done.returncode == 0
    assert [line["number"] for line in json.loads(done.stdout)["configurations"]] == [0]
    assert len(list((place / "sclsearch-storage" / "runs").glob("*.json"))) == 4


def test_another_rule_reports_the_same_seed_runs(
    sclsearch: Call, finished: tuple[str, ...]
) -> None:
    found = json.loads(sclsearch(*finished, "--rule", "best", "--json").stdout)
    assert found["rule"] == "best"
    assert found["configurations"][0]["number"] == 1
