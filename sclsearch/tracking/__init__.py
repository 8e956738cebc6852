"""MLflow tracking: a write-only copy of study results, which no decision reads."""

from sclsearch.tracking.logger import MLflowLogger
from sclsearch.tracking.records import RunRecord
from sclsearch.tracking.server import (
    NO_DATABASE,
    find_tracking_uri,
    prepare,
    tracking_uri,
    ui_command,
)

__all__ = [
    "NO_DATABASE",
    "MLflowLogger",
    "RunRecord",
    "find_tracking_uri",
    "prepare",
    "tracking_uri",
    "ui_command",
]
