"""Batches and delays, with simulated workers."""
