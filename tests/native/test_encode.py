"""The compiled encoders: exact floats, whatever the instruction set, batch and number of threads."""

import numpy as np
import pytest
from scipy import stats

from bilsh import _native

BATCHES = (0, 1, 2, 15, 16, 17, 31, 32, 33, 100)


@pytest.fixture(params=_native.levels())
def level(request):
    _native.force_level(request.param)
    yield request.param
    _native.force_level("auto")


def f32(array):
    return np.ascontiguousarray(array, dtype=np.float32)


def fma(a, b, c):
    """float32 a * b + c rounded once: the sum in float64 is rounded to odd first (Boldo and Melquiond)."""
    product = a.astype(np.float64) * b
    total = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)
    even = total.view(np.int64) % 2 == 0
    odd = np.where((error != 0) & even, np.nextafter(total, np.copysign(np.inf, error)), total)
    return odd.astype(np.float32)


def chains(a, b):
    """(m, p) x (p, n) -> (m, n), one chain of multiply-adds per output."""
    sums = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for p in range(a.shape[1]):
        sums = fma(*np.broadcast_arrays(a[:, p, None], b[None, p]), sums)
    return sums


def bits_of(values, tau):
    bits = values >= 0 if tau is None else np.abs(values - np.rint(values)) <= tau
    return np.packbits(bits, axis=1, bitorder="little")


def bilinear_reference(x, left, right, pairs, offsets, d, permutation, signs, left_first):
    size = left.shape[1] * right.shape[1]
    padded = np.zeros((len(x), size), np.float32)
    padded[:, :d] = x
    if permutation is not None:
        padded = padded[:, permutation]
    if signs is not None:
        padded = padded * signs
    values = []
    for matrix in padded.reshape(-1, left.shape[1], right.shape[1]):
        z = (
            chains(chains(left, matrix), right.T)
            if left_first
            else chains(left, chains(matrix, np.ascontiguousarray(right.T)))
        )
        values.append(z[pairs[:, 0], pairs[:, 1]] + offsets)
    return np.array(values, np.float32).reshape(len(x), len(pairs))


