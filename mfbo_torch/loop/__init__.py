"""Ask and tell, the loop around it, and one call for all of it."""
