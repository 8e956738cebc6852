"""The seed runs of `points.py` with transformers' Trainer; `peers.py` measures their time.

    python -m benchmarks.trainers WORK.json OUTPUT.json [--ray]

Dynamic padding; one process for all seed runs, which reads the model for each. SupCL-Seq has one
forward pass per view, and its probe computes the embeddings in every epoch.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

from benchmarks.plain_models import Contrast, Joint, Probe
from benchmarks.points import Run, Setup, training_data
from sclsearch.encoders.load import load_tokenizer

Case = tuple[str, dict[str, object], int]
"""Method, values of the configuration, number of the replicate."""


@dataclass
class Rows(torch.utils.data.Dataset[Mapping[str, object]]):
    """Tokenized rows of a split."""

    rows: Sequence[Mapping[str, object]]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __getitem__(self, index: int) -> Mapping[str, object]:
        """Return a row."""
        return self.rows[index]


def rows_of(data: Run, part: str) -> Rows:
    """Return the rows of a split for Trainer."""
    rows = getattr(data.spec.splits, part)
    tokens = data.tokens[rows.split]
    return Rows(
        [
            {
                "input_ids": tokens.ids[slice(*tokens.starts[row : row + 2])].tolist(),
                "token_type_ids": tokens.types[slice(*tokens.starts[row : row + 2])].tolist(),
                "labels": int(tokens.y[row]),
            }
            for row in rows.index
        ]
    )


def arguments(data: Run, stage: int, folder: str, *, evaluated: bool) -> TrainingArguments:
    """Return the settings of a stage for Trainer."""
    spec, settings = data.spec, data.spec.method.stages(data.spec.training)[stage].training
    steps = -(-len(spec.splits.train.index) // settings.batch_size) * settings.epochs
    when: Any = "steps" if evaluated else "no"
    every = spec.evaluate if isinstance(spec.evaluate, int) else steps // settings.epochs
    return TrainingArguments(
        output_dir=folder,
        learning_rate=settings.learning_rate,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=64,
        num_train_epochs=settings.epochs,
        warmup_steps=round(steps * settings.warmup_ratio),
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        seed=spec.replicate.number,
        bf16=spec.numerics == "cuda-bf16",
        eval_strategy=when,
        save_strategy=when,
        eval_steps=every,
        save_steps=every,
        save_total_limit=1,
        save_only_model=True,
        load_best_model_at_end=evaluated,
        metric_for_best_model="accuracy",
        dataloader_pin_memory=spec.numerics == "cuda-bf16",
        logging_strategy="no",
        disable_tqdm=True,
        report_to="none",
    )


def accuracy(found: Any) -> dict[str, float]:
    """Return the metric with which Trainer selects the best model."""
    return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}


def trainer(data: Run, model: nn.Module, stage: int, folder: str, *, evaluated: bool) -> Trainer:
    """Return a Trainer of a stage."""
    return Trainer(
        model=model,
        args=arguments(data, stage, folder, evaluated=evaluated),
        train_dataset=rows_of(data, "train"),
        eval_dataset=rows_of(data, "validation") if evaluated else None,
        data_collator=DataCollatorWithPadding(load_tokenizer(data.spec.model)),
        compute_metrics=accuracy,
    )


def score(setup: Setup, case: Case) -> float:
    """Train a seed run to its end; return its accuracy on test rows."""
    method, values, number = case
    data = training_data(setup, method, values, number)
    torch.manual_seed(number)
    with tempfile.TemporaryDirectory() as folder:
        model: nn.Module
        if method == "supcl-seq":
            contrast = Contrast(data)
            trainer(data, contrast, 0, folder, evaluated=False).train()
            model = Probe(data, contrast.embedder)
        else:
            model = Joint(data)
        last = trainer(data, model, -1, folder, evaluated=True)
        last.train()
        return tested(last, data)


def tested(last: Trainer, data: Run) -> float:
    """Return the accuracy of the kept model on test rows."""
    predicted: Any = last.predict(rows_of(data, "test"))
    return float(predicted.metrics["test_accuracy"])


class Searched(Trainer):
    """A Trainer whose trials get their rows and settings, and test the kept model."""

    setup: Setup
    cases: Sequence[Case]
    scores: Path

    def train(  # type: ignore[override]  # a search passes only a trial
        self, *, trial: Mapping[str, int]
    ) -> Any:
        """Train a trial and test the kept model."""
        data = training_data(self.setup, *self.cases[trial["case"]])
        self.args = arguments(data, -1, str(self.args.output_dir), evaluated=True)
        self.train_dataset = rows_of(data, "train")
        self.eval_dataset = rows_of(data, "validation")
        self.model_init = joint_of(data)
        result = super().train(trial={})
        (self.scores / str(trial["case"])).write_text(str(tested(self, data)), encoding="utf-8")
        return result


def joint_of(data: Run) -> Any:
    """Return a function that makes the model of a trial."""
    return lambda: Joint(data)


def search(setup: Setup, cases: Sequence[Case], processes: int) -> list[float]:
    """Train all with `hyperparameter_search` on Ray; return their accuracies on test rows."""
    import ray
    from ray import tune

    ray.init(address="local", num_cpus=processes, include_dashboard=False, log_to_driver=False)
    data = training_data(setup, *cases[0])
    with tempfile.TemporaryDirectory() as folder:
        searched = Searched(
            model_init=joint_of(data),
            args=arguments(data, -1, f"{folder}/trainer", evaluated=True),
            train_dataset=rows_of(data, "train"),
            eval_dataset=rows_of(data, "validation"),
            data_collator=DataCollatorWithPadding(load_tokenizer(data.spec.model)),
            compute_metrics=accuracy,
        )
        searched.setup, searched.cases, searched.scores = setup, cases, Path(folder)
        searched.hyperparameter_search(
            hp_space=lambda _: {"case": tune.grid_search(list(range(len(cases))))},
            compute_objective=lambda metrics: metrics["eval_accuracy"],
            n_trials=1,
            direction="maximize",
            backend="ray",
            resources_per_trial={"cpu": 1, "gpu": float(torch.cuda.is_available())},
            storage_path=f"{folder}/ray",
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
            verbose=0,
        )
        return [float((Path(folder) / str(n)).read_text("utf-8")) for n in range(len(cases))]


def main() -> None:
    """Train the seed runs that a file lists and write their scores."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("work", type=Path, help="JSON: setup, cases, threads")
    parser.add_argument("output", type=Path)
    parser.add_argument("--ray", action="store_true")
    given = parser.parse_args()
    loaded = json.loads(given.work.read_text(encoding="utf-8"))
    setup, cases = Setup(**loaded["setup"]), [tuple(case) for case in loaded["cases"]]
    if given.ray:
        scores = search(setup, cases, loaded["threads"])
    else:
        torch.set_num_threads(loaded["threads"])
        scores = [score(setup, case) for case in cases]
    assert np.isfinite(scores).all()
    given.output.write_text(json.dumps(scores), encoding="utf-8")


if __name__ == "__main__":
    main()
