"""What a change of the code must not change."""
