"""Rows of benchmarks/evidence.md: claims of the papers, and the commands that train their sides."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from sclsearch.errors import SclsearchError
from sclsearch.papers.tables import published_tables, select_cells

DEFAULT_STORAGE = Path("evidence-storage")
FOLDER = Path("benchmarks/evidence")
"""Search spaces, and the seed runs of each study."""
MODEL = "minilm"
SEEDS, FRESH = 10, 30
EPOCHS = {20: 30, 100: 8, 200: 4, 352: 3}
"""Epochs of fine-tuning by number of examples: 52 to 66 updates of 16 texts, 150 if noisy."""
FEWSHOT, NOISY, IMBALANCED = "gunel-fewshot", "gunel-noisy", "lacon-imbalance:10"
CONDITIONS = {FEWSHOT: "", NOISY: "noisy", IMBALANCED: "1:10"}
"""Label of each protocol's training rows in the tables."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a row: a method on a task.

    Attributes:
        method: The method's name, and that of its space in `benchmarks/evidence/`.
        task: The task's name.
        size: Number of training examples.
        protocol: The protocol's name. `gunel-noisy` adds three paraphrases of each example by EDA;
            `lacon-imbalance:10` takes 32 examples of one class and 320 of the other.
        setting: A field with a value other than that of the space, as `--set` takes it.
    """

    method: str
    task: str
    size: int
    protocol: str = FEWSHOT
    setting: str = ""

    @property
    def name(self) -> str:
        """Return the name of the method with its setting: `lacon heads=1`."""
        return f"{self.method} {self.setting}".rstrip()

    @property
    def condition(self) -> str:
        """Return the task and the label of its training rows: `sst2, noisy`."""
        return f"{self.task}, {CONDITIONS[self.protocol]}".removesuffix(", ")

    def study(self, model: str) -> str:
        """Return the name of the study that searches this side."""
        encoder = "" if model == MODEL else model.rpartition("/")[2]
        parts = (self.name, self.task, str(self.size), CONDITIONS[self.protocol], encoder)
        return "-".join(re.findall(r"[\w.]+", " ".join(parts)))

    def search(self, model: str, storage: Path) -> list[str]:
        """Return the command of the search."""
        noisy = self.protocol == NOISY
        noise = ["--paraphrases", str(self._paraphrases(storage))] if noisy else []
        size = [] if self.protocol == IMBALANCED else ["--train-size", str(self.size)]
        setting = ["--set", self.setting] if self.setting else []
        return [
            *("sclsearch", "tune", "--study", self.study(model), "--method", self.method),
            *("--task", self.task, *size, "--model", model, "--protocol", self.protocol),
            *(*noise, "--space", str(FOLDER / f"{self.method}.yaml")),
            *(*setting, "--epochs", str(EPOCHS[self.size]), "--scale", "laptop"),
            *("--seeds", str(SEEDS)),
            *("--rule", "mean", "--sampler", "grid", "--race", "off", "--tracking", "none"),
            *("--storage", str(storage)),
        ]

    def confirmation(self, model: str, storage: Path) -> list[str]:
        """Return the command that trains the winner on fresh seeds."""
        options = ("--tracking", "none", "--storage", str(storage))
        return ["sclsearch", "confirm", self.study(model), "--seeds", str(FRESH), *options]

    def paraphrasing(self, storage: Path) -> list[str]:
        """Return the command that writes the paraphrases; empty without them."""
        if self.protocol != NOISY:
            return []
        return [
            *("sclsearch", "augment", "--backend", "eda", "--protocol", NOISY),
            *("--task", self.task, "--train-size", str(self.size)),
            *("--replicates", str(SEEDS + FRESH), "--out", str(self._paraphrases(storage))),
        ]

    def _paraphrases(self, storage: Path) -> Path:
        return storage / f"{self.task}-{self.size}-noisy.jsonl"


@dataclass(frozen=True, slots=True)
class Row:
    """Claim that the test score of one side is higher than that of the other.

    Attributes:
        paper: The paper that makes the claim for some task.
        better: The side that the claim says is better.
        reference: The other side, with the same task and examples.
        table: Published table with this task and number of examples; empty without one.
        cells: Selectors of the cells of `better` and `reference` in it.
    """

    paper: str
    better: Side
    reference: Side
    table: str = ""
    cells: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        """Name on the command line: `scl-ce-sst2-20`."""
        return f"{self.better.method}-{self.reference.study(MODEL)}"

    def studies(self, model: str) -> tuple[str, str]:
        """Return the names of the studies of the reference and of the better side."""
        return self.reference.study(model), self.better.study(model)

    @property
    def published(self) -> float | None:
        """Published difference on the scale of the metric; None without a table."""
        if not self.table:
            return None
        table = published_tables()[self.table]
        cells = [select_cells(table, [selector])[0] for selector in self.cells]
        better, reference = (table.as_metric(cell)[0] for cell in cells)
        return better - reference


PAPERS = {
    "Gunel et al.": "https://arxiv.org/abs/2011.01403",
    "LaCon": "https://arxiv.org/abs/2205.10227",
    "SupCL-Seq": "https://arxiv.org/abs/2109.07424",
    "CMLM": "https://arxiv.org/abs/2106.02327",
}


def _scl(task: str, size: int, protocol: str = FEWSHOT) -> Row:
    scl, ce = (Side(method, task, size, protocol) for method in ("scl", "ce"))
    row = Row("Gunel et al.", scl, ce)
    if task != "sst2" or protocol == NOISY:  # the paper's noisy examples are back-translations
        return row
    cells = (f"N={size},CE + SCL,SST-2", f"N={size},CE,SST-2")
    return replace(row, table="gunel/table-4", cells=cells)


def _row(paper: str, better: str, reference: str, task: str, size: int) -> Row:
    return Row(paper, Side(better, task, size), Side(reference, task, size))


def _setting(paper: str, side: Side, setting: str) -> Row:
    """Return the claim that a side is better than it is with another setting."""
    return Row(paper, side, replace(side, setting=setting))


def _cmlm(better: str, reference: str, task: str) -> Row:
    row = _row("CMLM", better, reference, task, 100)
    if task != "sst2":
        return row
    names = {"ce": "FT", "tapt": "TAPT", "cmlm": "CMLM"}
    cells = (f"N=100,{names[better]},SST-2", f"N=100,{names[reference]},SST-2")
    return replace(row, table="cmlm/table-1", cells=cells)


ROWS = (
    *(_scl(task, n) for task in ("sst2", "dbpedia", "amazon2") for n in (20, 100)),
    *(_row("LaCon", "lacon", "ce", task, 100) for task in ("sst2", "dbpedia", "amazon2")),
    _row("LaCon", "lacon", "scl", "sst2", 100),
    *(_setting("LaCon", Side("lacon", task, 100), "heads=1") for task in ("sst2", "dbpedia")),
    *(_setting("LaCon", Side("lacon", "dbpedia", 100), f"{part}=false") for part in ("icl", "lcl")),
    Row("LaCon", Side("lacon", "sst2", 352, IMBALANCED), Side("ce", "sst2", 352, IMBALANCED)),
    *(
        _row("SupCL-Seq", "supcl-seq", reference, task, size)
        for (task, size), reference in product((("sst2", 100), ("amazon2", 200)), ("ce", "simcse"))
    ),
    _row("SupCL-Seq", "supcl-seq", "dropout-aug", "amazon2", 200),
    _setting(
        "SupCL-Seq",
        Side("supcl-seq", "amazon2", 200, setting="dropouts=[0.0,0.1,0.2,0.3]"),
        "dropouts=[0.0,0.1]",
    ),
    *(
        _cmlm(*sides, task)
        for task in ("sst2", "amazon2")
        for sides in (("tapt", "ce"), ("cmlm", "tapt"), ("cmlm", "ce"))
    ),
    _setting("CMLM", Side("cmlm", "amazon2", 100), "masking=drm"),
    *(_scl(task, n, NOISY) for task in ("sst2", "dbpedia", "amazon2") for n in (20, 100)),
)
"""Rows of the page and of `benchmarks/evidence.sh`, in the order of their training."""


def sides_of(rows: Sequence[Row]) -> list[Side]:
    """Return the sides of rows, each once, in the order of their training."""
    return list(dict.fromkeys(side for row in rows for side in (row.reference, row.better)))


def commands(rows: Sequence[Row], model: str, storage: Path) -> Iterator[list[str]]:
    """Yield the commands that train rows; finished ones train nothing when they run again."""
    for side in sides_of(rows):
        if paraphrasing := side.paraphrasing(storage):
            yield paraphrasing
        yield side.search(model, storage)
        yield side.confirmation(model, storage)


def planned(rows: Sequence[Row], model: str, storage: Path) -> Iterator[list[str]]:
    """Yield the study, missing seed runs of search and confirmation, and hours of each side.

    The confirmation of an unfinished search has all its seeds to train, as long as its seed runs.
    """
    search, fresh, hours = 0, 0, 0.0
    for side in sides_of(rows):
        try:
            own = _planned(side, model, storage)
        except SclsearchError as error:
            yield [side.study(model), "", "", str(error).partition("\n")[0]]
            continue
        search, fresh, hours = search + own[0], fresh + own[1], hours + own[2]
        yield [side.study(model), str(own[0]), str(own[1]), f"{own[2]:.1f}"]
    yield ["all", str(search), str(fresh), f"{hours:.1f}"]


def _planned(side: Side, model: str, storage: Path) -> tuple[int, int, float]:
    search, seconds = _needed(side.search(model, storage))
    if search:
        return search, FRESH, seconds * (1 + FRESH / search) / 3600
    fresh, seconds = _needed(side.confirmation(model, storage))
    return 0, fresh, seconds / 3600


def _needed(command: Sequence[str]) -> tuple[int, float]:
    """Return the likely number of missing seed runs of a command, and their seconds."""
    dry = [*command, "--dry-run", "--json"]
    done = subprocess.run(dry, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SclsearchError(done.stderr.strip())
    plan = json.loads(done.stdout)
    return plan["needed"][1], (plan["time"] or {}).get("seconds") or 0.0
