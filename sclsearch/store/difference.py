"""How a stored study differs from the one that is asked for, in words."""

import re
from collections.abc import Mapping

from sclsearch.canonical import canonical
from sclsearch.store.records import StudyRecord

_DIGEST = re.compile(r"[0-9a-f]{64}")
# What a digest is of, and where the record has its place.
_CONTENTS = {
    "data": ("rows", "source"),
    "train": ("training rows", "source"),
    "validation": ("validation rows", "source"),
    "test": ("test rows", "source"),
    "unlabelled": ("unlabelled rows", "source"),
    "without_label": ("texts without label", "source"),
    "weights": ("weights", "model"),
    "method_file": ("contents of the method's file", "method"),
    "paraphrases": ("paraphrases", "paraphrases"),
}


def difference(field: str, was: object, now: object, asked: StudyRecord) -> str:
    """Returns what must stay and what there is; of contents not their digests, but where they are.

    Args:
        field: What differs.
        was: Its value in the stored study.
        now: Its value in the study that is asked for.
        asked: The record of that one.
    """
    was, now = _apart(was, now)
    if not any(_DIGEST.fullmatch(str(value)) for value in (was, now)):
        told = f"{field} must stay {_short(was)}, but it is {_short(now)}"
        return f"{told}. Give another --study, or the same {field} as before."
    contents = field.partition(" of replicate ")[0]
    called, origin = _CONTENTS.get(contents, (contents, "source"))
    called = field.replace(contents, called, 1)
    place = f" ({asked.origin[origin]})" if asked.origin.get(origin) else ""
    if was is None:
        told = f"there must be no {called}{place}, as when the study began, but there are"
    elif now is None:
        told = f"there must be {called}, as when the study began, but there are none"
    else:
        told = f"{called}{place} must stay what they were when the study began, but they changed"
    return f"{told}. Give another --study, or what was there before."


def _apart(was: object, now: object) -> tuple[object, object]:
    """Returns both without what they have in common by key."""
    if not (isinstance(was, Mapping) and isinstance(now, Mapping)):
        return was, now
    both = {**was, **now}
    names = [name for name in both if canonical(was.get(name)) != canonical(now.get(name))]
    splits = {name: _apart(was.get(name), now.get(name)) for name in names}
    before, after = ({name: part[side] for name, part in splits.items()} for side in (0, 1))
    return before, after


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
