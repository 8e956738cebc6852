"""Error messages for differences between a stored study and a requested study."""

import re
from collections.abc import Mapping

from sclsearch.canonical import canonical
from sclsearch.store.records import StudyRecord

_DIGEST = re.compile(r"[0-9a-f]{64}")
# Hashed field: its name in messages, and the key of its path in the record's `origin`.
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
    """Return the error message for a field that differs between stored and requested study.

    The message shows the path of hashed contents instead of their digests.

    Args:
        field: Name of the field.
        was: Value in the stored study.
        now: Value in the requested study.
        asked: Record of the requested study.
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
    """Return both values without the keys on which they agree; recurse into nested mappings."""
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
