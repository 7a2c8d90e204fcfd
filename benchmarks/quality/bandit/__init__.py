"""Arms of several fidelities."""
