"""Runs in folders: configs, comparisons, reports and the command line."""
