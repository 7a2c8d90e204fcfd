"""Gaussian processes that are seen through averages."""
