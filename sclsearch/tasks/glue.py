"""GLUE's nine tasks (Wang et al., 2019, https://arxiv.org/abs/1804.07461) and their TSV files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from sclsearch.errors import SclsearchError, lookup
from sclsearch.tasks.base import Split, Task, TaskData
from sclsearch.tasks.tables import (
    Row,
    Table,
    check_faults,
    check_rows,
    row_faults,
    rows_to_split,
)
from sclsearch.tasks.tsv import load_tsv

SENTENCES = ("sentence1", "sentence2")
SPLITS: Mapping[str, str] = MappingProxyType({"train": "train.tsv", "validation": "dev.tsv"})
MNLI_SPLITS: Mapping[str, str] = MappingProxyType(
    {
        "train": "train.tsv",
        "validation": "dev_matched.tsv",
        "validation_mismatched": "dev_mismatched.tsv",
    }
)

# The hub stores scores as float32, the files hold up to 14 decimals: so many agree.
SCORE_DECIMALS = 6
WAYS = (
    "There are two ways to GLUE's rows: --data-dir FOLDER (or SCLSEARCH_DATA=FOLDER) with GLUE's "
    "TSV files as FOLDER/CoLA/train.tsv; or neither of them, which takes nyu-mll/glue from the "
    "Hugging Face hub or its cache."
)


@dataclass(frozen=True, slots=True)
class Glue:
    """A task and how its rows are written.

    Attributes:
        task: The task; its labels stand in the order of the hub's `nyu-mll/glue`.
        folder: Its folder in GLUE's own distribution.
        columns: Columns of the TSV files: one or two texts, then the label.
        hub_columns: Columns of the texts on the hub.
        header: All columns, where the TSV files have no header.
        named: Whether the TSV files write a label as its name; else as its number.
        files: TSV file of each split. `test.tsv` is not among them: it has no labels.
        broken_lines: How many lines of a file may have too few or too many cells. They are left
            out, as the hub leaves them out, and the source says so.
        blank_texts: Whether a text may be empty.
    """

    task: Task
    folder: str
    columns: tuple[str, ...]
    hub_columns: tuple[str, ...]
    header: tuple[str, ...] | None = None
    named: bool = False
    files: Mapping[str, str] = field(default_factory=lambda: SPLITS)
    broken_lines: int = 0
    blank_texts: bool = False

    @property
    def classes(self) -> Mapping[str, int] | None:
        """Class of each label as the TSV files write it; None in regression."""
        if self.task.regression:
            return None
        return {name if self.named else str(n): n for n, name in enumerate(self.task.labels)}


GLUE: Mapping[str, Glue] = MappingProxyType(
    {
        glue.task.name: glue
        for glue in (
            Glue(
                Task("cola", "is a sentence grammatical", ("unacceptable", "acceptable"), "mcc"),
                "CoLA",
                ("sentence", "label"),
                ("sentence",),
                header=("source", "label", "mark", "sentence"),
            ),
            Glue(
                Task("sst2", "is a film review positive", ("negative", "positive"), "accuracy"),
                "SST-2",
                ("sentence", "label"),
                ("sentence",),
            ),
            Glue(
                Task(
                    "mrpc",
                    "do two sentences of news say the same",
                    ("not_equivalent", "equivalent"),
                    "f1",
                    pair=True,
                ),
                "MRPC",
                ("#1 String", "#2 String", "Quality"),
                SENTENCES,
            ),
            Glue(
                Task(
                    "rte",
                    "does a text entail a sentence",
                    ("entailment", "not_entailment"),
                    "accuracy",
                    pair=True,
                ),
                "RTE",
                (*SENTENCES, "label"),
                SENTENCES,
                named=True,
            ),
            Glue(
                Task(
                    "qnli",
                    "does a sentence hold the answer to a question",
                    ("entailment", "not_entailment"),
                    "accuracy",
                    pair=True,
                ),
                "QNLI",
                ("question", "sentence", "label"),
                ("question", "sentence"),
                named=True,
            ),
            Glue(
                Task(
                    "qqp",
                    "do two questions ask the same",
                    ("not_duplicate", "duplicate"),
                    "f1",
                    pair=True,
                ),
                "QQP",
                ("question1", "question2", "is_duplicate"),
                ("question1", "question2"),
                # A few questions of the official files are empty or hold a line end, which
                # breaks their row in two.
                broken_lines=10,
                blank_texts=True,
            ),
            Glue(
                Task(
                    "mnli",
                    "does a premise entail a hypothesis, contradict it, or neither",
                    ("entailment", "neutral", "contradiction"),
                    "accuracy",
                    pair=True,
                ),
                "MNLI",
                (*SENTENCES, "gold_label"),
                ("premise", "hypothesis"),
                named=True,
                files=MNLI_SPLITS,
            ),
            Glue(
                # Papers print Pearson/Spearman; the first of the two is the metric.
                Task("stsb", "how alike are two sentences, 0 to 5", (), "pearson", pair=True),
                "STS-B",
                (*SENTENCES, "score"),
                SENTENCES,
            ),
            Glue(
                Task(
                    "wnli",
                    "does a sentence follow with its pronoun resolved",
                    ("not_entailment", "entailment"),
                    "accuracy",
                    pair=True,
                ),
                "WNLI",
                (*SENTENCES, "label"),
                SENTENCES,
            ),
        )
    }
)


def load_glue(name: str, folder: Path) -> TaskData:
    """Reads a task from GLUE's own TSV files.

    White space at the end of texts is cut: SST-2 has some after every sentence. Scores are rounded
    to `SCORE_DECIMALS`.

    Args:
        name: Name of the task, `sst2`.
        folder: The folder that holds `CoLA`, `SST-2`, …

    Raises:
        SclsearchError: A file is missing or a row of it cannot be used.
    """
    glue = lookup(GLUE, name, "GLUE task")
    paths = {split: folder / glue.folder / file for split, file in glue.files.items()}
    _check_files(list(paths.values()))
    splits, notes = {}, []
    for split, path in paths.items():
        table = load_tsv(path, glue.columns, glue.header)
        if 0 < len(table.faults) <= glue.broken_lines:
            notes.append(f"; {len(table.faults)} broken lines of {path.name} left out")
            table = Table(path, table.rows, [])
        splits[split] = _split(glue, table)
    return TaskData(glue.task, splits, f"{folder / glue.folder}{''.join(notes)}")


def _check_files(paths: list[Path]) -> None:
    missing = [path for path in paths if not path.is_file()]
    if missing:
        lines = [f"{path}: the file must be there, but it is not." for path in missing]
        raise SclsearchError("\n".join([*lines, WAYS]))


def _split(glue: Glue, table: Table) -> Split:
    rows = [
        Row(row.place, (*(text.rstrip() for text in row.cells[:-1]), row.cells[-1]))
        for row in table.rows
    ]
    check_rows(table, rows)
    check_faults(table, row_faults(rows, glue.classes, blank_texts=glue.blank_texts))
    split = rows_to_split(rows, glue.classes)
    return Split(split.texts, split.y.round(SCORE_DECIMALS)) if glue.task.regression else split
