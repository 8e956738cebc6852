"""Training after the search: of the winner on all rows, once more, or of the linear baseline."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.exports.predictor import Refit, RefitRows
from sclsearch.protocols.base import Rows, Splits, all_seeds, by_split
from sclsearch.reports.notes import is_linear
from sclsearch.reports.report import ConfigurationLine, Report, finished_winner
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.study.restore import restore_seed_run
from sclsearch.study.state import with_result
from sclsearch.study.study import Study
from sclsearch.tasks.base import Split, TaskData
from sclsearch.training.spec import SeedRunSpec

if TYPE_CHECKING:
    from torch import Tensor

    from sclsearch.methods.base import Method
    from sclsearch.training.evaluation import TrainingResult

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestoredWinner:
    """Winner of a study with its data, as its seed runs read them.

    `runs` are its successful seed runs, the best reported one first; `study` is that of its
    configuration alone, `spec` that of the best seed run, and `splits` has each replicate's rows.
    """

    runs: Sequence[SeedRun]
    study: Study
    spec: SeedRunSpec
    splits: Sequence[Splits]


def restore_winner(
    found: Report, data_dir: Path | None, method: "str | type[Method] | None"
) -> RestoredWinner:
    """Return the winner of a report with its data and encoder.

    Raises:
        SclsearchError: Data, encoder or method are missing or have changed.
    """
    winner = finished_winner(found)
    best = winner.seeds[winner.reported[0]]
    succeeded = [seed.key for seed in winner.seeds if seed.failure is None]
    keys = dict.fromkeys([best.key, *succeeded])
    runs = [run for run in RunStore(found.storage).get_all([*keys]) if run is not None]
    study, spec = restore_seed_run(runs[0], data_dir, method)
    return RestoredWinner(runs, study, spec, [study.splits(n) for n in range(found.seeds)])


def refit_winner(
    winner: RestoredWinner, rows: RefitRows, seeds: int
) -> "Iterator[tuple[dict[str, Any], TrainingResult]]":
    """Yield the winner's configuration, trained on the rows of all replicates, once per seed.

    Each comes with the fields of its export's record that differ from those of the winner.

    The last stage has the epochs that validation chose: the median of the kept evaluations over the
    winner's seed runs. The learning-rate schedule ends there. Earlier stages have all their epochs.
    Training has the study's numerics and as many threads as the winner's best seed run.

    Raises:
        SclsearchError: Training needs a GPU and there is none, or a loss is not finite.
    """
    import torch

    from sclsearch.training.data import rows_of
    from sclsearch.training.device import used_threads
    from sclsearch.training.engine import train
    from sclsearch.training.evaluation import NonFiniteLossError
    from sclsearch.training.optimizer import updates_per_epoch

    data, splits, counts = refit_rows(winner, rows)
    spec = replace(winner.spec, splits=splits, data_digest=data.digest, keep="last")
    tokens = replace(winner.study, data=data).tokenized([splits])[spec.training.max_length]
    stage = spec.stages[-1]
    per_epoch = updates_per_epoch(len(rows_of(spec, tokens, stage).index), stage.training)
    epochs = median(float(run.evaluations[run.kept]["epoch"]) for run in winner.runs)
    updates = max(1, round(epochs * per_epoch))
    threads = int(winner.runs[0].environment.get("threads", 1))
    for seed in range(seeds):
        own = replace(spec, replicate=all_seeds(seed), last_updates=updates)
        try:
            with torch.random.fork_rng(), used_threads(threads):
                result = train(own, tokens, test=False)
        except NonFiniteLossError as error:
            raise SclsearchError(f"--refit: {error} Choose another winner by --rule.") from error
        refit = replace(counts, updates=updates)
        yield {**_refitted(refit), "key": own.key, "replicate": seed}, result


def _refitted(refit: Refit | None) -> dict[str, Any]:
    return {} if refit is None else {"refit": refit, "validation": None, "test": None}


def train_again(
    run: SeedRun, data_dir: Path | None, method: "str | type[Method] | None"
) -> "TrainingResult":
    """Train a stored seed run once more, on as many threads, and return its result with weights.

    Another processor may compute other last digits; a warning then has both scores.

    Raises:
        SclsearchError: Data, encoder or method are missing or have changed, or training needs a GPU
            and there is none.
    """
    import torch

    from sclsearch.training.device import used_threads
    from sclsearch.training.engine import train

    study, spec = restore_seed_run(run, data_dir, method)
    tokens = study.tokenized([spec.splits])[spec.training.max_length]
    with torch.random.fork_rng(), used_threads(int(run.environment.get("threads", 1))):
        result = train(spec, tokens)
    if warning := run.difference(with_result(run, result), spec.metric):
        _LOG.warning("%s", warning)
    return result


def refit_rows(winner: RestoredWinner, rows: RefitRows) -> tuple[TaskData, Splits, Refit]:
    """Return the task with the rows of a refit as its training split, their splits and counts.

    No row is left for validation or test. Stages that read no labels also read the unlabeled texts
    of all replicates.
    """
    splits, data = winner.splits, winner.study.data
    searched = [rows for one in splits for rows in (one.train, one.validation)]
    tested = [one.test for one in splits] if rows == "all" else []
    taken = by_split([*searched, *tested])
    parts = [data.splits[split].take(index) for split, index in taken.items()]
    train = Split(
        tuple(text for part in parts for text in part.texts),
        np.concatenate([part.y for part in parts]),
    )
    labeled = np.arange(len(train))
    pools = [one.unlabeled for one in splits if one.unlabeled is not None]
    for split, index in by_split(pools).items():
        further = np.setdiff1d(index, taken.get(split, np.empty(0, np.int64)))
        train = train.with_unlabeled([data.splits[split].texts[row] for row in further])
    none = Rows("train", np.empty(0, np.int64))
    unlabeled = Rows("train", np.arange(len(train))) if pools else None
    first = sum(map(len, by_split(searched).values()))
    return (
        TaskData(data.task, {"train": train}, data.source),
        Splits(Rows("train", labeled), none, none, unlabeled=unlabeled),
        Refit(rows=first, test_rows=len(labeled) - first),
    )


def linear_baseline(found: Report) -> ConfigurationLine:
    """Return the scores of the linear model in a report.

    Raises:
        SclsearchError: The report has none.
    """
    for line in found.baselines:
        if is_linear(line.origin) and line.reported:
            return line
    raise SclsearchError(
        f"--baseline: {found.study} has no linear model on the frozen encoder. Run its search "
        "again to fit it."
    )


def fit_linear(
    found: Report, winner: RestoredWinner, rows: RefitRows | None
) -> "tuple[dict[str, Any], dict[str, Tensor]]":
    """Fit the linear model on the training rows of its best seed, or on the rows of a refit.

    Returns:
        The fields of the export's record that differ from those of the winner, and the weights of
        the encoder and of the head of `ce` that computes the linear model.
    """
    from torch import nn

    from sclsearch.encoders.load import load_encoder, load_tokenizer
    from sclsearch.methods.base import Model
    from sclsearch.training.baselines import linear_head
    from sclsearch.training.data import tokenize_task

    line, study = linear_baseline(found), winner.study
    best = line.seeds[line.reported[0]]
    data, splits, refit = study.data, winner.splits[best.replicate], None
    if rows is not None:
        data, splits, refit = refit_rows(winner, rows)
    searched = found.space.get("max_length")
    length = winner.spec.training.max_length
    if isinstance(searched, Mapping):  # the search fits the baselines at the greatest length
        length = max(searched["values"])
    tokenizer = load_tokenizer(study.model)
    tokens = tokenize_task(data, tokenizer, length, used=by_split([splits.train]))
    encoder = load_encoder(study.model, study.model_name)
    head = linear_head(encoder, data, tokens, splits.train, gpu=winner.spec.on_gpu)
    changes = {
        "method": line.origin.partition(" on ")[0].replace(" ", "-"),
        "place": "ce",
        "method_digest": "",
        "fields": {"pooling": "mean", "max_length": length},
        "key": "",
        "replicate": best.replicate,
        "validation": best.validation,
        "test": best.test,
        "mean_test": line.plain and line.plain[0],
        "numerics": f"{winner.spec.numerics.partition('-')[0]}-fp32",
        "baseline": True,
        **_refitted(refit),
    }
    return changes, Model(encoder.cpu(), nn.ModuleDict({"head": head})).state_dict()
