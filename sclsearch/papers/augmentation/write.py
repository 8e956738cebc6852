"""Writer for paraphrase files; it resumes an interrupted file."""

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

from sclsearch.canonical import digest
from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation.backends import Backend
from sclsearch.papers.augmentation.texts import TextSelection
from sclsearch.tasks.base import TaskData, Texts
from sclsearch.tasks.paraphrases import FORMAT, paraphrase_source


@dataclass(frozen=True, slots=True)
class Written:
    """Summary of a written paraphrase file.

    Attributes:
        earlier: Texts that the file had before this run.
        paraphrases: New paraphrases of nonempty texts.
        same: New paraphrases that equal their text.
        empty: Those of `same` for which the back-end found nothing.
        equal: Rows whose first two paraphrases, the contrasted ones, are equal.
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

    The batches depend on `rows` alone, so that a resumed file equals an uninterrupted one.

    Args:
        path: The file; existing rows are kept.
        first: Header of the file. An existing header must be equal except for the date.
        rows: Distinct texts.
        backend: The back-end.
        on_progress: Receives the number of finished rows after each batch.
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
    """Convert disk errors to an error message with instructions."""
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
