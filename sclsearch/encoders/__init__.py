"""Hugging Face encoders: lookup, loading, pooling, per-row dropout, heads and projections."""
