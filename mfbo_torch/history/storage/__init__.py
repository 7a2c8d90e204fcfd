"""A history on disk."""
