"""A corpus: a task whose rows stand in files as published, and mostly on the Hugging Face hub."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from sclsearch.errors import SclsearchError
from sclsearch.tasks.base import Split, Task, TaskData, Texts
from sclsearch.tasks.tables import (
    Row,
    Table,
    check_faults,
    check_rows,
    row_faults,
    rows_to_split,
)

Reader = Callable[[Path, tuple[str, ...]], Table]

SENTENCES = ("sentence1", "sentence2")
# The hub stores scores as float32, the files hold up to 14 decimals: so many agree.
SCORE_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Hub:
    """Where a corpus is on the Hugging Face hub.

    Attributes:
        repository: Name of the data set, `nyu-mll/glue`.
        revision: The commit that is taken.
        config: What the repository calls the task.
        columns: Columns of the texts; the label's is `label`.
        names: Names of the classes there; empty where they are the task's.
        splits: Names of splits there, where they differ.
    """

    repository: str
    revision: str
    config: str
    columns: tuple[str, ...]
    names: tuple[str, ...] = ()
    splits: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Corpus:
    """A task and how its rows are written.

    Attributes:
        task: The task; its labels stand in the order of the hub's.
        origin: Where the files are to be had, for people.
        folder: The folder that holds them, as the distribution names it.
        files: File of each split; those without labels are not among them.
        read: Reads some columns of such a file.
        columns: Columns of the files: the texts, then the label.
        hub: Where the hub has the same rows; None where it does not.
        written: The labels as the files write them, in the task's order; empty where they are
            the task's.
        undecided: What the files write where annotators did not agree. Such rows are left out,
            and the source says so.
        distinct: Whether a text that comes again in a file is left out there; the source says so.
        broken_lines: How many lines of a file may have too few or too many cells. They are left
            out, as the hub leaves them out, and the source says so.
        blank_texts: Whether a text may be empty.
        clean: Makes a text of the files or the hub what is trained on.
        joined: Whether the texts of a row become one, as a title and what stands under it.
    """

    task: Task
    origin: str
    folder: str
    files: Mapping[str, str]
    read: Reader
    columns: tuple[str, ...]
    hub: Hub | None = None
    written: tuple[str, ...] = ()
    undecided: str | None = None
    distinct: bool = False
    broken_lines: int = 0
    blank_texts: bool = False
    clean: Callable[[str], str] = str.rstrip
    joined: bool = False

    @property
    def classes(self) -> Mapping[str, int] | None:
        """Class of each label as the files write it; None in regression."""
        if self.task.regression:
            return None
        return {name: n for n, name in enumerate(self.written or self.task.labels)}

    @property
    def ways(self) -> str:
        """What to do to have the rows."""
        places = " and ".join(f"FOLDER/{self.folder}/{file}" for file in self.files.values())
        files = f"--data-dir FOLDER (or SCLSEARCH_DATA=FOLDER) with {places} from {self.origin}"
        if self.hub is None:
            return f"There is one way to {self.task.name}'s rows: {files}."
        return (
            f"There are two ways to {self.task.name}'s rows: {files}; or neither of them, which "
            f"takes {self.hub.repository} from the Hugging Face hub or its cache."
        )

    def texts(self, cells: tuple[str, ...]) -> Texts:
        """Returns what is trained on, of the cells of the files or the hub."""
        texts = tuple(self.clean(cell) for cell in cells)
        return (" ".join(text for text in texts if text),) if self.joined else texts


def load_corpus(corpus: Corpus, folder: Path) -> TaskData:
    """Reads a corpus from its own files.

    Args:
        corpus: The corpus.
        folder: The folder that holds `corpus.folder`.

    Raises:
        SclsearchError: A file is missing or a row of it cannot be used.
    """
    paths = {split: folder / corpus.folder / file for split, file in corpus.files.items()}
    _check_files(corpus, list(paths.values()))
    splits, notes = {}, ""
    for split, path in paths.items():
        table, note = _sound(corpus, corpus.read(path, corpus.columns))
        splits[split] = _split(corpus, table)
        notes += note
    return TaskData(corpus.task, splits, f"{folder / corpus.folder}{notes}")


def _check_files(corpus: Corpus, paths: list[Path]) -> None:
    missing = [path for path in paths if not path.is_file()]
    if missing:
        lines = [f"{path}: the file must be there, but it is not." for path in missing]
        raise SclsearchError("\n".join([*lines, corpus.ways]))


def _sound(corpus: Corpus, table: Table) -> tuple[Table, str]:
    rows, faults, note = table.rows, table.faults, ""
    if 0 < len(faults) <= corpus.broken_lines:
        note += f"; {len(faults)} broken lines of {table.path.name} left out"
        faults = []
    if corpus.undecided is not None:
        rows = [row for row in rows if row.cells[-1] != corpus.undecided]
        if len(rows) < len(table.rows):
            dropped = len(table.rows) - len(rows)
            note += f"; {dropped} rows of {table.path.name} labelled {corpus.undecided!r} left out"
    if corpus.distinct:
        first: dict[Texts, Row] = {}
        for row in rows:
            first.setdefault(corpus.texts(row.cells[:-1]), row)
        if len(first) < len(rows):
            note += (
                f"; {len(rows) - len(first)} texts of {table.path.name} that come again left out"
            )
            rows = [*first.values()]
    return Table(table.path, rows, faults, table.unit), note


def _split(corpus: Corpus, table: Table) -> Split:
    # One by one in place, so that millions of texts are not in memory twice.
    for n, row in enumerate(table.rows):
        *cells, label = row.cells
        table.rows[n] = Row(row.place, (*corpus.texts(tuple(cells)), label))
    check_rows(table, table.rows)
    check_faults(table, row_faults(table.rows, corpus.classes, blank_texts=corpus.blank_texts))
    split = rows_to_split(table.rows, corpus.classes)
    return Split(split.texts, split.y.round(SCORE_DECIMALS)) if corpus.task.regression else split
