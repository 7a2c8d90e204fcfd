"""Tensors in, tensors out: factors, posteriors and greedy selection, with fast twins beside the reference."""
