"""MLflow tracking: a write-only copy of study results, which no decision reads."""

from sclsearch.tracking.logger import MLflowLogger, failure_reason
from sclsearch.tracking.model import check_model_name
from sclsearch.tracking.publish import publish
from sclsearch.tracking.records import RunRecord
from sclsearch.tracking.server import (
    NO_DATABASE,
    find_tracking_uri,
    prepare,
    tracking_uri,
    ui_command,
)
from sclsearch.tracking.view import pages

__all__ = [
    "NO_DATABASE",
    "MLflowLogger",
    "RunRecord",
    "check_model_name",
    "failure_reason",
    "find_tracking_uri",
    "pages",
    "prepare",
    "publish",
    "tracking_uri",
    "ui_command",
]
