"""Claims of benchmarks/evidence.md, from claims.csv, and the commands that train their sides."""

import csv
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("benchmarks/evidence")
"""Claims, search spaces, and the seed runs of each study."""
MODEL = "minilm"
SEEDS, FRESH = 10, 30
"""Seeds of each search, and fresh seeds of its winner."""
EPOCHS = {20: 30, 100: 8, 200: 4, 352: 3}
"""Epochs of fine-tuning by number of examples: 52 to 66 updates of 16 texts, 150 if noisy."""
FEWSHOT, NOISY, IMBALANCED = "gunel-fewshot", "gunel-noisy", "lacon-imbalance:10"
CONDITIONS = {FEWSHOT: "", NOISY: "noisy", IMBALANCED: "1:10"}
"""Label of each protocol's training rows in the tables."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a claim: a method on a task.

    Attributes:
        name: The method, and the value of a field if the space has another one: `lacon heads=1`.
        size: Number of training examples.
        protocol: A key of `CONDITIONS`. `gunel-noisy` adds three paraphrases of each example by
            EDA; `lacon-imbalance:10` takes 32 examples of one class and 320 of the other.
    """

    name: str
    task: str
    size: int
    protocol: str = FEWSHOT
    model: str = MODEL

    @property
    def method(self) -> str:
        return self.name.partition(" ")[0]

    @property
    def condition(self) -> str:
        """Return the task and the label of its training rows: `sst2, noisy`."""
        return f"{self.task}, {CONDITIONS[self.protocol]}".removesuffix(", ")

    @property
    def study(self) -> str:
        """Return the name of the study that searches this side: `lacon-heads-1-sst2-100`."""
        model = "" if self.model == MODEL else self.model.rpartition("/")[2]
        parts = (self.name, self.task, str(self.size), CONDITIONS[self.protocol], model)
        return "-".join(re.findall(r"[\w.]+", " ".join(parts)))

    def commands(self, storage: Path) -> Iterator[str]:
        """Yield the commands that write paraphrases, search, and train the winner again."""
        rows = f"--task {self.task} --protocol {self.protocol}"
        if self.protocol != IMBALANCED:
            rows += f" --train-size {self.size}"
        fields = f"--epochs {EPOCHS[self.size]}"
        if setting := self.name.partition(" ")[2]:
            fields += f" --set {shlex.quote(setting)}"
        if self.protocol == NOISY:
            file = shlex.quote(f"{storage}/{self.task}-{self.size}-noisy.jsonl")
            fields += f" --paraphrases {file}"
            drawn = f"{rows} --replicates {SEEDS + FRESH}"
            yield f"sclsearch augment --backend eda {drawn} --out {file}"
        stored = f"--tracking none --storage {shlex.quote(str(storage))}"
        yield (
            f"sclsearch tune --study {self.study} --method {self.method} {rows} "
            f"--model {self.model} --space {FOLDER}/{self.method}.yaml {fields} --scale laptop "
            f"--seeds {SEEDS} --rule mean --sampler grid --race off {stored}"
        )
        yield f"sclsearch confirm {self.study} --seeds {FRESH} {stored}"


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim that the test score of one side is higher than that of the other.

    Attributes:
        paper: The paper that makes the claim for some task.
        better, reference: The sides, with the same task and examples.
        published: Difference in the paper's table of this task and number of examples.
    """

    paper: str
    better: Side
    reference: Side
    published: float | None

    @property
    def name(self) -> str:
        """Return the name on the command line: `scl-ce-sst2-20`."""
        return f"{self.better.method}-{self.reference.study}"


def _claims() -> Iterator[Claim]:
    with Path(__file__).with_name("claims.csv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            rows = line["task"], int(line["size"]), line["protocol"]
            better, reference = Side(line["better"], *rows), Side(line["reference"], *rows)
            published = float(line["published"]) / 100 if line["published"] else None
            yield Claim(line["paper"], better, reference, published)


CLAIMS = tuple(_claims())
"""Claims in the order of their training; the CSV file has published differences in points."""


def sides_of(claims: Iterable[Claim]) -> list[Side]:
    """Return the sides of claims, each once, in the order of their training."""
    return list(dict.fromkeys(side for one in claims for side in (one.reference, one.better)))
