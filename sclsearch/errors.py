"""The one error for what a person wrote wrongly, and the lookup that suggests the right name."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

Thing = TypeVar("Thing")
STOPPED = "Stopped. The same command goes on; nothing finished is lost."
INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell gives it."""

INCOMPLETE = 3
"""Exit code of a search that ended with failed seed runs, or with seed runs left to train.

Python and Ray end with 1 where they crash, and a scheduler has to start the command again then.
"""


class SclsearchError(Exception):
    """Something that the user can mend: an option, a file, a name.

    The message reads `<where>: <what must hold>, but <what there is>. <what to do>`. The command
    line prints it in red and exits with 2; every other exception is a bug and keeps its traceback.
    """


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'? Known: x, y.`, without the question if nothing is near."""
    names = sorted(known)
    meant = {one.casefold(): one for one in names}
    asked = name.casefold()
    begun = [one for one in meant if asked and one.startswith(asked)]
    near = [meant[one] for one in begun or get_close_matches(asked, meant, n=1, cutoff=0.5)]
    question = f" Did you mean {near[0]!r}?" if near else ""
    return f"{question} Known: {', '.join(names) or 'none'}."


def lookup(table: Mapping[str, Thing], name: str, kind: str) -> Thing:
    """Returns `table[name]`.

    Raises:
        SclsearchError: There is no such name; the message holds the nearest and all known ones.
    """
    if name in table:
        return table[name]
    raise SclsearchError(f"Unknown {kind} {name!r}.{suggestion(name, table)}")
