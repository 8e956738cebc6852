"""The seed runs of `peers.py` with transformers' Trainer, all in one process.

    python -m benchmarks.trainers FOLDER

Reads `FOLDER/work.json` and writes `FOLDER/scores.json`. SupCL-Seq has one forward pass per view,
and its probe computes the embeddings in every epoch.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel, DataCollatorWithPadding, Trainer, TrainingArguments

from sclsearch.encoders.load import load_tokenizer
from sclsearch.objectives.contrastive import sup_con
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.training.data import Tokens
from sclsearch.training.spec import SeedRunSpec

SeedRun = tuple[SeedRunSpec, Mapping[str, Tokens]]


class Classifier(nn.Module):
    """Encoder with mean pooling, and a linear layer."""

    def __init__(self, spec: SeedRunSpec, encoder: Any = None) -> None:
        super().__init__()
        self.fields: Any = spec.method
        rate = spec.training.dropout
        rates = {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}
        load = AutoModel.from_pretrained
        self.encoder = encoder or load(str(spec.model), dtype=torch.float32, **rates)
        self.dropout = nn.Dropout(rate)
        self.head = nn.Linear(self.encoder.config.hidden_size, len(spec.task.labels))
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def embed(self, tokens: Mapping[str, Tensor]) -> Tensor:
        """Return the mean of the last states over the tokens of each text, `[B, d]`."""
        states = self.encoder(**tokens).last_hidden_state
        mask = tokens["attention_mask"][..., None].to(states.dtype)
        pooled: Tensor = (states * mask).sum(1) / mask.sum(1)
        return pooled


class Joint(Classifier):
    """`scl`: cross-entropy and contrast in one loss."""

    def forward(self, labels: Tensor, **tokens: Tensor) -> dict[str, Tensor]:
        """Return loss and logits."""
        z = self.embed(tokens)
        logits = self.head(self.dropout(z))
        loss = (1 - self.fields.lam) * F.cross_entropy(logits, labels)
        if self.training:
            loss = loss + self.fields.lam * sup_con(z, labels, tau=self.fields.tau)
        return {"loss": loss, "logits": logits}


class Contrast(Classifier):
    """`supcl-seq`, first stage: a forward pass for each dropout rate."""

    def forward(self, labels: Tensor, **tokens: Tensor) -> dict[str, Tensor]:
        """Return the loss."""
        views = []
        for rate in self.fields.dropouts:
            for module in self.encoder.modules():
                if isinstance(module, nn.Dropout):
                    module.p = rate
            views.append(self.embed(tokens))
        y = labels.repeat(len(views))
        return {"loss": sup_con(torch.cat(views), y, tau=self.fields.tau)}


class Probe(Classifier):
    """`supcl-seq`, second stage: a linear layer on the frozen encoder."""

    def forward(self, labels: Tensor, **tokens: Tensor) -> dict[str, Tensor]:
        """Return loss and logits."""
        self.encoder.eval()
        with torch.no_grad():
            z = self.embed(tokens)
        logits = self.head(z)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def rows_of(run: SeedRun, part: str) -> Any:
    """Return the tokenized rows of a split."""
    rows = getattr(run[0].splits, part)
    tokens = run[1][rows.split]
    return [
        {
            "input_ids": tokens.ids[slice(*tokens.starts[row : row + 2])].tolist(),
            "labels": int(tokens.y[row]),
        }
        for row in rows.index
    ]


def settings_of(run: SeedRun, stage: int, folder: str) -> dict[str, Any]:
    """Return the arguments of a Trainer; it keeps the best weights of the last stage."""
    spec = run[0]
    settings = spec.stages[stage].training
    steps = -(-len(spec.splits.train.index) // settings.batch_size) * settings.epochs
    last = stage == len(spec.stages) - 1
    when: Any = "steps" if last else "no"
    every = spec.evaluate if isinstance(spec.evaluate, int) else steps // settings.epochs
    arguments = TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        learning_rate=settings.learning_rate,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=64,
        num_train_epochs=settings.epochs,
        warmup_steps=round(steps * settings.warmup_ratio),
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        seed=spec.replicate.number,
        eval_strategy=when,
        save_strategy=when,
        eval_steps=every,
        save_steps=every,
        save_total_limit=1,
        save_only_model=True,
        load_best_model_at_end=last,
        metric_for_best_model="accuracy",
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        logging_strategy="no",
        disable_tqdm=True,
        report_to="none",
    )
    return {
        "args": arguments,
        "train_dataset": rows_of(run, "train"),
        "eval_dataset": rows_of(run, "validation"),
        "data_collator": DataCollatorWithPadding(load_tokenizer(spec.model)),
        "compute_metrics": accuracy,
    }


def accuracy(found: Any) -> dict[str, float]:
    """Return the metric with which Trainer selects the best weights."""
    return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}


def test_score(trainer: Trainer, run: SeedRun) -> float:
    """Return the accuracy of the trained model on the test rows."""
    predicted: Any = trainer.predict(rows_of(run, "test"))
    return float(predicted.metrics["test_accuracy"])


def score(run: SeedRun) -> float:
    """Train a seed run and return its test score."""
    spec = run[0]
    torch.manual_seed(spec.replicate.number)
    with tempfile.TemporaryDirectory() as folder:
        model: nn.Module = Joint(spec)
        if spec.method_name == "supcl-seq":
            model = Contrast(spec)
            Trainer(model=model, **settings_of(run, 0, folder)).train()
            model = Probe(spec, model.encoder.requires_grad_(requires_grad=False))
        trainer = Trainer(model=model, **settings_of(run, len(spec.stages) - 1, folder))
        trainer.train()
        return test_score(trainer, run)


class Searched(Trainer):
    """A Trainer whose trials are the seed runs."""

    runs: Sequence[SeedRun]
    folder: Path

    def train(self, *, trial: Mapping[str, int]) -> Any:  # type: ignore[override]
        """Train the seed run of a trial and write its test score."""
        run = self.runs[trial["run"]]
        for name, value in settings_of(run, 0, str(self.args.output_dir)).items():
            setattr(self, name, value)
        made: Any = partial(Joint, run[0])
        self.model_init = made
        result = super().train(trial={})
        score = test_score(self, run)
        (self.folder / str(trial["run"])).write_text(str(score), encoding="utf-8")
        return result


def search(runs: Sequence[SeedRun], cores: int, folder: Path) -> list[float]:
    """Train seed runs with `hyperparameter_search` on Ray; return their test scores."""
    import ray
    from ray import tune

    ray.init(address="local", num_cpus=cores, include_dashboard=False, log_to_driver=False)
    made: Any = partial(Joint, runs[0][0])
    searched = Searched(model_init=made, **settings_of(runs[0], 0, str(folder / "trainer")))
    searched.runs, searched.folder = runs, folder
    searched.hyperparameter_search(
        hp_space=lambda _: {"run": tune.grid_search(list(range(len(runs))))},
        compute_objective=lambda metrics: metrics["eval_accuracy"],
        n_trials=1,
        direction="maximize",
        backend="ray",
        resources_per_trial={"cpu": 1, "gpu": 0},
        storage_path=str(folder / "ray"),
        checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
        verbose=0,
    )
    return [float((folder / str(number)).read_text("utf-8")) for number in range(len(runs))]


def main() -> None:
    """Train the seed runs of a study and write their test scores."""
    folder = Path(sys.argv[1])
    work = json.loads((folder / "work.json").read_text(encoding="utf-8"))
    options = RunOptions(**work["options"], gpus_per_trial=0)
    study = resolve(StudySpec(**work["study"]), options)
    splits = [study.splits(number) for number in range(study.seeds)]
    tokens = study.tokenized(splits)[study.lengths()[-1]]
    runs = [
        (study.seed_run_spec(values, number, rows), tokens)
        for values in study.space.published
        for number, rows in enumerate(splits)
    ]
    if work["search"]:
        scores = search(runs, work["cores"], folder)
    else:
        torch.set_num_threads(work["cores"])
        scores = [score(run) for run in runs]
    (folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")


if __name__ == "__main__":
    main()
