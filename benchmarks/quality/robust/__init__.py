"""Problems that nothing was tuned on, and methods of other packages."""
