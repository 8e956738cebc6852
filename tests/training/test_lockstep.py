"""Replicates in one batched program become what each becomes by itself."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.methods.ce import CE
from sclsearch.protocols.base import Rows
from sclsearch.protocols.replicates import all_seeds, seated
from sclsearch.tasks.base import TaskData
from sclsearch.training.engine import train, train_block
from sclsearch.training.fastest import fastest_lockstep
from sclsearch.training.job import Work
from sclsearch.training.lockstep import Lockstep
from sclsearch.training.outcome import Outcome
from sclsearch.training.watch import NonFiniteLossError

WorkFor = Callable[..., Work]
Found = list[Any]

STILL: dict[str, object] = {"dropout": 0.0, "learning_rate": 1e-3, "weight_decay": 0.1}
# A softmax does not see them: what they get is rounding, of which AdamW makes whole steps.
UNSEEN = ("key.bias", "k_lin.bias", "attention.conv.bias")
VIEWS = {"supcl-seq", "simcse", "dropout-aug"}


def still(method: str) -> dict[str, object]:
    """Returns what takes all noise from a method that masks no tokens."""
    own: dict[str, object] = {"dropouts": (0.0, 0.0)} if method in VIEWS else {}
    if method == "leam":
        own["mlp_dropout"] = 0.0
    return {**STILL, "max_grad_norm": 0.5, "epochs": 2, **own}


def seats(work: Work, block: int) -> list[Work]:
    """Returns a work for each replicate of the first block of S."""
    return [
        replace(work, job=replace(work.job, replicate=seated(all_seeds, number, block)))
        for number in range(block)
    ]


def alone(works: Sequence[Work]) -> list[Outcome]:
    return [
        train(replace(w, job=replace(w.job, replicate=replace(w.job.replicate, seat=None))))
        for w in works
    ]


def numbers(outcome: Outcome) -> list[float]:
    """Returns all losses of an outcome, in order."""
    notes: list[Any] = [*outcome.stages, *outcome.evaluations]
    return [loss for note in notes for loss in note["loss"].values()]


def assert_alike(one: Outcome, other: Outcome, atol: float = 2e-4) -> None:
    assert numbers(one) == pytest.approx(numbers(other), rel=1e-3, abs=1e-4)
    assert one.weights.keys() == other.weights.keys()
    for name in one.weights.keys() - {name for name in one.weights if name.endswith(UNSEEN)}:
        tensor = one.weights[name]
        torch.testing.assert_close(tensor, other.weights[name], atol=atol, rtol=1e-3, msg=name)
    assert one.test == other.test
    assert one.kept == other.kept


def identical(one: Outcome, other: Outcome) -> bool:
    figures = [(o.stages, o.evaluations, o.kept, o.test, o.predictions) for o in (one, other)]
    same = [torch.equal(tensor, other.weights[name]) for name, tensor in one.weights.items()]
    return figures[0] == figures[1] and all(same)


@contextmanager
def batched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yields how many seed runs each batched program has that is made meanwhile."""
    made: list[int] = []
    original = Lockstep.__init__

    def noted(self: Lockstep, learners: Any, *rest: Any) -> None:
        made.append(len(learners))
        original(self, learners, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Lockstep, "__init__", noted)
        yield made


