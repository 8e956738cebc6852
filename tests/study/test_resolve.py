"""Tests of resolving options to a study: fields with their sources, protocol and space."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.encoders.models import ALIASES
from sclsearch.errors import SclsearchError
from sclsearch.methods.fields import field_validators
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions
from sclsearch.study.study import FieldDefault, Study
from sclsearch.tasks.custom import CustomTask
from tests.workspace import MakeSpec, Resolved, WriteSpace

NOTHING_SEARCHED = "source: a test\npublished: []\nspace: {}\n"
FEW = {"protocol": "cmlm-fewshot", "train_size": 20}


@pytest.fixture(scope="module")
def method_options(write_space: WriteSpace) -> Callable[..., dict[str, Any]]:
    """Return a function that makes the options of a method with an empty search space."""

    def method_options(method: str, fixed: str = "{}") -> dict[str, Any]:
        text = f"method: {method}\n{NOTHING_SEARCHED}fixed: {fixed}\n"
        return {"method": method, "space": write_space(text)}

    return method_options


def names(study: Study) -> tuple[str, str, int]:
    return study.protocol.name, str(study.rule), study.seeds


def test_every_field_has_a_value_and_its_source(resolved: Resolved) -> None:
    study = resolved(settings={"lam": 0.5, "max_length": 32})
    origins = {name: (origin.value, origin.source) for name, origin in study.defaults.items()}
    assert origins["weight_decay"] == (0.1, "training")
    assert origins["scl_features"] == ("mean", "space")
    assert origins["epochs"] == (8, "space")
    assert origins["lam"] == (0.5, "--set")
    assert origins["max_length"] == (32, "--set")
    assert {*origins} == {*field_validators(study.method.kind)}


@pytest.mark.parametrize("method", ["cmlm", "tapt"])
def test_a_few_shot_protocol_overrides_the_epochs_of_the_space(
    resolved: Resolved, method_options: Callable[..., dict[str, Any]], method: str
) -> None:
    defaults = resolved(**method_options(method, "{epochs: 2, post_epochs: 4}"), **FEW).defaults
    assert defaults["epochs"] == FieldDefault(350, "protocol")
    assert defaults["post_epochs"] == FieldDefault(200, "protocol")
    by_hand = resolved(**method_options(method), **FEW, settings={"post_epochs": 7}).defaults
    assert by_hand["post_epochs"] == FieldDefault(7, "--set")


def test_a_protocol_adds_no_fields_that_the_method_lacks(
    resolved: Resolved, method_options: Callable[..., dict[str, Any]]
) -> None:
    study = resolved(**method_options("ce"), **FEW)
    assert study.defaults["epochs"] == FieldDefault(350, "protocol")
    assert {*study.defaults} == {*field_validators(study.method.kind)}


def test_the_space_overrides_a_full_data_protocol(
    resolved: Resolved, method_options: Callable[..., dict[str, Any]]
) -> None:
    space = method_options("cmlm", "{post_learning_rate: 1e-4}")
    defaults = resolved(**space, protocol="cmlm-full").defaults
    assert defaults["learning_rate"] == FieldDefault(1e-3, "space")  # of the tiny encoder
    assert defaults["post_epochs"] == FieldDefault(14, "protocol")  # for 100 updates
    assert defaults["post_learning_rate"] == FieldDefault(1e-4, "space")


def test_the_space_overrides_other_fields_of_few_shot_protocols(
    resolved: Resolved, write_space: WriteSpace
) -> None:
    text = "method: supcl-seq\nsource: a test\npublished: []\nspace: {}\nfixed:\n"
    fixed = {"warmup_ratio": 0.2, "weight_decay": 0.3, "max_grad_norm": 2.0, "probe_epochs": 2}
    listed = "".join(f"  {name}: {value}\n" for name, value in fixed.items())
    own = {"method": "supcl-seq", "space": write_space(text + listed), "train_size": 20}
    for protocol in ("cmlm-fewshot", "lacon-fewshot", "gunel-fewshot"):
        defaults = resolved(**own, protocol=protocol).defaults
        assert {name: defaults[name] for name in fixed} == {
            name: FieldDefault(value, "space") for name, value in fixed.items()
        }


def test_few_shot_epochs_depend_on_the_batch_size_of_the_configuration(
    resolved: Resolved, write_space: WriteSpace
) -> None:
    text = (
        "method: ce\nsource: a test\npublished: [{batch_size: 32}]\n"
        "space: {batch_size: {type: choice, values: [16, 32]}}\n"
    )
    few = {"method": "ce", "space": write_space(text), "train_size": 60}
    study = resolved(**few)
    assert study.fields({"batch_size": 16})["epochs"] == 27
    assert study.fields({"batch_size": 32})["epochs"] == 54
    assert study.fields({"batch_size": 32, "epochs": 3})["epochs"] == 3
    assert resolved(**few, searched=False).fields({})["epochs"] == 54
    assert resolved(**few, settings={"epochs": 7}).fields({"batch_size": 32})["epochs"] == 7


def test_the_published_point_has_the_same_fields_with_and_without_a_search(
    resolved: Resolved, write_space: WriteSpace
) -> None:
    text = (
        "method: cmlm\nsource: a test\npublished: [{epochs: 3, warmup_ratio: 0.2}]\n"
        "fixed: {post_epochs: 4}\n"
        "space:\n  epochs: {type: choice, values: [1, 3, 5]}\n"
        "  warmup_ratio: {type: float, low: 0.0, high: 0.5}\n"
    )
    few = {"method": "cmlm", "space": write_space(text), "train_size": 20}
    search, alone = resolved(**few), resolved(**few, searched=False)
    assert alone.fields({}) == search.fields(search.space.published[0])
    assert alone.defaults["epochs"] == FieldDefault(3, "space")
    assert alone.defaults["post_epochs"] == FieldDefault(200, "protocol")


def test_configuration_values_override_all_other_sources(resolved: Resolved) -> None:
    study = resolved()
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
    resolved: Resolved, changes: dict[str, Any], expected: tuple[str, str, int]
) -> None:
    assert names(resolved(**changes)) == expected


@pytest.mark.parametrize(
    ("method", "expected"),
    [("scl", "gunel-full"), ("ce", "gunel-full"), ("supcl-seq", "supcl-seq")],
)
def test_the_paper_of_the_method_sets_the_protocol_of_a_task_without_one(
    make_spec: MakeSpec, glue: Path, method: str, expected: str
) -> None:
    spec = make_spec(method=method, task="rte", space=None)
    assert resolve(spec, RunOptions(gpus_per_trial=0, data_dir=glue)).protocol.name == expected


def test_seeds_and_rule_options_override_the_protocol(make_spec: MakeSpec) -> None:
    study = resolve(make_spec(shots=10), RunOptions(seeds=5, rule="top-2/best", gpus_per_trial=0))
    assert names(study) == ("gunel-fewshot", "top-2/best", 5)


def test_a_users_files_are_a_task(resolved: Resolved, toy: CustomTask) -> None:
    study = resolved()
    assert study.data.task.name == "toy"
    assert study.data.task.labels == ("n", "y")
    splits = study.splits(0)
    assert [len(rows.index) for rows in (splits.train, splits.validation, splits.test)] == [
        60,
        20,
        20,
    ]
    assert str(toy.path) in study.data.source


def test_a_users_file_named_like_a_built_in_task_is_a_separate_task(
    resolved: Resolved, toy: CustomTask, tmp_path: Path
) -> None:
    path = tmp_path / "mrpc.csv"
    path.write_bytes(toy.path.read_bytes())
    own = {"task": replace(toy, path=path, metric="f1"), "method": "supcl-seq", "space": None}
    few = resolved(**own, protocol="gunel-fewshot", train_size=20)
    assert (few.data.task.name, few.metric) == ("mrpc", "f1")
    assert Path(few.space.file).name == "practical.yaml"


def test_without_a_search_the_first_published_point_is_trained(resolved: Resolved) -> None:
    study = resolved(searched=False, settings={"lam": 0.5})
    assert study.space.parameters == {}
    fields = study.fields({})
    assert (fields["tau"], fields["lam"], fields["learning_rate"]) == (0.3, 0.5, 1e-2)


@pytest.mark.parametrize("method", ["tapt", "cssl"])
@pytest.mark.parametrize(("size", "rate"), [(None, 3e-5), (20, 1e-5)])
def test_without_a_search_the_protocol_selects_the_published_point(
    resolved: Resolved, write_space: WriteSpace, method: str, size: int | None, rate: float
) -> None:
    points = "[{post_learning_rate: 1.0e-5}, {post_learning_rate: 3.0e-5}]"
    space = write_space(
        f"method: {method}\nsource: a test\npublished: {points}\n"
        "space:\n  post_learning_rate: {type: choice, values: [1.0e-5, 3.0e-5]}\n"
    )
    protocol = {None: "cmlm-full", 20: "cmlm-fewshot"}[size]
    given = {"method": method, "space": space, "train_size": size, "protocol": protocol}
    study = resolved(**given, searched=False)
    assert study.fields({})["post_learning_rate"] == rate


def test_a_field_set_by_option_is_not_searched(resolved: Resolved) -> None:
    study = resolved(settings={"lam": 0.5})
    assert {*study.space.parameters} == {"tau", "learning_rate"}
    assert study.space.published == ({"tau": 0.3, "learning_rate": 1e-2},)


@pytest.mark.parametrize("method", ["ce", "scl", "ce-cl"])
@pytest.mark.parametrize("protocol", ["lacon", "supcl-seq", "supcl-seq-heldout", "gunel-full"])
def test_baselines_of_bert_read_its_pretrained_pooler(
    resolved: Resolved, tiny_bert: Path, tiny_roberta: Path, method: str, protocol: str
) -> None:
    own_space = {"method": method, "protocol": protocol, "space": "paper"}

    def pooling(model: Path, **settings: object) -> FieldDefault:
        study = resolved(**own_space, model=str(model), settings=settings)
        noted = any(note.startswith("pooling: cls_pooled") for note in study.notes)
        default = study.defaults["pooling"]
        assert noted == (default.source == "protocol")
        assert study.fields({})["pooling"] == default.value
        return default

    own = FieldDefault("head_hidden", "method")
    pooler = own if protocol == "gunel-full" else FieldDefault("cls_pooled", "protocol")
    assert pooling(tiny_bert) == pooler
    assert pooling(tiny_roberta) == own  # its checkpoint has no pooler
    assert pooling(tiny_bert, pooling="mean") == FieldDefault("mean", "--set")
    assert pooling(tiny_bert, pooling="head_hidden") == FieldDefault("head_hidden", "--set")


def test_lacon_reads_the_cls_state_without_the_pooler(resolved: Resolved, tiny_bert: Path) -> None:
    study = resolved(method="lacon", protocol="lacon", space="paper", model=str(tiny_bert))
    assert study.defaults["pooling"] == FieldDefault("cls_raw", "method")


@pytest.mark.parametrize("method", ["ce", "scl", "lacon"])
def test_the_same_bytes_give_the_same_study_under_every_path(
    resolved: Resolved, tiny_encoder: Path, tmp_path: Path, method: str
) -> None:
    folder = shutil.copytree(tiny_encoder, tmp_path / "bert-large")
    options: dict[str, Any] = {"method": method, "space": None, "task": "demo"}
    one, other = (resolved(model=str(path), **options) for path in (tiny_encoder, folder))
    assert one.default_name() == other.default_name()
    assert one.space == other.space
    assert one.seed_run_spec({}, 0).key == other.seed_run_spec({}, 0).key


def test_an_own_task_has_the_practical_space_with_the_length_of_its_texts(
    resolved: Resolved, toy: CustomTask
) -> None:
    study = resolved(task=toy, space=None)
    assert study.space.note == "practical, because the task is not a paper's"
    assert study.fields({})["max_length"] == 16
    few = resolved(task=toy, space=None, protocol="gunel-fewshot", train_size=20)
    assert few.fields({})["epochs"] == 80


@pytest.fixture
def papers_are_tiny(monkeypatch: pytest.MonkeyPatch, glue: Path) -> None:
    """Let every paper's encoder have the size of the tiny BERT, and find the data of GLUE."""
    papers = {name: replace(alias, width=16, layers=2) for name, alias in ALIASES.items()}
    monkeypatch.setattr("sclsearch.study.resolve.ALIASES", papers)
    monkeypatch.setenv("SCLSEARCH_DATA", str(glue))


