"""Small things without a subject of their own: errors, validation, random numbers, files."""
