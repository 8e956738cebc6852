"""Hugging Face encoders: where they come from, pooling, and dropout by row."""
