"""Does a method ever lose: every method on problems that nobody tuned it on."""
