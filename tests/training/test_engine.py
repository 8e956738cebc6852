"""Tests of the training of one seed run: reproducibility, learning, stages, custom methods."""

import runpy
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from sclsearch.encoders.load import load_encoder, load_tokenizer
from sclsearch.encoders.savings import Packing, SubsetEmbedding
from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.base import Batch, Method, Model, Terms
from sclsearch.methods.custom import load_custom_method
from sclsearch.methods.scl import SCL
from sclsearch.protocols.base import Rows, Splits
from sclsearch.protocols.papers import plain_rows
from sclsearch.randomness import stream
from sclsearch.tasks.base import Split, TaskData
from sclsearch.tasks.metrics import value
from sclsearch.tasks.paraphrases import paraphrase_source
from sclsearch.training.data import join, occurring, tokenize_task
from sclsearch.training.engine import train
from sclsearch.training.evaluation import NonFiniteLossError, TrainingResult, save_tensors
from tests.conftest import SIZES, Save
from tests.studies import same_weights
from tests.training.conftest import Trained, Work, WorkFor, identical

MAJORITY = 0.6


def on_rows(work: Work, count: int) -> Work:
    """Return the work with the first training rows alone."""
    return work.but(splits=replace(work.spec.splits, train=Rows("train", np.arange(count))))


def test_a_seed_run_is_reproducible_to_the_bit(
    work_for: WorkFor, trained: Trained, method: str
) -> None:
    torch.manual_seed(4711)
    assert identical(train(*work_for(method)), trained(method))
    assert not identical(trained(method, 1), trained(method))


def test_each_seed_of_a_replicate_but_that_of_the_drawn_rows_affects_the_training(
    work_for: WorkFor,
) -> None:
    work = work_for("ce", epochs=1)
    for seed in ("initialization", "order", "noise", "subset"):
        other = work.but(replicate=replace(work.spec.replicate, **{seed: 7}))
        assert identical(train(*other), train(*work)) == (seed == "subset")


def test_training_lowers_the_loss_and_beats_the_majority_class(
    trained: Trained, method: str
) -> None:
    result = trained(method)
    evaluations: list[Any] = result.evaluations
    solved = method == "setfit"  # its last stage has no loss and one evaluation
    trained_on: list[Any] = result.stages if solved else evaluations
    sums = [sum(one["loss"].values()) for one in trained_on]
    assert sums[-1] < 0.8 * sums[0]
    assert max(value("accuracy", one["validation"]) for one in evaluations) > MAJORITY + 0.2
    if solved:
        assert (len(evaluations), evaluations[0]["update"]) == (1, 60)
        return
    assert [one["epoch"] for one in evaluations] == [n + 1.0 for n in range(len(evaluations))]
    assert [one["update"] for one in evaluations] == [6 * (n + 1) for n in range(len(evaluations))]


def test_patience_ends_the_training_after_evaluations_without_a_better_one(
    work_for: WorkFor,
) -> None:
    changes: Any = {"epochs": 16, "learning_rate": 0.005}
    whole, short = (train(*work_for("ce", patience=n, **changes)) for n in (0, 2))
    found: list[Any] = short.evaluations
    ended = len(found)
    assert short.kept + 3 == ended < len(whole.evaluations)
    assert found == whole.evaluations[:ended]
    loss = [-one["validation"]["log_loss"] for one in found]
    score = [value("accuracy", one["validation"]) for one in found]
    ranks = list(zip(score, loss, strict=True))
    assert short.kept == max(range(ended), key=ranks.__getitem__)
    best = [max(ranks[: n + 1]) for n in range(ended)]
    assert all(best[n - 2] < best[n] for n in range(2, ended - 1)), "it would have ended earlier"


