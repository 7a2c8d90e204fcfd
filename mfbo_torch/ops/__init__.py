"""Operations of Gaussian processes on tensors: factors, posteriors, greedy selection; torch beside Triton.

References:

.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian
    Process Bandit Optimization. ICML 2012.

.. [Rasmussen2006gpml]
    C. E. Rasmussen, C. K. I. Williams. Gaussian Processes for Machine Learning. MIT Press 2006.
"""
