"""What happens when many do the same at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

WRITERS = 8


def at_once(do: Callable[[int], Any]) -> list[Any]:
    """Returns what eight threads return that begin together."""
    barrier = threading.Barrier(WRITERS)

    def together(number: int) -> Any:
        barrier.wait()
        return do(number)

    with ThreadPoolExecutor(WRITERS) as threads:
        return list(threads.map(together, range(WRITERS)))
