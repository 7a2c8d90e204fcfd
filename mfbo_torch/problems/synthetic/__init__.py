"""Synthetic functions."""
