"""The search: from options to a study, its seed runs on Ray Tune, and their record."""
