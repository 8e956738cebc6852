"""Paraphrase files: selection of the texts, and a writer that resumes an interrupted file."""

import json
import os
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sclsearch.canonical import check_regular, digest
from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation import Backend
from sclsearch.protocols import PROTOCOLS, find_protocol
from sclsearch.protocols.base import Protocol, Size
from sclsearch.protocols.rows import Unlabeled, check_unlabeled, draw_rows
from sclsearch.protocols.variants import for_rows, fresh
from sclsearch.tasks import CORPORA, TASKS, as_task
from sclsearch.tasks.base import TaskData, Texts
from sclsearch.tasks.custom import CustomTask, as_options
from sclsearch.tasks.paraphrases import FORMAT, READ, paraphrase_source

# Default protocol of CSSL, which reads paraphrases.
FEW_SHOT = PROTOCOLS["cmlm-fewshot"]
READER = "cssl"


@dataclass(frozen=True, slots=True)
class TextSelection:
    """Selection of a task's training texts: those that the replicates of a protocol draw, or all.

    `unlabeled` are the texts of a replicate's stages without labels; None for its training
    examples.
    """

    task: str | CustomTask
    protocol: Protocol | None
    size: Size | None
    replicates: int
    unlabeled: Unlabeled | None = None

    @property
    def name(self) -> str:
        return self.task if isinstance(self.task, str) else self.task.task_name

    @property
    def default_protocol(self) -> Protocol | None:
        """Default protocol of `tune`; None if it depends on the method."""
        if self.size is not None:
            return FEW_SHOT
        return None if isinstance(self.task, str) else PROTOCOLS["plain"]

    @property
    def header(self) -> dict[str, Any]:
        header = {
            "task": self.name,
            "size": str(self.size or "full"),
            "protocol": self.protocol and self.protocol.name,
            "replicates": self.replicates,
        }
        return header if self.unlabeled is None else {**header, "unlabeled": self.unlabeled}

    @property
    def file_name(self) -> str:
        words = [self.name, str(self.size or "full")]
        if self.protocol and self.protocol is not self.default_protocol:
            words.append(self.protocol.name)
        if self.unlabeled is not None:
            words.append(f"unlabeled-{self.unlabeled}")
        return "-".join(words)

    @property
    def options(self) -> list[str]:
        """Options of `tune` for training on these texts.

        The method is one that reads paraphrases, or one that trains on them as further rows.
        """
        method = READER
        if self.joined:
            task = TASKS[self.task] if isinstance(self.task, str) else self.task
            method = "ce" if task.regression else "scl"
        words = ["--method", method, *as_options(self.task)]
        if self.protocol and self.protocol is not self.default_protocol:
            words += ["--protocol", self.protocol.name]
        if self.size is not None:
            sizes = {"--train-size": self.size.total, "--shots": self.size.per_class}
            words += [w for name, n in sizes.items() if n is not None for w in (name, str(n))]
        if self.unlabeled is not None:
            words += ["--unlabeled", str(self.unlabeled)]
        if self.protocol and self.replicates < self.protocol.replicates:
            words += ["--seeds", str(self.replicates)]
            words += ["--rule", "mean"] if self.replicates < self.protocol.rule.least else []
        return words

    @property
    def joined(self) -> int:
        return self.protocol.joined if self.protocol else 0

    def views(self, requested: int | None) -> int:
        """Return the number of paraphrases per text: as requested, or as training requires."""
        if requested is not None and requested < self.joined:
            raise SclsearchError(
                f"--views: must be at least {self.joined}, the number that "
                f"{self.header['protocol']} adds to each training row, got {requested}. "
                "Leave it out."
            )
        return requested or max(READ, self.joined)

    def check_english(self, backend: str) -> None:
        """Raise SclsearchError if the texts of a published task are not English."""
        corpus = CORPORA.get(self.name) if isinstance(self.task, str) else None
        if corpus and not corpus.english:
            raise SclsearchError(
                f"--backend {backend}: needs English texts, but those of {self.task} are Chinese. "
                "Take --backend eda."
            )

    def texts(self, data: TaskData) -> tuple[Texts, ...]:
        """Return the distinct texts, without blank ones."""
        unlabeled = data.splits["train"].unlabeled
        check_unlabeled(self.protocol, unlabeled, self.size, self.unlabeled)
        if self.protocol is None:
            rows = iter(data.splits["train"].texts)
        else:
            data = self.protocol.data(data)
            protocol, _ = for_rows(self.protocol, data, None)
            own = min(self.replicates, protocol.replicates)
            replicates = [protocol.replicate(number) for number in range(own)]
            if further := self.replicates - own:
                again = fresh(protocol, further)
                replicates += [again.replicate(number) for number in range(further)]
            drawn = [
                draw_rows(protocol, data, self.size, self.unlabeled, one).without_labels
                for one in replicates
            ]
            rows = (data.splits[part.split].texts[row] for part in drawn for row in part.index)
        return tuple(row for row in dict.fromkeys(rows) if any(text.strip() for text in row))


