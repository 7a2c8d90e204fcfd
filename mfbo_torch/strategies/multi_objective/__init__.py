"""Strategies for several objectives."""
