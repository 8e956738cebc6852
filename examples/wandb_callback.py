"""Weights & Biases: one run per seed run, grouped by configuration.

It needs `pip install wandb` and `wandb login`, or WANDB_MODE=offline.
"""

import wandb

import sclsearch
from sclsearch.tasks.metrics import value


class WeightsAndBiases(sclsearch.Callback):
    """Writer of seed runs to a Weights & Biases project."""

    def __init__(self, project):
        self.project = project

    def on_study(self, study):
        self.study = study.name

    def on_seed_run(self, task, run, *, stored):
        if stored:  # logged by an earlier start of the search
            return
        (number, seed), metric = task.id, run.identity["metric"]
        group = f"{self.study} #{number}"
        settings = {"study": self.study, "seed": seed, **task.configuration.fields}
        name = f"{group} seed {seed}"
        with wandb.init(project=self.project, group=group, name=name, config=settings) as logged:
            for one in run.evaluations:
                scores = {metric: value(metric, one["validation"]), **one["loss"]}
                logged.log(scores, step=one["update"])
            logged.summary[f"test {metric}"] = run.tested(metric)


if __name__ == "__main__":
    data = {"task": "demo", "train_size": 40, "model": "minilm"}
    budget = {"configs": 2, "seeds": 2, "rule": "mean", "settings": {"epochs": 1}}
    sclsearch.tune(method="scl", callbacks=[WeightsAndBiases("sclsearch")], **data, **budget)
