"""When a stage looks at itself: after which of its updates."""

from sclsearch.protocols.base import Evaluate


def evenly(total: int, times: int) -> frozenset[int]:
    """Returns some updates, counted from 1, of about one distance, the last of all among them."""
    return frozenset(-(-total * part // times) for part in range(1, times + 1))


def evaluation_points(evaluate: Evaluate, per_epoch: int, total: int) -> frozenset[int]:
    """Returns the updates, counted from 1, after which validation is computed."""
    if evaluate == "tenth":
        return evenly(total, 10)
    every = {"epoch": per_epoch, "end": total}[evaluate] if isinstance(evaluate, str) else evaluate
    return frozenset(range(every, total, every)) | {total}
