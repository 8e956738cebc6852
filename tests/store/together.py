"""Function that eight threads call at the same time."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

WRITERS = 8


def at_once(do: Callable[[int], Any]) -> list[Any]:
    """Return the results of eight threads that call a function at the same time."""
    barrier = threading.Barrier(WRITERS)

    def together(number: int) -> Any:
        barrier.wait()
        return do(number)

    with ThreadPoolExecutor(WRITERS) as threads:
        return list(threads.map(together, range(WRITERS)))