def test_a_metric_of_probabilities_chooses_the_checkpoint(work_for: WorkFor) -> None:
    spec, tokens = work_for("ce", epochs=8)
    spec = replace(spec, metric="roc_auc")
    result = train(spec, tokens)
    found: list[Any] = [one["validation"] for one in result.evaluations]
    kept = found[result.kept]["roc_auc"]
    assert kept == max(one["roc_auc"] for one in found) > min(one["roc_auc"] for one in found)
    for rows in ("validation", "test"):
        index = getattr(spec.splits, rows)
        y = tokens[index.split].y[index.index]
        stored: Any = result.test if rows == "test" else found[result.kept]
        expected = roc_auc_score(y, result.probabilities[rows][:, 1])
        assert value("roc_auc", stored) == pytest.approx(expected)


@pytest.mark.parametrize("name", [name for name in METHODS if method_class(name).regression])
def test_regression_methods_learn_scores(work_for: WorkFor, toy: TaskData, name: str) -> None:
    splits = {
        name: replace(split, y=split.y + 0.2 * stream(1, name).random(len(split)))
        for name, split in toy.splits.items()
    }
    scores = TaskData(replace(toy.task, labels=(), metric="pearson"), splits, "memory")
    reported: list[Any] = []
    shares: list[float] = []

    def report(share: float, evaluation: Any = None) -> None:
        shares.append(share)
        reported.extend([] if evaluation is None else [evaluation])

    result = train(*work_for(name, data=scores, epochs=12), report=report)
    evaluations: list[Any] = result.evaluations
    assert reported == evaluations
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.5
    assert shares[-1] == 1
    assert set(evaluations[0]["validation"]) == {"pearson", "spearman", "mse"}
    assert evaluations[result.kept]["validation"]["pearson"] > 0.6
    assert value("pearson", result.test) > 0.6
    assert result.probabilities["test"].shape == (30, 0)


def test_the_evaluation_schedule_does_not_change_the_training(
    work_for: WorkFor, method: str
) -> None:
    schedules: list[Any] = ["end", "epoch", 4]
    first, *others = (
        train(*work_for(method, evaluate=evaluate, keep="last", epochs=2)) for evaluate in schedules
    )
    assert len({len(one.evaluations) for one in (first, *others)}) == (
        1 if method == "setfit" else 3
    )
    for result in others:
        assert same_weights(result.weights, first.weights)
        assert (result.predictions, result.test) == (first.predictions, first.test)


