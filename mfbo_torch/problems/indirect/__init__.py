"""Problems whose queries are averages of the function to maximise."""