def bilinear_case(rng, a, d_w, c, d_v, k, d=None, scramble=False, left_first=True, cosine=True, repeat=False):
    d = d_w * d_v if d is None else d
    pairs = np.stack([rng.integers(0, a, k), rng.integers(0, c, k)], axis=1).astype(np.int32)
    if repeat:
        pairs[k // 2 :] = pairs[: k - k // 2]
    return {
        "left": f32(rng.normal(size=(a, d_w))),
        "right": f32(rng.normal(size=(c, d_v))),
        "pairs": pairs,
        "offsets": f32(rng.uniform(size=k)),
        "tau": f32(rng.uniform(0, 0.5, k)) if cosine else None,
        "d": d,
        "permutation": rng.permutation(d_w * d_v).astype(np.int32) if scramble else None,
        "signs": f32(rng.choice([-1, 1], d_w * d_v)) if scramble else None,
        "left_first": left_first,
    }


CASES = {
    "plain": {"a": 7, "d_w": 5, "c": 6, "d_v": 9, "k": 20},
    "right first": {"a": 7, "d_w": 5, "c": 6, "d_v": 9, "k": 21, "left_first": False},
    "sign bits": {"a": 3, "d_w": 4, "c": 4, "d_v": 3, "k": 64, "cosine": False},
    "one bit": {"a": 1, "d_w": 3, "c": 1, "d_v": 2, "k": 1},
    "d_v = 1": {"a": 30, "d_w": 13, "c": 1, "d_v": 1, "k": 30, "cosine": False},
    "d_w = 1": {"a": 1, "d_w": 1, "c": 40, "d_v": 37, "k": 33},
    "scrambled": {"a": 6, "d_w": 8, "c": 6, "d_v": 17, "k": 36, "scramble": True},
    "scrambled, padded": {"a": 6, "d_w": 8, "c": 6, "d_v": 17, "k": 36, "d": 120, "scramble": True},
    "padded, right first": {"a": 6, "d_w": 8, "c": 6, "d_v": 7, "k": 30, "d": 51, "left_first": False},
    "scrambled, padded, right first": {
        "a": 9, "d_w": 8, "c": 6, "d_v": 7, "k": 30, "d": 50, "scramble": True, "left_first": False,
    },
    "few rows first": {"a": 5, "d_w": 23, "c": 7, "d_v": 19, "k": 30},
    "most rows unused": {"a": 300, "d_w": 20, "c": 200, "d_v": 5, "k": 6},
    "repeated pairs": {"a": 40, "d_w": 6, "c": 40, "d_v": 18, "k": 130, "repeat": True},
    "few of many pairs": {"a": 100, "d_w": 4, "c": 90, "d_v": 33, "k": 203},
    "wide": {"a": 26, "d_w": 3, "c": 50, "d_v": 70, "k": 1300},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bilinear_is_the_chain_of_its_definition(level, case):
    rng = np.random.default_rng(0)
    parameters = bilinear_case(rng, **CASES[case])
    plan = _native.BilinearPlan(**parameters)
    tau = parameters.pop("tau")
    x = f32(rng.normal(size=(100, parameters["d"])))
    expected = bilinear_reference(x[:33], **parameters)
    for n in BATCHES:
        values = plan.project(x[:n])
        assert values.shape == (n, len(expected[0]))
        assert np.array_equal(values[:33], expected[:n])
        assert np.array_equal(plan.encode(x[:n]), bits_of(values, tau))


@pytest.mark.parametrize("case", ["scrambled, padded", "few of many pairs", "wide"])
def test_threads_do_not_change_a_bit(level, case):
    rng = np.random.default_rng(1)
    parameters = bilinear_case(rng, **CASES[case])
    plan = _native.BilinearPlan(**parameters)
    x = f32(rng.normal(size=(75, parameters["d"])))
    for n in (1, 5, 40, 75):
        for n_jobs in (2, 3):
            assert np.array_equal(plan.project(x[:n], n_jobs=n_jobs), plan.project(x[:n]))
            assert np.array_equal(plan.encode(x[:n], n_jobs=n_jobs), plan.encode(x[:n]))


@pytest.mark.parametrize("a", [100, 300])
def test_full_size_agrees_between_levels_and_with_float64(a):
    rng = np.random.default_rng(2)
    parameters = bilinear_case(rng, a=a, d_w=250, c=300, d_v=256, k=900)
    plan = _native.BilinearPlan(**parameters)
    x = f32(rng.normal(size=(33, 64000)) / 256)
    values = plan.project(x)
    left, right = parameters["left"].astype(float), parameters["right"].astype(float)
    exact = np.matmul(np.matmul(left, x.reshape(-1, 250, 256)), right.T)
    i, j = parameters["pairs"].T
    np.testing.assert_allclose(values, exact[:, i, j] + parameters["offsets"], atol=2e-4)
    try:
        for name, n in {"portable": 1, "avx2": 17}.items():
            if name in _native.levels():
                _native.force_level(name)
                assert np.array_equal(plan.project(x[:n]), values[:n])
    finally:
        _native.force_level("auto")


def test_quadrature_bits_share_their_value():
    rng = np.random.default_rng(3)
    parameters = bilinear_case(rng, a=10, d_w=6, c=10, d_v=6, k=40)
    parameters["pairs"][20:] = parameters["pairs"][:20]
    parameters["offsets"][20:] = parameters["offsets"][:20] - np.float32(0.25)
    x = f32(rng.normal(size=(40, 36)))
    values = _native.BilinearPlan(**parameters).project(x)
    np.testing.assert_allclose(values[:, :20] - values[:, 20:], 0.25, atol=1e-5)


@pytest.mark.parametrize("cosine", [True, False])
@pytest.mark.parametrize(("rows", "d", "k"), [(1, 1, 1), (5, 70, 9), (40, 33, 130), (150, 1100, 160)])
def test_dense_is_the_chain_of_its_definition(level, rows, d, k, cosine):
    rng = np.random.default_rng(4)
    weights, offsets = f32(rng.normal(size=(rows, d)) / np.sqrt(d)), f32(rng.uniform(size=k))
    tau = f32(rng.uniform(0, 0.5, k)) if cosine else None
    outputs = rng.integers(0, rows, k).astype(np.int32)
    plan = _native.DensePlan(weights, outputs, offsets, tau)
    x = f32(rng.normal(size=(100, d)))
    expected = chains(x[:17], np.ascontiguousarray(weights.T))[:, outputs] + offsets
    everything = plan.project(x)
    assert np.array_equal(everything[:17], expected)
    for n in BATCHES if d < 1000 else (1, 17, 33):
        assert np.array_equal(plan.project(x[:n], n_jobs=2), everything[:n])
        assert np.array_equal(plan.encode(x[:n]), bits_of(everything[:n], tau))
        assert np.array_equal(plan.encode(x[:n], n_jobs=3), bits_of(everything[:n], tau))


@pytest.mark.parametrize("rows", [15, 16, 17, 127, 128, 129, 300])
def test_panels_and_zeros_change_nothing(level, rows):
    rng = np.random.default_rng(6)
    weights, outputs = f32(rng.normal(size=(rows, 50))), np.arange(rows, dtype=np.int32)
    plan = _native.DensePlan(weights, outputs, np.zeros(rows, np.float32), None)
    x = f32(rng.normal(size=(70, 50)) * (rng.random((70, 50)) < 0.3))
    x[0], x[1] = 0, -0.0
    expected = chains(x, np.ascontiguousarray(weights.T))
    for n in range(1, 71):
        for n_jobs in (1, 3):
            assert np.array_equal(plan.project(x[-n:], n_jobs), expected[-n:])


@pytest.mark.parametrize("n", [1, 2, 40])
def test_infinite_weights_meet_zeros_in_every_batch(level, n):
    weights = np.full((3, 2), np.inf, np.float32)
    plan = _native.DensePlan(weights, np.arange(3, dtype=np.int32), np.zeros(3, np.float32), None)
    with pytest.raises(_native.NonFiniteError):
        plan.encode(np.zeros((n, 2), np.float32))


@pytest.mark.parametrize("kind", ["gaussian", "cauchy", "laplace"])
def test_streamed_weights_are_dense_weights(level, kind):
    rng = np.random.default_rng(5)
    rows, d, k = 37, 1050, 50
    row_scale = f32(rng.uniform(0.5, 2, rows))
    outputs = rng.integers(0, rows, k).astype(np.int32)
    offsets, tau = f32(rng.uniform(size=k)), f32(rng.uniform(0, 0.5, k))
    weights = _native.dense_weights(7, kind, row_scale, d, 0, rows)
    dense = _native.DensePlan(weights, outputs, offsets, tau)
    x = f32(rng.normal(size=(33, d)))
    for block_bytes in (1, 1 << 15, 1 << 30):
        streamed = _native.StreamedDensePlan(7, kind, row_scale, d, outputs, offsets, tau, block_bytes)
        for n in (1, 33):
            assert np.array_equal(streamed.project(x[:n]), dense.project(x[:n]))
            assert np.array_equal(streamed.encode(x[:n], n_jobs=2), dense.encode(x[:n]))


def philox(counter, key):
    """Philox4x32-10 in plain integers (Salmon et al. 2011)."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 % 2**32, (p0 >> 32) ^ c3 ^ k1, p0 % 2**32
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0, c1, c2, c3


def test_philox_known_answer():
    assert philox((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)


@pytest.mark.parametrize("kind", ["gaussian", "cauchy", "laplace"])
def test_weights_follow_the_documented_stream(level, kind):
    seed, row, d = 0x1234567890ABCDEF, 5, 200
    weights = _native.dense_weights(seed, kind, np.full(6, 2, np.float32), d, row, row + 1)[0]
    for column in (0, 1, 17, 30, 63, 64, 100, 150, 199):
        block, word, lane = column // 64 * 64, column % 64 // 16, column % 16
        words = philox((block // 4 + lane, row, 0, 0), (seed % 2**32, seed >> 32))
        if kind == "gaussian":
            quarter, place = divmod(words[word | 1], 2**30)
            place = place if place < 2**29 else place - 2**30
            turn = np.pi / 2 * (quarter + (place + 0.125) / 2**30)
            radius = np.sqrt(-2 * np.log((words[word & 2] + 0.5) / 2**32))
            expected = radius * (np.sin(turn) if word % 2 else np.cos(turn))
        elif kind == "cauchy":
            quarter, place = divmod(words[word], 2**30)
            place = place if place < 2**29 else place - 2**30
            expected = np.tan(np.pi / 2 * (quarter + (place + 0.125) / 2**30))
        else:
            expected = -np.log((words[word] % 2**31 + 0.25) / 2**31) * (-1 if words[word] >> 31 else 1)
        assert weights[column] == pytest.approx(2 * expected, rel=2e-5, abs=2e-6)


@pytest.mark.parametrize(
    ("kind", "law"), [("gaussian", stats.norm), ("cauchy", stats.cauchy), ("laplace", stats.laplace)]
)
def test_weights_have_their_law(kind, law):
    # Kolmogorov-Smirnov over 200,000 weights: one seed in 1e6 fails; sees a distribution off by 0.006.
    weights = _native.dense_weights(11, kind, np.ones(200, np.float32), 1000, 0, 200)
    assert stats.kstest(weights.ravel(), law.cdf).pvalue > 1e-6
    # Neighbours in a row and in a column are uncorrelated: |r| < 4.9 / sqrt(n) but once in 1e6.
    bounded = law.cdf(weights) - 0.5
    for other in (np.roll(bounded, 1, axis=0), np.roll(bounded, 1, axis=1), np.roll(bounded, 16, axis=1)):
        assert abs(np.corrcoef(bounded.ravel(), other.ravel())[0, 1]) < 4.9 / np.sqrt(weights.size)


def test_weights_keep_their_bits():
    # Stored encoders depend on these numbers: a change here breaks every streamed code ever made.
    ones = np.ones(3, np.float32)
    golden = {
        "gaussian": [
            "-0x1.c672420000000p-4",
            "0x1.8584860000000p-1",
            "-0x1.fac7020000000p-1",
            "-0x1.83bea20000000p-1",
        ],
        "cauchy": [
            "0x1.a1f21a0000000p-1",
            "0x1.13fd400000000p-2",
            "0x1.1d7ab20000000p+3",
            "0x1.3295a40000000p-2",
        ],
        "laplace": [
            "-0x1.860dd20000000p+0",
            "-0x1.3d5a7a0000000p+1",
            "-0x1.285f8e0000000p-5",
            "-0x1.30930c0000000p+1",
        ],
    }
    for kind, expected in golden.items():
        weights = _native.dense_weights(42, kind, ones, 70, 2, 3)[0, [0, 1, 16, 69]]
        assert [float(w).hex() for w in weights] == expected


def hadamard_reference(x, signs):
    size = signs.shape[-1]
    outputs = []
    for block in signs:
        y = np.zeros((len(x), size), np.float32)
        y[:, : x.shape[1]] = x
        for stage in block:
            y = y * stage
            h = 1
            while h < size:
                pairs = y.reshape(len(x), -1, 2, h)
                y = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
                y = y.reshape(len(x), size)
                h *= 2
        outputs.append(y)
    return np.concatenate(outputs, axis=1)


@pytest.mark.parametrize(("size", "d", "blocks", "k"), [
    (1, 1, 1, 1), (2, 2, 1, 2), (16, 9, 3, 20), (64, 64, 1, 64), (128, 100, 1, 64), (256, 200, 2, 500),
    (512, 512, 1, 512), (1024, 999, 1, 77), (2048, 2000, 2, 301), (8192, 8192, 1, 1000),
    (65536, 64000, 1, 99),
])  # fmt: skip
def test_hadamard_is_the_butterfly_of_its_definition(level, size, d, blocks, k):
    rng = np.random.default_rng(6)
    signs = f32(rng.choice([-1, 1], (blocks, 3, size)))
    outputs = rng.choice(blocks * size, k, replace=False).astype(np.int32)
    offsets, tau, scale = f32(rng.uniform(size=k)), f32(rng.uniform(0, 0.5, k)), np.float32(0.37 / size)
    plan = _native.HadamardPlan(signs, outputs, d, scale, offsets, tau)
    x = f32(rng.normal(size=(3, d)))
    values = plan.project(x)
    assert np.array_equal(values, hadamard_reference(x, signs)[:, outputs] * scale + offsets)
    assert np.array_equal(plan.encode(x), bits_of(values, tau))
    assert np.array_equal(plan.encode(x, n_jobs=2), bits_of(values, tau))


@pytest.mark.parametrize("k", [1, 7, 8, 63, 64, 65, 200])
def test_quantize(level, k):
    rng = np.random.default_rng(7)
    values, tau = f32(rng.normal(size=(5, k))), f32(rng.uniform(0, 0.5, k))
    assert np.array_equal(_native.quantize(values, tau), bits_of(values, tau))
    assert np.array_equal(_native.quantize(values, None), bits_of(values, None))


def test_quantize_at_the_thresholds(level):
    values = f32([[0, -0.0, 0.5, 1.5, -0.25, 0.25, 3, 0.75]])
    assert _native.quantize(values, f32([0, 0, 0.5, 0.5, 0.25, 0.24, 0, 0.25]))[0, 0] == 0b11011111
    assert _native.quantize(values, None)[0, 0] == 0b11101111


def test_wrong_arguments_say_what_was_expected():
    rng = np.random.default_rng(8)
    good = bilinear_case(rng, **CASES["scrambled"])
    plan = _native.BilinearPlan(**good)
    with pytest.raises(ValueError, match="X has 5 columns; this plan encodes 136"):
        plan.encode(np.zeros((2, 5), np.float32))
    with pytest.raises(ValueError, match="n_jobs"):
        plan.encode(np.zeros((2, 136), np.float32), n_jobs=0)
    with pytest.raises(TypeError):
        plan.encode(np.zeros((2, 136)))
    with pytest.raises(TypeError):
        plan.encode(np.zeros((2, 272), np.float32)[:, ::2])
    wrong = {
        "offsets": (good["offsets"][1:], "offsets must have 36"),
        "tau": (good["tau"][1:], "tau must have 36"),
        "pairs": (good["pairs"] + np.int32(1), r"pairs\[:, \d\] must lie in \[0, 6\)"),
        "d": (137, r"d must lie in \[1, d_w \* d_v = 136\]"),
        "permutation": (np.zeros(136, np.int32), "0 occurs twice"),
        "signs": (np.zeros(136, np.float32), "signs must be"),
    }
    for name, (value, message) in wrong.items():
        with pytest.raises(ValueError, match=message):
            _native.BilinearPlan(**{**good, name: value})
    ones = np.ones(4, np.float32)
    with pytest.raises(ValueError, match="kind must be"):
        _native.dense_weights(0, "uniform", ones, 3, 0, 1)
    with pytest.raises(ValueError, match="row_start"):
        _native.dense_weights(0, "gaussian", ones, 3, 2, 5)
    with pytest.raises(ValueError, match="power of two"):
        _native.HadamardPlan(np.ones((1, 3, 6), np.float32), np.zeros(4, np.int32), 5, 1.0, ones, None)
    with pytest.raises(ValueError, match="outputs must lie"):
        _native.DensePlan(np.ones((2, 3), np.float32), np.full(4, 2, np.int32), ones, None)
