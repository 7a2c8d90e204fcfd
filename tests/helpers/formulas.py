"""The synthetic problems by their published formulas, and their optima by search."""

import math

import numpy as np
import torch
from scipy.optimize import minimize

from mfbo_torch.problems import BadCurrin, Borehole, Currin, Hartmann3, Hartmann6, Illustration, Park


def currin(x, m):
    def f(a, b):
        top, bottom = 2300 * a**3 + 1900 * a**2 + 2092 * a + 60, 100 * a**3 + 500 * a**2 + 4 * a + 20
        return (1.0 if b == 0 else 1 - math.exp(-1 / (2 * b))) * top / bottom

    a, b = x
    if m == 1:
        return f(a, b)
    near = f(a + 0.05, b + 0.05) + f(a + 0.05, max(0, b - 0.05)) + f(a - 0.05, b + 0.05)
    return (near + f(a - 0.05, max(0, b - 0.05))) / 4


def park(x, m):
    a, b, c, d = x
    f = a / 2 * (math.sqrt(1 + (b + c**2) * d / a**2) - 1) + (a + 3 * d) * math.exp(1 + math.sin(c))
    return f if m == 1 else (1 + math.sin(a) / 10) * f - 2 * a**2 + b**2 + c**2 + 0.5


def borehole(x, m):
    x1, x2, x3, x4, x5, x6, x7, x8 = x
    inner = 2 * x7 * x3 / (math.log(x2 / x1) * x1**2 * x8) + x3 / x5
    top, one = (2 * math.pi, 1) if m == 1 else (5, 1.5)
    return top * x3 * (x4 - x6) / (math.log(x2 / x1) * (one + inner))


def hartmann(A, P, M):
    def f(x, m):
        alpha = np.array([1.0, 1.2, 3.0, 3.2]) + (M - 1 - m) * np.array([0.01, -0.01, -0.1, 0.1])
        return float(alpha @ np.exp(-(np.array(A) * (np.array(x) - 1e-4 * np.array(P)) ** 2).sum(1)))

    return f


def illustration(x, m):
    f = math.exp(-(((x[0] - 0.72) / 0.11) ** 2)) + 0.85 * math.exp(-(((x[0] - 0.27) / 0.14) ** 2))
    return f if m == 1 else f + 0.15 * math.cos(2 * math.pi * (x[0] - 0.27))


FORMULAS = {
    Currin: currin,
    BadCurrin: lambda x, m: currin(x, 1) * (1 if m == 1 else -1),
    Park: park,
    Borehole: borehole,
    Hartmann3: hartmann(
        [[3, 10, 30], [0.1, 10, 35]] * 2,
        [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]],
        3,
    ),
    Hartmann6: hartmann(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]],
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ],
        4,
    ),
    Illustration: illustration,
}


def best_by_search(problem, sign):
    """Largest value of ``sign`` times the target by L-BFGS-B from the best of many random points."""
    bounds = problem.space.bounds
    U = torch.rand(4096, problem.space.dim, dtype=torch.double, generator=torch.Generator().manual_seed(2))

    def value(U):
        X = bounds[0] + U * (bounds[1] - bounds[0])
        return sign * problem(torch.cat([X, torch.full_like(X[..., :1], problem.space.target)], dim=-1))

    def negative_with_gradient(u):
        u = torch.tensor(u, requires_grad=True)
        f = -value(u.clamp(0, 1))
        return f.item(), torch.autograd.grad(f, u)[0].numpy()

    starts = U[value(U).topk(10).indices].numpy()
    box = [(0, 1)] * problem.space.dim
    tight = {"ftol": 1e-15, "gtol": 1e-9}
    return -min(minimize(negative_with_gradient, s, jac=True, bounds=box, options=tight).fun for s in starts)