def select_texts(
    task: str | CustomTask,
    protocol: str | None = None,
    train_size: int | None = None,
    shots: int | None = None,
    replicates: int | None = None,
    unlabeled: Unlabeled | None = None,
) -> TextSelection:
    """Return the selection of texts that the options specify."""
    size = Size.of(train_size, shots)
    task = as_task(task)
    chosen = TextSelection(task, None, size, 0).default_protocol
    if protocol is not None:
        chosen = find_protocol(protocol)
        chosen.check_size(size, FEW_SHOT.name)
    if isinstance(task, str):
        check_unlabeled(chosen, 0, size, unlabeled)
    if chosen is None and replicates is not None:
        raise SclsearchError(
            "--replicates: does not apply to all training texts. Leave it out, or give a training "
            "size or a protocol."
        )
    count = replicates or (chosen.replicates if chosen else 0)
    return TextSelection(task, chosen, size, count, unlabeled)


@dataclass(frozen=True, slots=True)
class Written:
    """Counts of a written paraphrase file: all texts and those of earlier runs, new paraphrases.

    `same` counts new paraphrases that equal their text, `empty` those for which the back-end found
    nothing, and `equal` the rows whose first two paraphrases, the contrasted ones, are equal.
    """

    texts: int
    earlier: int
    paraphrases: int
    same: int
    empty: int
    equal: int


def header(
    name: str,
    views: int,
    backend: Backend,
    selection: TextSelection,
    data: TaskData,
    rows: Sequence[Texts],
) -> dict[str, Any]:
    """Return the first line of a file: the origin of its paraphrases and of their texts."""
    return {
        "paraphrases": FORMAT,
        **backend.header(),
        "backend": name,
        "views": views,
        **selection.header,
        "data": data.digest,
        "texts": {"count": len(rows), "digest": digest(rows)},
        "date": datetime.now(UTC).date().isoformat(),
        "sclsearch": version("sclsearch"),
    }


def write(
    path: Path,
    first: Mapping[str, Any],
    rows: Sequence[Texts],
    backend: Backend,
    on_progress: Callable[[int], None],
) -> Written:
    """Write the paraphrases of each row; the texts of a pair are paraphrased separately.

    The batches depend on the distinct `rows` alone, so that a resumed file equals an uninterrupted
    one. Existing rows are kept; an existing header must equal `first` except for the date.
    `on_progress` receives the number of finished rows after each batch.
    """
    done = _open(path, first)
    pairs: list[tuple[str, str]] = []
    finished, equal = len(done), 0
    on_progress(finished)
    # Rows of similar length form a batch; the longest, which need most memory, come first.
    order = sorted(rows, key=lambda row: (-sum(map(len, row)), row))
    for start in range(0, len(order), backend.at_once):
        batch = order[start : start + backend.at_once]
        new = [row for row in batch if row not in done]
        if not new:
            continue
        texts = list(dict.fromkeys(text for row in batch for text in row if text.strip()))
        found = dict(zip(texts, backend.paraphrases(texts), strict=True))
        records = [_record(row, found) for row in new]
        with _writing(path), path.open("a", encoding="utf-8") as file:
            file.writelines(map(_line, records))
        pairs += [(text, view) for row in new for text in row for view in found.get(text, ())]
        finished += len(new)
        equal += sum(record["paraphrases"][0] == record["paraphrases"][1] for record in records)
        on_progress(finished)
    return Written(
        texts=finished,
        earlier=len(done),
        paraphrases=len(pairs),
        same=sum(_or_text(view, text).split() == text.split() for text, view in pairs),
        empty=sum(not view.strip() for _, view in pairs),
        equal=equal,
    )


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SclsearchError(
            f"--out {path}: cannot be written: {error}. Make room or allow writing there and run "
            "the same command again, or name another file."
        ) from error


def _record(row: Texts, found: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    count = max(len(found.get(text, ())) for text in row)
    # If one text of a pair is empty in the data, it needs no paraphrase.
    splits = [[_or_text(view, text) for view in found.get(text, ("",) * count)] for text in row]
    return {"text": row, "paraphrases": list(zip(*splits, strict=True))}


def _or_text(view: str, text: str) -> str:
    return view if view.strip() else text


def _open(path: Path, first: Mapping[str, Any]) -> set[Texts]:
    """Create the file or check its header; return its rows, without an incomplete last line."""
    if not path.exists():
        part = path.with_name(f".{path.name}.part")
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(_line(first), encoding="utf-8")
            part.replace(path)
        return set()
    with _writing(path):
        check_regular(path)
        content = path.read_bytes()
    line, end, _ = content.partition(b"\n")
    try:
        there = json.loads(line) if end else None
    except ValueError:
        there = None
    if not isinstance(there, dict) or "paraphrases" not in there:
        raise SclsearchError(
            f"--out {path}: is no paraphrase file, its first line is no header of paraphrases. "
            "Name another file."
        )
    here = json.loads(_line(first))
    differing = [
        f"{key} is {reprlib.repr(there.get(key))} there and {reprlib.repr(here.get(key))} here"
        for key in dict.fromkeys([*here, *there])
        if key != "date" and there.get(key) != here.get(key)
    ]
    if differing:
        raise SclsearchError(
            f"--out {path}: was begun with other options: {'; '.join(differing)}. Give the same "
            "options, or name another file."
        )
    with _writing(path):
        os.truncate(path, content.rfind(b"\n") + 1)
    return set(paraphrase_source(path).rows)


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
