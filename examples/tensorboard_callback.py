"""TensorBoard: curves of each seed run, and the score of each configuration.

Run it, then `tensorboard --logdir tensorboard`. It needs `pip install tensorboard`.
"""

from torch.utils.tensorboard import SummaryWriter

import sclsearch
from sclsearch.tasks.metrics import value


class TensorBoard(sclsearch.Callback):
    """Writer of search events to TensorBoard, one folder per study and seed run."""

    def __init__(self, folder):
        self.folder = folder

    def on_study(self, study):
        self.study = f"{self.folder}/{study.name}"

    def on_seed_run(self, task, run, *, stored):
        name = "configuration-{}-seed-{}".format(*task.id)
        with SummaryWriter(f"{self.study}/{name}") as writer:
            for one in run.evaluations:
                metric = run.identity["metric"]
                writer.add_scalar(metric, value(metric, one["validation"]), one["update"])
                for loss, amount in one["loss"].items():
                    writer.add_scalar(f"loss/{loss}", amount, one["update"])

    def on_score(self, score):
        with SummaryWriter(self.study) as writer:
            writer.add_scalar("score of configuration", score.score, score.number)


if __name__ == "__main__":
    data = {"task": "demo", "train_size": 40, "model": "minilm"}
    budget = {"configs": 2, "seeds": 2, "rule": "mean", "settings": {"epochs": 1}}
    sclsearch.tune(method="scl", callbacks=[TensorBoard("tensorboard")], **data, **budget)
