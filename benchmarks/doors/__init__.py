"""The doors of other packages, beside what these packages have themselves."""
