"""A page that follows a run: one local process, which shows what the run's folder says."""
