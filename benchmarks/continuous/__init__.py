"""A continuous fidelity: BOCA beside three discrete levels, the target alone and the authors' own package."""
