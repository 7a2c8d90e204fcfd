"""The front of a run with several objectives, and its pictures."""
