"""Options become a study whose every value has an origin, or an error with place and remedy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.search.options import How, What
from sclsearch.search.plan import plan
from sclsearch.search.prepare import Prepared
from sclsearch.search.resolve import resolve, storage_folder
from sclsearch.search.study import Origin, Study
from sclsearch.tasks.own import OwnFiles

Asked = Callable[..., What]
Preparing = Callable[..., Prepared]
CPU = How(gpus_per_trial=0)


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def names(study: Study) -> tuple[str, str, int]:
    return study.protocol.name, str(study.rule), study.seeds


def test_every_field_has_a_value_and_the_last_that_set_it(asked: Asked) -> None:
    study = resolve(asked(settings={"lam": 0.5, "max_length": 32}), CPU)
    origins = {name: (origin.value, origin.source) for name, origin in study.defaults.items()}
    assert origins["weight_decay"] == (0.1, "training")
    assert origins["scl_features"] == ("cls_raw", "method")
    assert origins["epochs"] == (8, "space")
    assert origins["lam"] == (0.5, "--set")
    assert origins["max_length"] == (32, "--set")
    assert {*origins} == {*study.fields({})}


def test_a_few_shot_protocol_knows_the_epochs_better_than_method_and_space(
    asked: Asked, tmp_path: Path
) -> None:
    text = "method: supcl-seq\nsource: a test\npublished: []\nspace: {}\nfixed: {epochs: 3}\n"
    own = {"method": "supcl-seq", "space": written(tmp_path, text)}
    few = {**own, "protocol": "gunel-fewshot", "train_size": 40}
    told = PROTOCOLS["gunel-fewshot"].training(40)["epochs"]
    study = resolve(asked(**few), CPU)
    assert told not in {3, study.method.training["epochs"]}
    assert study.defaults["epochs"] == Origin(told, "protocol")
    assert study.defaults["batch_size"].source == "method"
    assert resolve(asked(**own), CPU).defaults["epochs"] == Origin(3, "space")
    by_hand = resolve(asked(**few, settings={"epochs": 7}), CPU)
    assert by_hand.defaults["epochs"] == Origin(7, "--set")


def test_a_value_of_the_configuration_stands_above_all(asked: Asked) -> None:
    study = resolve(asked(), CPU)
    assert study.fields({"lam": 0.5, "tau": 0.1, "learning_rate": 1e-3})["tau"] == 0.1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("plain", "mean", 5)),
        ({"task": "demo"}, ("plain", "mean", 5)),
        ({"train_size": 20}, ("gunel-fewshot", "top-3", 10)),
        ({"shots": 10}, ("gunel-fewshot", "top-3", 10)),
        ({"protocol": "gunel-full"}, ("gunel-full", "mean/best", 10)),
        ({"protocol": "supcl-seq"}, ("supcl-seq", "mean", 5)),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else value[0],
)
def test_size_and_task_choose_the_protocol(
    asked: Asked, changes: dict[str, Any], expected: tuple[str, str, int]
) -> None:
    assert names(resolve(asked(**changes), CPU)) == expected


@pytest.mark.parametrize(
    ("method", "expected"),
    [("scl", "gunel-full"), ("ce", "gunel-full"), ("supcl-seq", "supcl-seq")],
)
def test_a_paper_chooses_the_protocol_of_a_task_that_has_none(
    asked: Asked, glue: Path, method: str, expected: str
) -> None:
    what = asked(method=method, task="rte", space=None)
    assert resolve(what, How(gpus_per_trial=0, data_dir=glue)).protocol.name == expected


def test_seeds_and_rule_replace_the_protocols(asked: Asked) -> None:
    study = resolve(asked(shots=10), How(seeds=5, rule="top-2/best", gpus_per_trial=0))
    assert names(study) == ("gunel-fewshot", "top-2/best", 5)


def test_a_users_own_files_are_a_task(asked: Asked, toy: OwnFiles) -> None:
    study = resolve(asked(), CPU)
    assert study.data.task.name == "toy"
    assert study.data.task.labels == ("n", "y")
    parts = study.parts(0)
    assert [len(rows.index) for rows in (parts.train, parts.validation, parts.test)] == [60, 20, 20]
    assert str(toy.path) in study.data.source


def test_without_a_search_the_first_published_point_is_trained(asked: Asked) -> None:
    study = resolve(asked(searched=False, settings={"lam": 0.5}), CPU)
    assert study.space.parameters == {}
    fields = study.fields({})
    assert (fields["tau"], fields["lam"], fields["learning_rate"]) == (0.3, 0.5, 1e-2)


def test_what_is_set_is_not_searched(asked: Asked) -> None:
    study = resolve(asked(settings={"lam": 0.5}), CPU)
    assert {*study.space.parameters} == {"tau", "learning_rate"}
    assert study.space.published == ({"tau": 0.3, "learning_rate": 1e-2},)


ERRORS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "two sizes",
        {"train_size": 20, "shots": 5},
        {},
        "--train-size: it must come without --shots, but both are given. Give the number",
    ),
    (
        "a size on full data",
        {"train_size": 20, "protocol": "gunel-full"},
        {},
        "--protocol gunel-full: it trains on all rows, but a training size is given. Leave out "
        "the size, or take --protocol gunel-fewshot.",
    ),
    (
        "few shots without a size",
        {"protocol": "gunel-fewshot"},
        {},
        "--protocol gunel-fewshot: a training size must be given. Pass --train-size N, in total, "
        "or --shots K, of each class.",
    ),
    ("protocol", {"protocol": "gunel-ful"}, {}, "Unknown protocol 'gunel-ful'. Did you mean"),
    ("method", {"method": "sc1"}, {}, "Unknown method 'sc1'. Did you mean 'scl'? Known: ce"),
    ("task", {"task": "colla"}, {}, "Unknown task 'colla'. Did you mean 'cola'?"),
    ("a file as a name", {"task": "mine.csv"}, {}, "Pass --text COLUMN"),
    ("set unknown", {"settings": {"tua": 1}}, {}, "--set tua: unknown key. Did you mean 'tau'?"),
    (
        "set out of bounds",
        {"settings": {"lam": 1.5, "tau": 0}},
        {},
        "--set lam: input should be less than or equal to 1, but there is 1.5\n"
        "--set tau: input should be greater than 0, but there is 0",
    ),
    ("rule", {}, {"rule": "median"}, "Unknown rule 'median'. It must be mean, best, top-K"),
    (
        "few seeds",
        {"shots": 5},
        {"seeds": 2},
        "--seeds: rule top-3 needs at least 3 seeds, but there are 2. Give more seeds or another",
    ),
    ("no seeds", {}, {"seeds": 0}, "--seeds: rule mean needs at least 1 seeds, but there are 0."),
    (
        "grid over a range",
        {"sampler": "grid"},
        {},
        "space.learning_rate: a grid needs values to choose from, but there is a range",
    ),
    ("model", {"model": "./none"}, {}, "--model ./none: it must be an alias, a folder, or owner/"),
    (
        "unknown encoder",
        {"model": "no-such-encoder"},
        {},
        "--model no-such-encoder: it must be an alias, a folder, or owner/name on the hub",
    ),
    ("no configuration", {}, {"configs": 0}, "--configs: it must be at least 1, but it is 0."),
]


@pytest.mark.parametrize(
    ("what", "how", "message"), [case[1:] for case in ERRORS], ids=[case[0] for case in ERRORS]
)
def test_what_is_wrong_is_said_with_its_place_and_the_way_out(
    asked: Asked,
    preparing: Preparing,
    what: dict[str, Any],
    how: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(SclsearchError) as raised:
        preparing(asked(**what), **{"seeds": None, **how})
    assert message in str(raised.value)


def test_a_method_that_needs_classes_refuses_scores(asked: Asked, tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("text,label\n" + "".join(f"it was {n},{n / 7}\n" for n in range(40)))
    files = OwnFiles(path, text=("text",), label="label", regression=True)
    with pytest.raises(SclsearchError, match=r"^--method scl: it needs a task of classes, but sco"):
        resolve(asked(task=files), CPU)
    study = resolve(asked(task=files, method="ce", space=None), CPU)
    assert study.metric == "pearson"
    with pytest.raises(SclsearchError, match=r"^batch_sampling: 'balanced' needs classes, but sc"):
        resolve(
            asked(task=files, method="ce", space=None, settings={"batch_sampling": "balanced"}), CPU
        )


def test_a_space_file_must_be_of_the_method(asked: Asked, tmp_path: Path) -> None:
    path = written(tmp_path, "method: ce\nsource: a test\npublished: []\nspace: {}\n")
    with pytest.raises(
        SclsearchError, match=r"mine.yaml: method: .*must be '?scl'?.* but .*'?ce'?"
    ):
        resolve(asked(space=path), CPU)


def test_lengths_are_tokenised_one_by_one_so_a_range_of_them_is_refused(
    asked: Asked, tmp_path: Path
) -> None:
    head = "method: scl\nsource: a test\npublished: []\nspace:\n"
    choice = written(tmp_path, f"{head}  max_length: {{type: choice, values: [32, 16]}}\n")
    assert {16, 32} <= {*resolve(asked(space=choice), CPU).lengths()}
    assert resolve(asked(space=choice, settings={"max_length": 8}), CPU).lengths() == (8,)
    whole = written(tmp_path, f"{head}  max_length: {{type: int, low: 8, high: 16}}\n")
    with pytest.raises(SclsearchError, match=r"space.max_length: it must be a choice, .* a range"):
        resolve(asked(space=whole), CPU)


def test_a_storage_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SclsearchError, match=r"^--storage .*file/storage: it must be a folder"):
        storage_folder(tmp_path / "file" / "storage")


def test_the_name_is_made_from_the_identity_and_of_nothing_else(asked: Asked) -> None:
    name = resolve(asked(), CPU).default_name
    assert name.startswith("scl-toy-")
    how = How(gpus_per_trial=0, seeds=2, rule="best", concurrency=7, time_budget=1.0, configs=3)
    assert resolve(asked(), how).default_name == name


@pytest.mark.parametrize(
    "changes",
    [
        {"search_seed": 1},
        {"sampler": "random"},
        {"settings": {"epochs": 2}},
        {"protocol": "supcl-seq"},
        {"train_size": 20},
        {"searched": False},
    ],
    ids=str,
)
def test_another_identity_has_another_name_and_is_refused_under_the_same(
    asked: Asked, preparing: Preparing, changes: dict[str, Any]
) -> None:
    before = preparing(study="mine")
    before.store.create(before.record)
    changed = asked(**changes)
    assert resolve(changed, CPU).default_name != before.study.default_name
    with pytest.raises(SclsearchError, match=r"^--study mine: \w+ must stay .* Give another --stu"):
        preparing(changed, study="mine", seeds=None)


def test_a_study_of_the_same_identity_goes_on_with_its_record(preparing: Preparing) -> None:
    before = preparing(study="mine")
    before.store.create(before.record)
    assert preparing(study="mine", seeds=3, configs=9).record == before.record


def test_a_plan_says_values_origins_rows_and_what_is_stored(
    asked: Asked, tmp_path: Path, tiny_bert: Path
) -> None:
    what = asked(settings={"lam": 0.5})
    planned = plan(what, How(storage=tmp_path, gpus_per_trial=0, configs=3, seeds=2))
    assert planned.rows == (60, 20, 20)
    assert planned.model == (str(tiny_bert), str(tiny_bert))
    assert (planned.protocol, planned.rule, planned.metric) == ("plain", "mean", "accuracy")
    assert {*planned.searched} == {"tau", "learning_rate"}
    assert planned.fields["lam"].source == "--set"
    assert not {*planned.searched} & {*planned.fields}
    assert (planned.configurations, planned.seeds, planned.seed_runs, planned.stored) == (
        3,
        2,
        6,
        0,
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_spaces_note_reaches_the_record(
    asked: Asked, preparing: Preparing, tmp_path: Path
) -> None:
    path = written(
        tmp_path, "method: scl\nsource: a test\nnote: made up\npublished: []\nspace: {}\n"
    )
    assert preparing(asked(space=path)).record.origin["space_note"] == "made up"
