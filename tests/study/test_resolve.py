"""Tests of resolving options to a study: fields with their sources, protocol, space and errors."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.encoders.models import ALIASES
from sclsearch.errors import SclsearchError
from sclsearch.methods.fields import field_types
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions
from sclsearch.study.study import FieldDefault
from sclsearch.tasks.custom import CustomTask
from tests.studies import MakeSpec, Prepare, Resolved

FEW = {"protocol": "cmlm-fewshot", "train_size": 20}

Own = Callable[..., dict[str, Any]]


@pytest.fixture
def own(tmp_path: Path) -> Own:
    """Return a function that makes the options of a method with a user's space."""

    def own(method: str, fixed: str = "{}", published: str = "[]", space: str = "{}") -> Any:
        text = f"method: {method}\nsource: a test\npublished: {published}\nfixed: {fixed}\n"
        path = tmp_path / f"{len([*tmp_path.iterdir()])}.yaml"
        path.write_text(f"{text}space: {space}\n", encoding="utf-8")
        return {"method": method, "space": path}

    return own


@pytest.fixture
def with_glue(glue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let studies find the data of GLUE."""
    monkeypatch.setenv("SCLSEARCH_DATA", str(glue))


def test_every_field_has_a_value_and_its_source(resolved: Resolved) -> None:
    study = resolved(settings={"lam": 0.5, "max_length": 32})
    origins = {name: (origin.value, origin.source) for name, origin in study.defaults.items()}
    assert origins["weight_decay"] == (0.1, "training")
    assert origins["scl_features"] == ("mean", "space")
    assert origins["epochs"] == (8, "space")
    assert origins["lam"] == (0.5, "--set")
    assert origins["max_length"] == (32, "--set")
    assert {*study.space.parameters} == {"tau", "learning_rate"}
    assert study.fields({"tau": 0.1, "learning_rate": 1e-3})["tau"] == 0.1


def test_few_shot_protocols_set_the_epochs_and_a_space_overrides_other_fields_of_protocols(
    resolved: Resolved, own: Own
) -> None:
    def defaults(method: str, fixed: str, **options: Any) -> dict[str, tuple[object, str]]:
        study = resolved(**own(method, fixed), **options)
        assert {*study.defaults} == {*field_types(study.method.kind)}
        return {name: (one.value, one.source) for name, one in study.defaults.items()}

    few = defaults("cmlm", "{epochs: 2, post_epochs: 4}", **FEW)
    assert (few["epochs"], few["post_epochs"]) == ((350, "protocol"), (200, "protocol"))
    own_epochs = defaults("tapt", "{}", **FEW, settings={"post_epochs": 7})
    assert own_epochs["post_epochs"] == (7, "--set")
    warm = defaults("supcl-seq", "{warmup_ratio: 0.2}", **FEW)
    assert warm["warmup_ratio"] == (0.2, "space")
    full = defaults("cmlm", "{post_learning_rate: 1e-4}", protocol="cmlm-full")
    assert full["learning_rate"] == (1e-3, "space")  # of the tiny encoder
    assert full["post_learning_rate"] == (1e-4, "space")


def test_each_batch_size_of_a_practical_space_gets_at_least_100_updates(
    resolved: Resolved, own: Own
) -> None:
    study = resolved(method="supcl-seq", protocol="supcl-seq", space="practical")
    assert [study.fields({"batch_size": size})["epochs"] for size in (16, 32, 512)] == [27, 54, 100]
    full = resolved(**own("cmlm", "{post_learning_rate: 1e-4}"), protocol="cmlm-full")
    assert full.fields({})["post_epochs"] == 14
    by_hand = resolved(method="scl", protocol="plain", settings={"epochs": 2}, space="practical")
    assert by_hand.fields({"batch_size": 512})["epochs"] == 2


def test_few_shot_epochs_depend_on_the_batch_size_of_the_configuration(
    resolved: Resolved, own: Own
) -> None:
    sizes = "{batch_size: {type: choice, values: [16, 32]}}"
    few = {**own("ce", published="[{batch_size: 32}]", space=sizes), "train_size": 60}
    study = resolved(**few)
    assert study.fields({"batch_size": 16})["epochs"] == 27
    assert study.fields({"batch_size": 32})["epochs"] == 54
    assert study.fields({"batch_size": 32, "epochs": 3})["epochs"] == 3
    assert resolved(**few, searched=False).fields({})["epochs"] == 54
    assert resolved(**few, settings={"epochs": 7}).fields({"batch_size": 32})["epochs"] == 7


def test_without_a_search_the_protocol_selects_the_published_point(
    resolved: Resolved, own: Own
) -> None:
    points = "[{post_learning_rate: 1.0e-5}, {post_learning_rate: 3.0e-5}]"
    space = "{post_learning_rate: {type: choice, values: [1.0e-5, 3.0e-5]}}"
    tapt = {**own("tapt", published=points, space=space), "searched": False}
    few, full = resolved(**tapt, **FEW), resolved(**tapt, protocol="cmlm-full")
    assert few.fields({})["post_learning_rate"] == 1e-5
    assert full.fields({})["post_learning_rate"] == 3e-5


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        ({}, {}, ("plain", "mean", 5)),
        ({"task": "demo"}, {}, ("plain", "mean", 5)),
        ({"train_size": 20}, {}, ("gunel-fewshot", "top-3", 10)),
        ({"shots": 10}, {"seeds": 5, "rule": "top-2/best"}, ("gunel-fewshot", "top-2/best", 5)),
        ({"protocol": "gunel-full"}, {}, ("gunel-full", "mean/best", 10)),
    ],
)
def test_size_task_and_options_choose_protocol_rule_and_seeds(
    make_spec: MakeSpec, changes: Any, options: Any, expected: tuple[str, str, int]
) -> None:
    study = resolve(make_spec(**changes), RunOptions(**options, gpus_per_trial=0))
    assert (study.protocol.name, str(study.rule), study.seeds) == expected


def test_a_users_file_named_like_a_built_in_task_is_a_separate_task(
    resolved: Resolved, toy: CustomTask, tmp_path: Path
) -> None:
    path = tmp_path / "mrpc.csv"
    path.write_bytes(toy.path.read_bytes())
    few = {"protocol": "gunel-fewshot", "train_size": 20, "method": "supcl-seq", "space": None}
    study = resolved(task=replace(toy, path=path), metric="f1", **few)
    assert (study.data.task.name, study.metric) == ("mrpc", "f1")
    assert study.space.note == "practical, because the task is not a paper's"
    assert study.fields({})["max_length"] == 16  # the length of the texts


def test_a_metric_that_misleads_is_noted_and_one_that_does_not_fit_is_refused(
    resolved: Resolved, toy: CustomTask, tmp_path: Path
) -> None:
    path = tmp_path / "rare.csv"
    rows = [f"row {n},{int(n % 5 < 1)}\n" for n in range(99)]
    path.write_text("".join(["text,label\n", *rows]))
    task = CustomTask(path)
    assert resolved(task=task).notes[0].startswith("80% of the training rows are '0'")
    assert resolved(task=task, metric="roc_auc").notes == []
    assert resolved(task=task, metric="f2").notes == ["f2 is of the class '1', the last by name"]
    with pytest.raises(SclsearchError, match="metric 'pearson' needs scores"):
        resolved(task=toy, metric="pearson")
    assert resolved(task="demo", metric="mcc").notes[0].startswith("metric: mcc, not the usual acc")


@pytest.mark.parametrize("method", ["ce", "scl", "ce-cl"])
@pytest.mark.parametrize("protocol", ["lacon", "supcl-seq-heldout", "gunel-full"])
def test_baselines_of_bert_read_its_pretrained_pooler(
    resolved: Resolved, tiny_bert: Path, tiny_roberta: Path, method: str, protocol: str
) -> None:
    def pooling(model: Path, **settings: object) -> FieldDefault:
        options = {"method": method, "protocol": protocol, "space": "paper"}
        study = resolved(**options, model=str(model), settings=settings)
        noted = any(note.startswith("pooling: cls_pooled") for note in study.notes)
        default = study.defaults["pooling"]
        assert noted == (default.source == "protocol")
        assert study.fields({})["pooling"] == default.value
        return default

    head = FieldDefault("head_hidden", "method")
    pooler = head if protocol == "gunel-full" else FieldDefault("cls_pooled", "protocol")
    assert pooling(tiny_bert) == pooler
    assert pooling(tiny_roberta) == head  # its checkpoint has no pooler
    assert pooling(tiny_bert, pooling="head_hidden") == FieldDefault("head_hidden", "--set")


@pytest.mark.usefixtures("with_glue")
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
    resolved: Resolved, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], reason: str
) -> None:
    given = {"task": "rte", "method": "ce", **options}
    assert resolved(**given, space=None).space.practical
    paper = resolved(**given, space="paper").space.note
    if options["protocol"] != "plain":
        assert "it may not fit, because the encoder has 2 layers" in paper
    papers = {name: replace(alias, width=16, layers=2) for name, alias in ALIASES.items()}
    monkeypatch.setattr("sclsearch.study.resolve.ALIASES", papers)
    space = resolved(**given, space=None).space
    assert reason in space.note
    of_paper = "are the paper's" in reason
    assert space.practical != of_paper
    assert space.start == ("published" if of_paper else "start")


def test_max_length_may_be_a_choice_but_not_a_range(resolved: Resolved, own: Own) -> None:
    choice = own("scl", space="{max_length: {type: choice, values: [32, 16]}}")
    assert resolved(**choice).lengths() == (16, 32)
    assert resolved(**choice, settings={"max_length": 8}).lengths() == (8,)
    whole = own("scl", space="{max_length: {type: float, low: 8, high: 16}}")
    with pytest.raises(
        SclsearchError, match=r"space.max_length.float: must be the bounds of a float"
    ):
        resolved(**whole)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"train_size": 20, "protocol": "gunel-full"},
            "--protocol gunel-full: trains on all rows, got a training size",
        ),
        ({"unlabeled": 4, "method": "tapt", "space": None}, "--unlabeled 4: needs a training size"),
        ({"unlabeled": 40, **FEW}, "--unlabeled 40: scl has no stage without labels"),
        (
            {"unlabeled": 40, "train_size": 20, "protocol": "gunel-noisy"},
            "cannot be combined with --protocol gunel-noisy",
        ),
        (
            {"method": "lacon", "space": None, "settings": {"class_weights": "balanced"}},
            "class_weights: 'balanced' weights a cross-entropy, but lacon has none",
        ),
        ({"paraphrases": Path("mine.jsonl")}, "neither scl nor plain reads paraphrases"),
        ({"sampler": "grid"}, "--sampler grid: needs choices, but learning_rate in"),
        ({"sampler": "mine.py:tpe"}, "--sampler mine.py:tpe: there is no file mine.py"),
        (
            {"sampler": "grid", "search_seed": 5, "settings": {"learning_rate": 1e-3}},
            "--search-seed 5: has no effect on --sampler grid",
        ),
    ],
)
def test_options_that_do_not_fit_together_are_an_error(
    resolved: Resolved, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SclsearchError) as raised:
        resolved(**changes)
    assert message in str(raised.value)


def test_the_default_name_depends_only_on_the_identity(
    make_spec: MakeSpec, resolved: Resolved
) -> None:
    name = resolved().default_name()
    assert name.startswith("scl-toy-")
    options = RunOptions(gpus_per_trial=0, seeds=2, rule="best", concurrency=7, configs=3)
    assert resolve(make_spec(), options).default_name() == name
    whole, real = (resolved(settings={"tau": tau}) for tau in (1, 1.0))
    assert whole.default_name() == real.default_name() != name
    changes: list[dict[str, Any]] = [{"search_seed": 1}, {"sampler": "random"}, {"train_size": 20}]
    changes += [{"settings": {"epochs": 2}}, {"searched": False}]
    changes += [{"protocol": name} for name in ("supcl-seq", "supcl-seq-heldout")]
    assert len({name, *(resolved(**one).default_name() for one in changes)}) == 1 + len(changes)


def test_the_same_bytes_give_the_same_study_under_every_path(
    make_spec: MakeSpec,
    prepare: Prepare,
    tiny_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = shutil.copytree(tiny_encoder, tmp_path / "bert-large")
    options = {"method": "lacon", "space": None}
    before = prepare(make_spec(model=tiny_encoder, **options)).begin()
    elsewhere = prepare(make_spec(model=str(copy), **options))
    assert elsewhere.name == before.name
    assert elsewhere.study.space == before.study.space
    assert elsewhere.next() == before.next()
    monkeypatch.chdir(tiny_encoder.parent)
    after = prepare(make_spec(model=f"./{tiny_encoder.name}", **options))
    assert after.record == before.record


@pytest.mark.parametrize("stem", ["отзывы", "_", "long" * 40])
def test_every_file_name_gives_a_valid_study_name(
    prepare: Prepare, make_spec: MakeSpec, toy: CustomTask, tmp_path: Path, stem: str
) -> None:
    file = tmp_path / f"{stem}.csv"
    file.write_bytes(toy.path.read_bytes())
    prepared = prepare(make_spec(task=replace(toy, path=file)))
    assert prepared.name == prepared.study.default_name()
