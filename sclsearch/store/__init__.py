"""Seed runs and studies on disk: objects written once, atomically, and never changed."""
