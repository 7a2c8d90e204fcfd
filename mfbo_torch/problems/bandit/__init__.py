"""Arms to play again and again."""
