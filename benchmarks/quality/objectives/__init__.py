"""Several objectives at several fidelities: the hypervolume that a capital buys."""
