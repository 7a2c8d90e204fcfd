"""The user's own objective: a function or a program."""
