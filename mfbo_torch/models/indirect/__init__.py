"""Gaussian processes that are observed by averages."""
