"""What a run survives: killed workers and drivers, damaged files, flipped bits, 10,000 evaluations."""
