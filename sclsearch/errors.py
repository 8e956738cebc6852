"""Exception for user errors, exit codes, and a name lookup that suggests the nearest name."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

Thing = TypeVar("Thing")
SHOWN_NAMES = 40
STOPPED = "Stopped. The same command goes on; nothing finished is lost."
RETRY = "Fix the cause, then run the same command with --retry-failed."
INTERRUPTED = 130
"""Exit code after Ctrl-C, the same as a shell's."""

INCOMPLETE = 3
"""Exit code of a search that ended with failed or untrained seed runs.

It is not 1, because a crash of Python or Ray exits with 1. A cluster scheduler must restart the
command only after a crash.
"""


class SclsearchError(Exception):
    """Error that the user can fix, such as a wrong option, file or name.

    The message reads `<where>: <what is wrong, with the value>. <what to do>`. The command line
    prints it in red and exits with `code`. Every other exception is a bug and keeps its traceback.
    """

    code = 2


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return str(error).partition("\n")[0]


def first_sentence(text: str | None) -> str:
    """Return the first sentence of Ray's error message.

    Ray's advice after it seldom applies.
    """
    return re.split(r"\.\s|\n", (text or "no reason given").strip())[0].rstrip(".")


def listed(names: Iterable[str], most: int = 10) -> str:
    """Return the first names, separated by commas, and how many more there are."""
    shown = list(names)
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return f"{', '.join(shown[:most])}{more}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a hint such as ` Did you mean 'x'? Known: x, y.` for an unknown name.

    The hint has no question if no known name is similar.
    """
    names = sorted(known)
    meant = {one.casefold(): one for one in names}
    asked = name.casefold()
    begun = [one for one in meant if asked and one.startswith(asked)]
    short = [one for one in meant if asked == "".join(re.findall(r"(?:^|[-_])(.)", one))]
    near = [
        meant[one] for one in begun or short or get_close_matches(asked, meant, n=1, cutoff=0.5)
    ]
    question = f" Did you mean {near[0]!r}?" if near else ""
    return f"{question} Known: {listed(names, SHOWN_NAMES) or 'none'}."


def lookup(table: Mapping[str, Thing], name: str, kind: str) -> Thing:
    """Return `table[name]`.

    Raises:
        SclsearchError: The name is unknown. The message has the nearest name and all known names.
    """
    if name in table:
        return table[name]
    raise SclsearchError(f"Unknown {kind} {name!r}.{suggestion(name, table)}")
