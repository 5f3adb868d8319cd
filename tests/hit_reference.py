"""Posteriors of hits in NumPy, formula by formula: what native/hit_posterior.cpp must equal."""

import numpy as np
from scipy import stats

from bilsh.theory.hit_sample import HitSample, rank_place
from bilsh.theory.hits import CAUTION, window_size

PLANTED = 2.0  # density of copies over all counts, from 0 to n_bits
SMALLEST, LARGEST = 0.5, 1.5  # bounds of the local dimension; the upper one over the bits of ranking
STEPS, GROUPS = 2, 12
DISPERSION = 3.0  # variance of an estimated log dimension over that of independent counts
FEWEST_BITS = 0.3


def answer(fractions, smallest, background, n_items, n_bits, effective_bits, sample=None, confidence=0.95):
    """Point estimates (q, k) and intervals (q, k, 2); arguments as of bilsh.theory.hits.posterior."""
    sample = HitSample.unseen() if sample is None else sample
    q = sample.share

    def worth(p):
        return effective_bits(p) / sample.noise

    least = 0.5 / n_bits
    f = np.clip(np.asarray(fractions, dtype=np.float64) / sample.gain, 0.0, 1.0)
    mean = np.clip(np.asarray(background, dtype=np.float64)[:, None] / sample.gain, least, 1 - least)
    window = np.asarray(smallest, dtype=np.float64)[:, : window_size(n_items)]
    window = np.clip(window / sample.gain, 0.0, 1.0)
    middle = np.maximum(window[:, window.shape[1] // 2, None], least) if window.shape[1] else mean
    # The items of the window are farther than they look; their noise is that of where they are.
    where, u = middle, np.full(middle.shape, sample.dimension)
    seen = grouped(window, n_bits)
    for last in (False, True):
        ranking = worth(where) / q
        u, doubt, log_scale = local_dimension(seen, mean, ranking, sample, u)
        m = np.exp(u)
        if not last:
            where = (middle * ranking + m) / (ranking + m / mean)

    # What the hit's own bits say.
    alone, count = effective_bits(np.maximum(f, least)) / max(sample.noise, 1.0), f * n_bits
    alone = np.minimum(alone, n_bits + (alone - n_bits) * count / (count + 2))
    alone = np.where(f < least, n_bits, alone)
    own = (f * alone + q) / (alone + 2 * q)
    own_variance = own * (1 - own) / (alone + 3)
    # What the model makes of them.
    p, pull = own, q * m / mean
    for _ in range(3):
        bits = worth(p)
        p = (f * bits + q * m) / (bits + pull)
    kept = bits / (bits + pull)
    variance = p * (1 - p) * (q * kept / (bits + 1) + (1 - q) / bits)
    variance += doubt * np.square(pull * kept * (mean - f) / (bits + pull))

    copy = planted(f * ranking, m, mean, log_scale, ranking)
    centre = copy * own + (1 - copy) * p
    variance = copy * own_variance + (1 - copy) * variance + copy * (1 - copy) * np.square(p - own)
    total = np.maximum(centre * (1 - centre) / variance - 1, 2.0)
    a, b = centre * total, (1 - centre) * total
    place, row = rank_place(f.shape[1]), np.minimum(np.arange(f.shape[1]), len(sample.levels) - 1)
    tail = CAUTION * (1 - confidence) / 2
    z = np.array([sample.standard(level)[0, row] for level in (tail, 0.5, 1 - tail)])[:, None, :]
    low, middle, high = normal_to_beta(z * np.exp(sample.drift[1] * place) + sample.drift[0] * place, a, b)
    middle = np.maximum.accumulate(middle, axis=1)
    low, high = np.minimum(low, middle), np.maximum(high, middle)
    # What the hit's own bits say belongs to the interval, unless a copy is less probable than it may fail.
    z, likely, differing = stats.norm.ppf(tail), copy > 1 - confidence, np.where(f < least, 0.0, f * alone)
    own_low = normal_to_beta(z, differing, alone - differing + 1)
    own_high = normal_to_beta(-z, differing + 1, np.maximum(alone - differing, 1e-9))
    low = np.where(likely, np.minimum(low, own_low), np.where(f < least, 0.0, low))
    return middle, np.stack([low, np.where(likely, np.maximum(high, own_high), high)], axis=-1)


def grouped(window, n_bits):
    """How many of the smallest fractions, where they end, means of groups of neighbours, and their shares."""
    width = window.shape[1]
    if width < 2:
        return None
    end = np.minimum(np.maximum(window[:, -1:], window[:, :1] + 1 / n_bits), 1.0)
    inside = (window < end - 1e-12).astype(np.float64)
    starts = np.arange(0, width, max(1, width // GROUPS))
    counts = np.add.reduceat(inside, starts, axis=1)
    sums = np.add.reduceat(inside * window, starts, axis=1)
    total = counts.sum(axis=1, keepdims=True)
    value, share = sums / np.maximum(counts, 1.0), counts / np.maximum(total, 1.0)
    return np.maximum(total, 0.5), end - 0.5 / n_bits, value, share


def local_dimension(window, mean, ranking, sample, u):
    """Logarithm of the local dimension (q, 1), its variance, logarithm of the expected items over the integral."""
    prior = DISPERSION / max(sample.spread, 0.1) ** 2
    if window is None:
        return u, np.full(u.shape, min(sample.spread**2, 1.0)), None
    count, end, value, share = window
    nodes, log_weights = quadrature()
    reach = ranking * end
    # Differing and agreeing bits, first those that were seen, then where the likelihood's integral is taken.
    split = value.shape[1]
    differ = np.concatenate([value * ranking, reach * nodes], axis=1)
    bits = np.stack([differ, ranking - differ])
    free = log_gamma(bits[:, :, split:] + 1)[0]
    fixed = log_weights - free[0] - free[1]
    odds = (1 - mean) / mean
    prior_odds = np.stack([np.ones(odds.shape), odds])
    low, high = np.log(SMALLEST), np.log(np.maximum(LARGEST * ranking, 1.0))
    u = np.minimum(u, high)
    for steps_left in range(STEPS, -1, -1):
        m = np.exp(u)
        logs, digamma = log_gamma(bits + m * prior_odds)
        score = digamma[0] + odds * digamma[1]
        log_density = fixed + logs[0, :, split:] + logs[1, :, split:]
        top = np.maximum.reduce(log_density, axis=1, keepdims=True)
        density = np.exp(log_density - top)
        total = np.sum(density, axis=1, keepdims=True)
        density /= total
        grid = score[:, split:]
        expected = np.sum(density * grid, axis=1, keepdims=True)
        spread = np.sum(density * np.square(grid - expected), axis=1, keepdims=True)
        information = count * np.maximum(m * m * spread, 0.02) + prior
        if not steps_left:
            break
        seen = np.sum(score[:, :split] * share, axis=1, keepdims=True)
        step = (count * m * (seen - expected) - prior * (u - sample.dimension)) / information
        u = np.clip(u + np.clip(step, -1.0, 1.0), low, high)
    log_scale = np.log(count / (total * reach)) - top
    return u, np.minimum(DISPERSION / information, 1.0), log_scale


def quadrature():
    """Nodes on (0, 1), dense near 1 where the density of a window lies, and the logarithms of their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    v = (nodes + 1) / 2
    return v ** (1 / 6), np.log(weights / 2 * v ** (1 / 6 - 1) / 6)


def planted(x, m, mean, log_scale, ranking):
    """Probability that a hit is a copy that the model knows nothing of, given the ordinary items expected there."""
    if log_scale is None:
        return np.full(x.shape, 0.5)
    rest = np.maximum(ranking - x, 0.0)
    prior = np.stack([x + m, rest + m * (1 - mean) / mean])
    density = log_gamma(prior)[0] - log_gamma(np.stack([x, rest]) + 1)[0]
    expected = log_scale + density[0] + density[1] + np.log(ranking)
    return np.asarray(1 / (1 + np.exp(np.clip(expected, -50.0, 50.0)) / PLANTED))


def normal_to_beta(z, a, b):
    """Values of Beta(a, b) at standard normal ones."""
    u, v = 1 / (9 * np.maximum(a, FEWEST_BITS)), 1 / (9 * np.maximum(b, FEWEST_BITS))
    square = np.square(z)
    inner = np.maximum(u * (1 - v) ** 2 + v * (1 - u) ** 2 - square * (u * v), 0.0)
    bottom = np.maximum((1 - v) ** 2 - square * v, 1e-6)
    root = np.maximum(((1 - u) * (1 - v) + z * np.sqrt(inner)) / bottom, 0.0)
    odds = root**3 * (a / b)
    return np.asarray(odds / (1 + odds))


def log_gamma(x):
    """Logarithm of the Gamma function and its derivative: Stirling's series one step up, from 0.5 on within 0.006."""
    y = x + 0.5
    log_y, inverse = np.log(y), (1 / 24) / y
    return y * (log_y - 1) - np.log(x) + (0.9189385332046727 - inverse), log_y + inverse / y - 1 / x
