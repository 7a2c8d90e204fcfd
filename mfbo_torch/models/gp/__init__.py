"""Gaussian processes of one output."""
