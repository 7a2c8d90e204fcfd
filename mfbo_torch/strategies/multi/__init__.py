"""Strategies over several fidelities."""
