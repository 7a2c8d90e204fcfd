"""Puts this folder on the import path: the tests below it share ``tolerances`` and ``dense``."""