@pytest.fixture
def no_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes masks the same every time: each third token, and of the others each third."""

    def selection(maskable: Tensor, _share: float) -> Tensor:
        return maskable & (torch.arange(maskable.shape[-1]) % 3 == 1)

    def complement(maskable: Tensor, selected: Tensor, _share: float) -> Tensor:
        return maskable & ~selected & (torch.arange(maskable.shape[-1]) % 3 == 2)

    def corrupted(ids: Tensor, selected: Tensor, *, mask_token: int, **_: object) -> Tensor:
        return ids.masked_fill(selected, mask_token)

    for method in ("tapt", "cmlm"):
        monkeypatch.setattr(f"sclsearch.methods.{method}.draw_selection", selection)
    monkeypatch.setattr("sclsearch.methods.cmlm.draw_complement", complement)
    monkeypatch.setattr("sclsearch.methods.post_training.corrupt", corrupted)


@pytest.mark.usefixtures("no_draws")
def test_without_noise_each_becomes_what_it_becomes_by_itself(
    work_for: WorkFor, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = seats(work_for(method, **still(method)), 2)
    with batched(monkeypatch) as made:
        found: Found = train_block(works)
    assert made == [2] * len(works[0].job.method.stages(works[0].job.training))
    for together, by_itself in zip(found, alone(works), strict=True):
        assert together.notes == by_itself.notes
        assert_alike(together, by_itself)


@pytest.mark.parametrize("family", ["roberta", "distilbert", "electra"])
def test_encoders_of_other_families_go_in_lockstep_too(
    work_for: WorkFor,
    request: pytest.FixtureRequest,
    family: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model: Path = request.getfixturevalue(f"tiny_{family}")
    works = seats(work_for("scl", model=model, **still("scl")), 2)
    with batched(monkeypatch) as made:
        found: Found = train_block(works)
    assert made == [2]
    for together, by_itself in zip(found, alone(works), strict=True):
        assert_alike(together, by_itself)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("supcl-seq", {"probe_encoder_mode": "train"}),
        ("cmlm", {"predictor": "simsiam_bn", "mlm_reduction": "sequences"}),
        ("ce", {"batch_sampling": "balanced", "drop_last": True, "max_grad_norm": 0.0}),
    ],
    ids=["frozen with dropout", "batch norm", "balanced"],
)
@pytest.mark.usefixtures("no_draws")
def test_what_a_field_changes_goes_in_lockstep_too(
    work_for: WorkFor, method: str, options: dict[str, object]
) -> None:
    works = seats(work_for(method, **{**still(method), **options}), 2)
    found: Found = train_block(works)
    for together, by_itself in zip(found, alone(works), strict=True):
        assert together.notes == by_itself.notes
        assert_alike(together, by_itself)


def test_weights_that_a_method_does_not_read_are_left_alone(work_for: WorkFor) -> None:
    works = seats(work_for("ce", **still("ce"), pooling="mean"), 2)
    found: Found = train_block(works)
    name = "encoder.model.pooler.dense.weight"
    untouched = Model(load_encoder(works[0].job.model, "tiny"), torch.nn.ModuleDict())
    for outcome in found:
        assert torch.equal(outcome.weights[name], untouched.state_dict()[name])


@pytest.mark.parametrize("method", ["ce", "supcl-seq", "dropout-aug", "leam", "cmlm"])
def test_with_noise_a_block_repeats_bit_for_bit_and_its_replicates_differ(
    work_for: WorkFor, method: str
) -> None:
    works = seats(work_for(method, epochs=1), 2)
    found: Found = train_block(works)
    torch.manual_seed(4711)
    again: Found = train_block(works)
    assert all(identical(one, other) for one, other in zip(found, again, strict=True))
    assert numbers(found[0]) != numbers(found[1])


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("method", ["ce", "supcl-seq", "dropout-aug", "leam", "tapt"])
def test_a_block_that_runs_out_of_memory_is_trained_in_parts_with_the_same_noise(
    work_for: WorkFor, method: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = seats(work_for(method, epochs=1, learning_rate=1e-3), 3)
    whole: Found = train_block(works)
    trained: list[int] = []
    update = Lockstep.update

    def limited(self: Lockstep, *given: Any) -> Any:
        if len(self.learners) > most:
            raise torch.OutOfMemoryError("a test has no more")
        trained.append(len(self.learners))
        return update(self, *given)

    monkeypatch.setattr(Lockstep, "update", limited)
    parts: Found = train_block(works)
    assert set(trained) == {*range(1, most + 1)}
    assert [outcome.notes for outcome in parts] == [outcome.notes for outcome in whole]
    for one, other in zip(parts, whole, strict=True):
        assert_alike(one, other)


def test_a_block_that_is_not_whole_is_refused(work_for: WorkFor) -> None:
    with pytest.raises(ValueError, match=r"^a block must be whole"):
        train(seats(work_for("ce"), 2)[1])


def test_one_seed_run_that_runs_out_of_memory_says_so(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_self: Lockstep, *_given: Any) -> Any:
        raise torch.OutOfMemoryError("a test has no more")

    monkeypatch.setattr(Lockstep, "update", none_left)
    with pytest.raises(torch.OutOfMemoryError, match="a test has no more"):
        train_block(seats(work_for("ce", epochs=1), 2))


@dataclass(frozen=True, slots=True)
class Lit:
    """Cross-entropy with a term that is no number in about every second initialisation."""

    protocol: ClassVar[str] = "plain"
    few_shot: ClassVar[str] = "plain"
    regression: ClassVar[bool] = False
    training: ClassVar[Mapping[str, object]] = {}

    ce: CE = field(default_factory=CE)

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        return self.ce.check(encoder)

    def parts(self, encoder: Encoder, classes: int) -> torch.nn.ModuleDict:
        fuse = torch.nn.Linear(1, 1, bias=False)
        return torch.nn.ModuleDict({**self.ce.parts(encoder, classes), "fuse": fuse})

    def stages(self, training: Training) -> tuple[Stage, ...]:
        return (Stage("burning", training, self.terms, self.parts),)

    def terms(self, model: Model, batch: Batch) -> Terms:
        fuse: torch.nn.Linear = model.parts["fuse"]  # type: ignore[assignment]
        return {**self.ce.terms(model, batch), "bomb": fuse.weight.log().sum()}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        return self.ce.scores(model, batch)


class Blind(Lit):
    """Cross-entropy that looks at values, which one program of several seed runs cannot."""

    def terms(self, model: Model, batch: Batch) -> Terms:
        ce = self.ce.terms(model, batch)["ce"]
        return {"ce": ce if ce.item() > 0 else 2 * ce}


def test_a_replicate_whose_loss_is_no_number_fails_and_its_siblings_do_not(
    work_for: WorkFor,
) -> None:
    work = work_for("ce", **still("ce"))
    works = seats(replace(work, job=replace(work.job, method=Lit())), 4)
    found: Found = train_block(works)
    failed = [isinstance(one, NonFiniteLossError) for one in found]
    assert set(failed) == {True, False}
    for own, one, fails in zip(works, found, failed, strict=True):
        if fails:
            with pytest.raises(NonFiniteLossError, match=f"^{re.escape(str(one))}$"):
                alone([own])
        else:
            (by_itself,) = alone([own])
            assert_alike(one, by_itself)


def test_when_all_that_are_trained_have_failed_it_ends(work_for: WorkFor) -> None:
    work = work_for("ce", evaluate=1, **still("ce"))
    works = seats(replace(work, job=replace(work.job, method=Lit())), 4)
    found: Found = train_block(works)
    failing = [seat for seat, one in enumerate(found) if isinstance(one, NonFiniteLossError)]
    again: Found = train_block(works, failing)
    assert [str(one) for one in again] == [str(found[seat]) for seat in failing]


def test_a_method_that_looks_at_values_trains_one_by_one_and_says_so(work_for: WorkFor) -> None:
    work = work_for("ce", epochs=1)
    works = seats(replace(work, job=replace(work.job, method=Blind())), 2)
    found: Found = train_block(works)
    for one, other in zip(found, alone(works), strict=True):
        assert identical(one, other)
        (note,) = one.notes
        assert note.startswith("lockstep: trained one by one, as RuntimeError: vmap:")


def test_an_encoder_that_vmap_does_not_go_through_trains_one_by_one(
    work_for: WorkFor, tiny_mpnet: Path
) -> None:
    works = seats(work_for("ce", epochs=1, model=tiny_mpnet), 2)
    found: Found = train_block(works)
    for one, other in zip(found, alone(works), strict=True):
        assert identical(one, other)
        assert one.notes == ("lockstep: trained one by one, as vmap does not go through tiny",)


def test_batches_that_go_in_chunks_train_one_by_one(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = seats(work_for("ce", epochs=1), 2)
    monkeypatch.setattr("sclsearch.training.job.LIMIT", 1)
    found: Found = train_block(works)
    for one, other in zip(found, alone(works), strict=True):
        assert identical(one, other)
        (note,) = one.notes
        assert note == (
            "lockstep: trained one by one, as a large batch goes through the encoder in chunks"
        )


def test_replicates_of_different_sizes_train_one_by_one(work_for: WorkFor) -> None:
    first, second = seats(work_for("ce", epochs=1), 2)
    rows = first.job.parts.train
    fewer = replace(first.job.parts, train=Rows(rows.split, rows.index[:-3]))
    works = [first, replace(second, job=replace(second.job, parts=fewer))]
    found: Found = train_block(works)
    for one, other in zip(found, alone(works), strict=True):
        assert identical(one, other)
        assert one.notes == ("lockstep: trained one by one, as their numbers of rows differ",)


def test_replicates_may_have_rows_of_their_own(work_for: WorkFor) -> None:
    first, second = seats(work_for("ce", **still("ce")), 2)
    rows = first.job.parts.train
    works = [
        replace(w, job=replace(w.job, parts=replace(w.job.parts, train=Rows(rows.split, index))))
        for w, index in ((first, rows.index[:30]), (second, rows.index[-30:]))
    ]
    found: Found = train_block(works)
    for together, by_itself in zip(found, alone(works), strict=True):
        assert together.notes == ()
        assert_alike(together, by_itself)


def test_scores_are_learnt_in_lockstep_too(work_for: WorkFor, toy_scores: TaskData) -> None:
    works = seats(work_for("ce", data=toy_scores, **still("ce")), 2)
    found: Found = train_block(works)
    for together, by_itself in zip(found, alone(works), strict=True):
        assert numbers(together) == pytest.approx(numbers(by_itself), rel=1e-3)
        for which in ("validation", "test"):
            predicted = by_itself.predictions[which]
            assert together.predictions[which] == pytest.approx(predicted, abs=1e-3)


def test_the_fastest_size_is_one_of_those_that_were_measured(work_for: WorkFor) -> None:
    assert fastest_lockstep(work_for("ce"), 3, (2, 3, 4)) in {1, 2, 3}
    assert fastest_lockstep(work_for("ce"), 1) == 1
