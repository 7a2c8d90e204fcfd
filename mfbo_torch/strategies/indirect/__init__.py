"""Strategies whose queries are averages."""
