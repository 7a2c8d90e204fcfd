"""Trainings of which every epoch is observed: real ones, a table of them, and methods at equal epochs."""
