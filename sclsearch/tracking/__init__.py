"""MLflow tracking: a write-only copy of study results, which no decision reads."""

from sclsearch.tracking.server import (
    NO_DATABASE,
    find_tracking_uri,
    prepare,
    tracking_uri,
    ui_command,
)
from sclsearch.tracking.tracker import Tracker, complete
from sclsearch.tracking.views import ConfigurationView, ScoreView, SeedRunView, StudyView, View

__all__ = [
    "NO_DATABASE",
    "ConfigurationView",
    "ScoreView",
    "SeedRunView",
    "StudyView",
    "Tracker",
    "View",
    "complete",
    "find_tracking_uri",
    "prepare",
    "tracking_uri",
    "ui_command",
]
