"""Published corpora: tasks stored in the files of a distribution or on the Hugging Face hub."""

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
# The hub stores scores as float32, the files with up to 14 decimals. Both agree on this many.
SCORE_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Hub:
    """Location of a corpus on the Hugging Face hub.

    Attributes:
        repository: Name of the data set, `nyu-mll/glue`.
        revision: Commit to load.
        config: Name of the task in the repository.
        columns: Columns of the texts; the label's column is `label`.
        names: Names of the classes on the hub; empty if they equal the task's.
        splits: Names of the splits on the hub, where they differ.
    """

    repository: str
    revision: str
    config: str
    columns: tuple[str, ...]
    names: tuple[str, ...] = ()
    splits: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Corpus:
    """Task with the location and format of its rows.

    Attributes:
        task: The task; its labels have the order of the hub's.
        origin: Where users can get the files, for people.
        folder: Folder of the files, as named by the distribution.
        files: File of each split with labels.
        read: Reads the given columns of such a file.
        columns: Columns of the files: the texts, then the label.
        hub: Location of the same rows on the hub; None if the hub does not have them.
        written: Labels as written in the files, in the task's order; empty if they equal the
            task's.
        undecided: Label in the files for rows without annotator agreement. Such rows are dropped,
            and the source states it.
        distinct: True if a repeated text in a file is dropped; the source states it.
        broken_lines: Maximum number of lines in a file with too few or too many cells. They are
            dropped, as on the hub, and the source states it.
        blank_texts: True if a text may be empty.
        clean: Converts a text of the files or the hub to the training text.
        joined: True if the texts of a row are joined into one, for example a title and its body.
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
        """Class of each label as written in the files; None in regression."""
        if self.task.regression:
            return None
        return {name: n for n, name in enumerate(self.written or self.task.labels)}

    @property
    def ways(self) -> str:
        """Instructions for getting the rows."""
        places = " and ".join(f"FOLDER/{self.folder}/{file}" for file in self.files.values())
        files = f"--data-dir FOLDER (or SCLSEARCH_DATA=FOLDER) with {places} from {self.origin}"
        if self.hub is None:
            return f"There is one way to {self.task.name}'s rows: {files}."
        return (
            f"There are two ways to {self.task.name}'s rows: {files}; or neither of them, which "
            f"takes {self.hub.repository} from the Hugging Face hub or its cache."
        )

    def texts(self, cells: tuple[str, ...]) -> Texts:
        """Return the training texts, given the cells of the files or the hub."""
        texts = tuple(self.clean(cell) for cell in cells)
        return (" ".join(text for text in texts if text),) if self.joined else texts


def load_corpus(corpus: Corpus, folder: Path) -> TaskData:
    """Read a corpus from its own files.

    Args:
        corpus: The corpus.
        folder: Folder that contains `corpus.folder`.

    Raises:
        SclsearchError: A file is missing or one of its rows is invalid.
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
    # In place, one row at a time, so that millions of texts are in memory only once.
    for n, row in enumerate(table.rows):
        *cells, label = row.cells
        table.rows[n] = Row(row.place, (*corpus.texts(tuple(cells)), label))
    check_rows(table, table.rows)
    check_faults(table, row_faults(table.rows, corpus.classes, blank_texts=corpus.blank_texts))
    split = rows_to_split(table.rows, corpus.classes)
    return Split(split.texts, split.y.round(SCORE_DECIMALS)) if corpus.task.regression else split
