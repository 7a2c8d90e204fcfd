"""Queries that are averages."""
