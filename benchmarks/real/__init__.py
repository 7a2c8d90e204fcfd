"""The published method and its rivals on real problems, the papers' Figs. 4 and 5."""
