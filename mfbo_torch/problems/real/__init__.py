"""Tunings and estimations on public data."""
