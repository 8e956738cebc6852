"""An exported encoder is that of the winner's best seed, bit for bit, and loads everywhere."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

import sclsearch
from sclsearch.encoders.load import load_encoder, load_tokenizer
from sclsearch.encoders.models import CARD, base_model, model_folder
from sclsearch.errors import SclsearchError
from sclsearch.reports.export import Card
from sclsearch.reports.report import report
from sclsearch.search.options import How, What
from sclsearch.search.prepare import prepare_study
from sclsearch.search.rerun import rerun
from sclsearch.search.trial import Bench, attempt
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.training.tokens import tokenise
from sclsearch.training.weights import save_weights

ENCODERS = ("tiny_bert", "tiny_roberta", "tiny_distilbert", "tiny_electra")


@dataclass(frozen=True)
class Trained:
    """A study of two seeds, its storage folder, and the encoder that it began with."""

    storage: Path
    begun: Path

    @property
    def best(self) -> Path:
        """The weights of the better seed."""
        winner = report(self.storage, "mine").winner
        assert winner is not None
        key = winner.seeds[winner.reported[0]].key
        return self.storage / "studies" / "mine" / "weights" / f"{key}.safetensors"

    def export(self, folder: Path) -> Card:
        return sclsearch.export("mine", folder, self.storage)


def study_on(encoder: Path, storage: Path) -> Trained:
    """Trains two seed runs in this process and keeps the weights of both."""
    what = What(
        method="scl",
        task="demo",
        model=str(encoder),
        protocol="gunel-fewshot",
        train_size=8,
        settings={"epochs": 1, "max_length": 16, "tau": 0.5},
        searched=False,
    )
    how = How(study="mine", storage=storage, seeds=2, rule="mean", gpus_per_trial=0)
    prepared = prepare_study(what, how)
    study, store = prepared.study, prepared.store
    store.create(prepared.record)
    for replicate in prepared.replicates:
        store.add(replicate)
    tokens = {16: tokenise(study.data, load_tokenizer(study.model), 16)}
    bench = Bench(study, "mine", storage, tokens, prepared.parts, 1, prepared.record.origin)
    board = prepared.board()
    while (task := board.next()) is not None:
        job = study.job({}, task.replicate.number, prepared.parts[task.replicate.number])
        run, outcome = attempt(job, bench, 0)
        assert outcome is not None
        store.keep_weights(job.key, partial(save_weights, outcome=outcome, job=job))
        prepared.runs.put(run)
        board.finish(task, run)
    return Trained(storage, encoder)


@pytest.fixture(scope="module", params=ENCODERS)
def each(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Returns a study on an encoder of each family, with and without pooler."""
    encoder: Path = request.getfixturevalue(request.param)
    return study_on(encoder, tmp_path_factory.mktemp("storage"))


@pytest.fixture(scope="module")
def once(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = shutil.copytree(tiny_bert, tmp_path_factory.mktemp("encoder") / "bert")
    return study_on(folder, tmp_path_factory.mktemp("storage"))


@pytest.fixture
def study(once: Trained, tmp_path: Path) -> Trained:
    """Returns a copy of the study, to be spoilt."""
    return Trained(shutil.copytree(once.storage, tmp_path / "storage"), once.begun)


def beginning(start: str, stored: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(start): t for n, t in stored.items() if n.startswith(start)}


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[n], theirs[n]) for n in ours)


def test_an_encoder_comes_back_bit_for_bit(each: Trained, tmp_path: Path) -> None:
    each.export(tmp_path / "encoder")
    stored = load_file(each.best)
    found = load_encoder(model_folder(str(tmp_path / "encoder")), "mine")
    begun = load_encoder(each.begun, "begun")
    assert same(found.state_dict(), beginning("encoder.", stored))
    assert found.pretrained_pooler == begun.pretrained_pooler
    assert not torch.equal(found.embeddings, begun.embeddings)
    assert same(load_file(tmp_path / "encoder" / "parts.safetensors"), beginning("parts.", stored))


def test_transformers_alone_loads_what_was_trained(each: Trained, tmp_path: Path) -> None:
    each.export(tmp_path / "encoder")
    model = AutoModel.from_pretrained(tmp_path / "encoder")
    stored = beginning("encoder.model.", load_file(each.best))
    state = model.state_dict()
    assert same({name: state[name] for name in stored}, stored)
    assert {name.partition(".")[0] for name in state.keys() - stored.keys()} <= {"pooler"}
    texts = ["the film was good", "it was awful"]
    ids = [
        AutoTokenizer.from_pretrained(folder)(texts)["input_ids"]
        for folder in (tmp_path / "encoder", each.begun)
    ]
    assert ids[0] == ids[1]


def test_an_encoder_in_half_precision_is_exported_in_the_one_it_was_trained_in(
    tiny_bert: Path, tmp_path: Path
) -> None:
    half = shutil.copytree(tiny_bert, tmp_path / "half")
    AutoModel.from_pretrained(tiny_bert).half().save_pretrained(half)
    assert json.loads((half / "config.json").read_text())["dtype"] == "float16"
    trained = study_on(half, tmp_path / "storage")
    trained.export(tmp_path / "encoder")
    state = AutoModel.from_pretrained(tmp_path / "encoder").state_dict()
    assert same(state, beginning("encoder.model.", load_file(trained.best)))