def test_balanced_class_weights_are_inverse_to_the_training_rows(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    terms = method_class("ce").terms

    def recorded(self: Method, model: Model, batch: Batch) -> Terms:
        seen.append(model.class_weights)
        return terms(self, model, batch)

    monkeypatch.setattr(method_class("ce"), "terms", recorded)
    work = work_for("ce", epochs=1, class_weights="balanced")
    classes = work.tokens["train"].y[:10].tolist()
    train(*on_rows(work, 10))
    assert seen[0].tolist() == pytest.approx([10 / (2 * classes.count(y)) for y in (0, 1)])


@pytest.mark.parametrize("rows", [1, 9], ids=str)
def test_a_last_batch_of_one_row_trains(work_for: WorkFor, method: str, rows: int) -> None:
    result = train(*on_rows(work_for(method, epochs=2), rows))
    assert all(tensor.isfinite().all() for tensor in result.weights.values())
    evaluations: list[Any] = result.evaluations
    assert evaluations[-1]["update"] % -(-rows // 8) == 0


def test_without_validation_rows_the_last_weights_are_kept_after_the_given_updates(
    work_for: WorkFor,
) -> None:
    work, none = work_for("ce"), Rows("train", np.empty(0, np.int64))
    work = work.but(splits=replace(work.spec.splits, validation=none, test=none))
    limited, given = (
        train(*work.but(**{limit: 5}), test=False) for limit in ("max_updates", "last_updates")
    )
    assert given.stages[-1]["update"] == 5
    assert (given.evaluations, given.test) == ([], {})
    assert same_weights(given.weights, limited.weights)


def test_max_updates_limits_every_stage(work_for: WorkFor) -> None:
    result: Any = train(*work_for("supcl-seq", evaluate="end", epochs=2).but(max_updates=5))
    assert [one["update"] for one in (result.stages[-1], result.evaluations[-1])] == [5, 5]


@pytest.mark.parametrize("method", ["scl", "supcl-seq", "tapt", "cssl"])
def test_stages_train_as_on_a_task_with_the_added_paraphrases_as_rows(
    work_for: WorkFor, toy: TaskData, tiny_bert: Path, method: str
) -> None:
    source, drawn = paraphrase_source(None, 3), np.arange(0, 44, 2)
    longer = join(toy, source.views(toy.splits["train"].texts), 3)
    read = source.views(longer.splits["train"].texts) if method == "cssl" else None
    work = work_for(method, epochs=2)
    tokens = tokenize_task(longer, load_tokenizer(tiny_bert), work.spec.training.max_length, read)
    work = work._replace(tokens=tokens)
    few, more = (
        replace(work.spec.splits, train=Rows("train", rows))
        for rows in (drawn, np.concatenate([drawn + 44 * view for view in range(4)]))
    )
    joined = train(*work.but(joined=3, splits=few))
    assert identical(joined, train(*work.but(splits=more)))
    # 22 rows and three paraphrases of each in batches of 8.
    records: list[Any] = [*joined.stages, *joined.evaluations]
    assert {round(one["update"] / one["epoch"]) for one in records} == {11}


def test_tokens_that_only_test_texts_contain_are_read(work_for: WorkFor, toy: TaskData) -> None:
    test = Split((("awful",), ("lovely",)), np.array([0, 1]))
    data = replace(toy, splits={**toy.splits, "test": test})
    assert len(train(*work_for(data=data, epochs=1)).predictions["test"]) == 2


@pytest.mark.parametrize("evaluate", ["epoch", "end", 1])
@pytest.mark.parametrize("case", [("contrast", "contrast", "inf"), ("probe", "terms", "nan")])
def test_the_error_of_a_non_finite_loss_names_stage_term_epoch_and_update(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch, evaluate: Any, case: tuple[str, str, str]
) -> None:
    stage, terms, value = case
    original, updates = getattr(SCL, terms), count(1)

    def broken(self: SCL, model: Model, batch: Batch) -> Terms:
        extra = torch.tensor(float(value) if next(updates) >= 9 else 0.0)
        return {**original(self, model, batch), "extra": extra}

    monkeypatch.setattr(SCL, terms, broken)
    message = f"^{stage}: loss term extra is {value} at epoch 2, update 3 of 6\\."
    with pytest.raises(NonFiniteLossError, match=message):
        train(*work_for("scl", lam=1.0, evaluate=evaluate, epochs=2))


LABELED, ALL, EPOCHS = 20, 44, 2
POST = {"post_epochs": EPOCHS, "post_batch_size": 8}
UNLABELED = {**dict.fromkeys(("cmlm", "tapt", "cssl"), POST), "simcse": {"probe_epochs": EPOCHS}}


@pytest.mark.parametrize("name", UNLABELED)
def test_stages_without_labels_read_all_texts_but_no_labels_of_them(
    work_for: WorkFor, toy: TaskData, name: str
) -> None:
    labeled, every = (Rows("train", np.arange(rows)) for rows in (LABELED, ALL))
    splits = replace(plain_rows(toy), train=labeled, unlabeled=every)

    def trained(splits: Splits = splits, **changes: Any) -> TrainingResult:
        rows = replace(toy.splits["train"], **changes)
        data = replace(toy, splits={**toy.splits, "train": rows})
        return train(*work_for(name, data=data, splits=splits, epochs=EPOCHS, **UNLABELED[name]))

    split, before = toy.splits["train"], trained()
    few, many = (-(-rows // 8) * EPOCHS for rows in (LABELED, ALL))
    assert [before.stages[-1]["update"], before.evaluations[-1]["update"]] == [many, few]
    assert trained(replace(splits, unlabeled=None)).stages[-1]["update"] == few
    y = np.concatenate([split.y[:LABELED], 1 - split.y[LABELED:]])
    assert identical(trained(y=y), before)
    texts = (*split.texts[:LABELED], *[("it was a lovely film",)] * (ALL - LABELED))
    assert not identical(trained(texts=texts), before)


def test_every_method_trains_as_with_padding_and_all_embeddings(
    work_for: WorkFor, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without dropout, because skipping changes its random numbers.
    views = {"dropouts": (0.0, 0.0)} if method in {"supcl-seq", "simcse", "dropout-aug"} else {}
    still = {"dropout": 0.0, "learning_rate": 1e-3, "weight_decay": 1.0, **views}
    work = work_for(method, **still)
    saving = train(*work)
    monkeypatch.setattr(SubsetEmbedding, "install", lambda _model, _tokens: None)
    monkeypatch.setattr(Packing, "packed", lambda _self, _mask: nullcontext())
    monkeypatch.setattr(Packing, "first_position", lambda _self: nullcontext())
    whole = train(*work)
    first, second = ([*one.stages, *one.evaluations] for one in (saving, whole))
    for one, other in zip(first, second, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3, abs=1e-4)
    words = "encoder.model.embeddings.word_embeddings.weight"
    unseen = np.setdiff1d(np.arange(len(whole.weights[words])), occurring(*work))
    found, expected = saving.weights[words][unseen], whole.weights[words][unseen]
    assert (found - expected).norm() < 1e-3 * expected.norm()


def test_class_weights_that_the_loss_does_not_read_are_an_error(
    work_for: WorkFor, own_methods: dict[str, str], tmp_path: Path
) -> None:
    lines = own_methods["mine.py"].replace("batch.y, weight, ", "batch.y, ").splitlines()
    file = tmp_path / "smoothed.py"
    file.write_text("\n".join(line for line in lines if "class_weights" not in line))
    method, work = load_custom_method(f"{file}:Smoothed")(), work_for(class_weights="balanced")
    with pytest.raises(SclsearchError, match=r"^class_weights: 'balanced' .* loss of Smoothed"):
        train(*work.but(method=method, method_name="Smoothed"))


def test_the_debugging_script_trains_one_seed_run(
    own_methods: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in own_methods.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    runpy.run_path("debug.py")
    assert "'contrast': " in capsys.readouterr().out


T5 = {**SIZES, "num_layers": 2, "num_heads": 2, "d_model": 16, "d_kv": 8, "d_ff": 32}
ONE_SEGMENT = {**SIZES, "type_vocab_size": 1}
DISENTANGLED = {**SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
FAMILIES: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("Bert", "DistilBert", "Albert", "Electra", "MPNet", "FNet"), SIZES),
    **dict.fromkeys(("ModernBert", "NomicBert", "EuroBert", "JinaEmbeddingsV3"), SIZES),
    **dict.fromkeys(("Roberta", "XLMRoberta"), ONE_SEGMENT),
    **dict.fromkeys(("Deberta", "DebertaV2"), DISENTANGLED),
    **dict.fromkeys(("T5", "T5Encoder", "UMT5"), T5),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_trains_with_each_method(
    family: str, save_tiny: Save, work_for: WorkFor, tmp_path: Path
) -> None:
    folder = save_tiny(family, FAMILIES[family])
    before = load_encoder(folder, family).state_dict()
    for method in ("ce", "scl", "supcl-seq", "lacon"):
        work = work_for(method, epochs=1, model=folder)
        rows = replace(work.spec.splits.train, index=work.spec.splits.train.index[:16])
        result = train(*work.but(splits=replace(work.spec.splits, train=rows)))
        after = {name: result.weights[f"encoder.{name}"] for name in before}
        assert any(not torch.equal(before[name], weight) for name, weight in after.items())
        assert all(weight.isfinite().all() for weight in result.weights.values())
        save_tensors(tmp_path / method, result.weights, {})