@pytest.mark.usefixtures("papers_are_tiny")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"protocol": "supcl-seq"}, "encoder, task and amount of data are the paper's"),
        ({"protocol": "gunel-fewshot", "train_size": 20}, "amount of data are the paper's"),
        ({"protocol": "gunel-fewshot", "train_size": 50}, "amount of data is not the paper's"),
        ({"protocol": "plain"}, "the task is not a paper's"),
    ],
)
def test_only_the_papers_encoder_task_and_size_have_the_papers_space(
    resolved: Resolved, tiny_bert: Path, options: dict[str, Any], reason: str
) -> None:
    study = resolved(task="rte", method="ce", space=None, model=str(tiny_bert), **options)
    assert reason in study.space.note
    of_paper = "are the paper's" in reason
    assert study.space.practical != of_paper
    assert study.space.start == ("published" if of_paper else "start")


def test_another_encoder_than_the_papers_has_the_practical_space(
    resolved: Resolved, glue: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCLSEARCH_DATA", str(glue))
    options: dict[str, Any] = {"task": "rte", "method": "scl", "model": str(tiny_bert)}
    assert resolved(space=None, **options).space.note == (
        "practical, because the encoder has 2 layers of width 16, and roberta-large of protocol "
        "gunel-full has 24 of width 1024"
    )
    paper = resolved(space="paper", **options).space.note
    assert paper.startswith("Gunel et al. 2021, section 4;")
    assert ", as --space says; it may not fit, because the encoder has 2 layers" in paper


def test_a_users_space_leaves_to_the_encoder_and_the_texts_what_it_does_not_set(
    resolved: Resolved, toy: CustomTask, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "method: scl\nsource: mine\npublished: []\nfixed: {batch_size: 8}\n"
        "space:\n  tau: {type: log, low: 0.02, high: 0.5}\n"
    )
    own, usual = (resolved(task=toy, method="scl", space=space) for space in (file, None))
    for name in ("max_length", "pooling"):
        assert own.fields({"tau": 0.1})[name] == usual.fields({})[name]
    assert own.fields({"tau": 0.1})["learning_rate"] == usual.space.published[0]["learning_rate"]
    assert own.protocol.training(20, 8) == usual.protocol.training(20, 8)
    file.write_text(file.read_text().replace("batch_size: 8", "batch_size: 8, max_length: 9"))
    assert resolved(task=toy, method="scl", space=file).fields({"tau": 0.1})["max_length"] == 9


def test_a_space_that_is_no_file_is_refused(resolved: Resolved) -> None:
    with pytest.raises(SclsearchError, match=r"^--space papr: must be practical, paper or a YAML"):
        resolved(space=Path("papr"))