def test_the_card_says_what_it_is(once: Trained, tmp_path: Path) -> None:
    card = once.export(tmp_path / "new" / "encoder")
    assert json.loads((tmp_path / "new" / "encoder" / CARD).read_text()) == asdict(card)
    winner = report(once.storage, "mine").winner
    assert winner is not None
    best = max(winner.seeds, key=lambda seed: (seed.validation or 0, -seed.replicate))
    assert (card.key, card.replicate, card.seeds) == (best.key, best.replicate, 2)
    assert (card.validation, card.test) == (best.validation, best.test)
    assert (card.study, card.method, card.task, card.size) == ("mine", "scl", "demo", "8")
    assert (card.metric, card.rule, card.protocol) == ("accuracy", "mean", "gunel-fewshot")
    assert (card.fields["tau"], card.fields["epochs"]) == (0.5, 1)
    assert card.base == str(once.begun)


def test_what_is_fine_tuned_twice_keeps_the_name_of_its_first_encoder(
    once: Trained, tmp_path: Path
) -> None:
    once.export(tmp_path / "first")
    study_on(tmp_path / "first", tmp_path / "storage").export(tmp_path / "second")
    assert base_model(str(tmp_path / "second")) == str(once.begun)


def test_the_same_weights_are_the_same_files(once: Trained, tmp_path: Path) -> None:
    for name in ("a", "b"):
        once.export(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert {"config.json", "model.safetensors", "parts.safetensors", "tokenizer.json", CARD} <= {
        *files
    }
    assert files == sorted(path.name for path in (tmp_path / "b").iterdir())
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_an_empty_folder_is_taken_and_one_that_holds_something_is_refused(
    once: Trained, tmp_path: Path
) -> None:
    (tmp_path / "encoder").mkdir()
    once.export(tmp_path / "encoder")
    before = (tmp_path / "encoder" / CARD).stat().st_mtime_ns
    (tmp_path / "file").touch()
    for name in ("encoder", "file"):
        with pytest.raises(SclsearchError) as caught:
            once.export(tmp_path / name)
        assert str(caught.value) == (
            f"{tmp_path / name}: it must be empty or not be there, but it is neither. "
            "Name another one."
        )
    assert (tmp_path / "encoder" / CARD).stat().st_mtime_ns == before


def test_weights_that_are_not_kept_can_be_trained_again(study: Trained, tmp_path: Path) -> None:
    kept = load_file(study.best)
    study.best.unlink()
    with pytest.raises(SclsearchError) as caught:
        study.export(tmp_path / "encoder")
    command = f"rerun {study.best.stem[:12]} --storage {study.storage} --weights {study.best}"
    assert str(caught.value) == (
        f"mine: the weights of its best seed must be in {study.best}, but they are not. "
        f"`sclsearch {command}` writes them."
    )
    rerun(study.storage, study.best.stem[:12], weights=study.best)
    assert same(load_file(study.best), kept)
    study.export(tmp_path / "encoder")


def test_what_is_broken_off_leaves_nothing(study: Trained, tmp_path: Path) -> None:
    study.best.write_bytes(study.best.read_bytes()[:-8])
    with pytest.raises(Exception, match="incomplete"):
        study.export(tmp_path / "out" / "encoder")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_encoder_that_has_changed_since_is_refused(study: Trained, tmp_path: Path) -> None:
    config = study.begun / "config.json"
    before = config.read_text()
    config.write_text(before + " ")
    try:
        with pytest.raises(SclsearchError, match=r"^mine: the encoder .* but it changed since"):
            study.export(tmp_path / "encoder")
    finally:
        config.write_text(before)
    assert not (tmp_path / "encoder").exists()


def test_a_study_without_a_winner_is_refused(
    write_study: Callable[..., Path], tmp_path: Path
) -> None:
    storage = write_study(["it failed", "it too"])
    with pytest.raises(SclsearchError, match=r"^made-up: a seed run of its winner must have fin"):
        sclsearch.export("made-up", tmp_path / "encoder", storage)
    with pytest.raises(SclsearchError, match=r"^Unknown study 'mad-up' .* Did you mean 'made-up'"):
        sclsearch.export("mad-up", tmp_path / "encoder", storage)


def test_a_failed_seed_is_never_exported(study: Trained, tmp_path: Path) -> None:
    failed = study.best.stem
    path = study.storage / "runs" / f"{failed}.json"
    stored = json.loads(path.read_text())
    path.unlink()
    run = SeedRun(failed, stored["identity"], stored["origin"], failure=Failure("hang", "1 h"))
    path.write_text(json.dumps(asdict(run)))
    card = study.export(tmp_path / "encoder")
    assert card.key != failed
    assert card.key == study.best.stem
