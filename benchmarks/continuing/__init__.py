"""Trainings that go on beside ones that begin anew."""
