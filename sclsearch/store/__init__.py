"""Seed runs and studies on disk: whole objects; what is finished is never changed."""
