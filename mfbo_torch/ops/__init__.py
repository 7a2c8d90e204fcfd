"""Operations of Gaussian processes on tensors: factors, posteriors, greedy selection; torch beside Triton."""
