"""The paper, loop by loop: the oracle that the fast path must equal. Slow on purpose; equation numbers inline."""

from __future__ import annotations

from math import cos, pi


def dot(w, x):
    total = 0.0
    for weight, value in zip(w, x, strict=True):
        total += float(weight) * float(value)
    return total


def bilinear_form(w, X, v):
    """w^T X v."""
    total = 0.0
    for i in range(len(w)):
        for j in range(len(v)):
            total += float(w[i]) * float(X[i][j]) * float(v[j])
    return total


def angle_bit_value(w, x):
    """Argument of the sign in eq. 1; the bit is 1 where it is >= 0."""
    return dot(w, x)


def kernel_bit_value(u, b, t):
    """Argument of the sign in eq. 4 and 7: cos(u + b) + t."""
    return cos(u + b) + t


def random_fourier_feature(u, b):
    """Eq. 3 and 9."""
    return 2**0.5 * cos(u + b)


def circulant_product(r, signs, x):
    """circ(r) D x (Yu et al. 2014): row i of circ(r) is r shifted by i."""
    d = len(r)
    return [sum(float(r[(i - j) % d]) * float(signs[j]) * float(x[j]) for j in range(d)) for i in range(d)]


def hadamard_matrix(D):
    """Sylvester's construction: entry (i, j) is -1 to the number of common ones of i and j."""
    return [[(-1) ** (i & j).bit_count() for j in range(D)] for i in range(D)]


def hadamard_product(signs, x):
    """sqrt(D) times the orthonormal product H D_3 H D_2 H D_1 x, x padded with zeros."""
    D = len(signs[0])
    H = hadamard_matrix(D)
    y = [float(value) for value in x] + [0.0] * (D - len(x))
    for diagonal in signs:
        flipped = [float(s) * value for s, value in zip(diagonal, y, strict=True)]
        y = [sum(H[i][j] * flipped[j] for j in range(D)) / D**0.5 for i in range(D)]
    return [D**0.5 * value for value in y]


def algorithm_1(X, W, V, b, t, subset):
    """Algorithm 1 as printed: all pairs of the grid, then the subset I. Returns the arguments of the sign."""
    values = {}
    for i in range(len(W[0])):
        for j in range(len(V[0])):
            w = [row[i] for row in W]
            v = [row[j] for row in V]
            values[i, j] = bilinear_form(w, X, v)
    return [kernel_bit_value(values[i, j], b[r], t[r]) for r, (i, j) in enumerate(subset)]


def turns(u):
    """Radians as a fraction of a turn in [0, 1)."""
    return (u / (2 * pi)) % 1.0
