"""Strategies over trainings, each of which goes on, pauses or is left."""
