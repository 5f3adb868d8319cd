"""Transform codes, step by step in NumPy: the same bits on every level and for every batch."""

from dataclasses import replace

import numpy as np
import pytest

from bilsh import _native
from bilsh.projections.transform import HEADER_BYTES, TransformMap


@pytest.fixture(params=_native.levels())
def level(request):
    _native.force_level(request.param)
    yield request.param
    _native.force_level("auto")


def transform_of(rng, d, m, depths, stretches, *, n_centres=3, absolute=False):
    """Random frames; every coordinate of all its bits, in any order, and some bits that tell of none."""
    every = rng.choice(depths, size=(n_centres, m)).astype(np.int32)
    n_bits = (every.sum(axis=1).max() // 8 + 2) * 8
    coordinates = np.full((n_centres, n_bits), -1, dtype=np.int32)
    for c in range(n_centres):
        bits = np.repeat(np.arange(m, dtype=np.int32), every[c])
        coordinates[c, rng.permutation(n_bits)[: len(bits)]] = rng.permutation(bits)
    return TransformMap(
        centres=rng.normal(size=(n_centres, d)).astype(np.float32),
        left=None,
        right=None,
        pairs=None,
        basis=(rng.normal(size=(n_centres * m, d)) / np.sqrt(d)).astype(np.float32),
        counts=np.full(n_centres, m, dtype=np.int32),
        coordinates=coordinates,
        steps=(rng.uniform(1, 3, n_centres * m) / (2.0 ** every.ravel() * np.sqrt(d))).astype(np.float32),
        depths=every.ravel(),
        scales=np.concatenate([[0], np.geomspace(0.1, 100, 255)]).astype(np.float32),
        errors=np.geomspace(1e-3, 100, 255).astype(np.float32),
        stretches=np.array(stretches, dtype=np.float32),
        add_least=0.1,
        add_step=0.02,
        share=0.5,
        n_bytes=HEADER_BYTES + n_bits // 8,
        absolute=absolute,
    )


def test_an_origin_is_taken_off_items_queries_and_centres(level):
    rng = np.random.default_rng(3)
    there = transform_of(rng, 40, 33, (1, 2, 3), (0.8, 1.25))
    origin = rng.normal(size=40).astype(np.float32)
    seen = replace(there, centres=there.centres - origin).plan(None, 1.0, None, None)
    plan = replace(there, origin=origin).plan(None, 1.0, None, None)
    X, Q = rng.normal(size=(2, 50, 40)).astype(np.float32)
    X[:, ::2] = origin[::2]
    codes = plan.encode(X)
    np.testing.assert_array_equal(codes, seen.encode(X - origin))
    np.testing.assert_array_equal(plan.encode(X[:1]), codes[:1])
    for n in (1, 50):
        for own, other in zip(
            plan.top_k(Q[:n], [codes], 5), seen.top_k(Q[:n] - origin, [codes], 5), strict=True
        ):
            np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("wrong", [np.zeros(39, np.float32), np.zeros((40, 1), np.float32), np.zeros(40)])
def test_an_origin_of_another_shape_or_type_is_refused(wrong):
    there = transform_of(np.random.default_rng(3), 40, 33, (1, 2, 3), ())
    with pytest.raises((ValueError, TypeError)):
        replace(there, origin=wrong).plan(None, 1.0, None, None)


def in_eight_lanes(terms):
    """Sums of doubles in the order that all levels keep."""
    lane = np.zeros(8)
    padded = np.concatenate([terms, np.zeros(-len(terms) % 8)])
    for group in padded.reshape(-1, 8):
        lane = lane + group
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]))


def nearest_scale(scales, wanted):
    above = min(int(np.searchsorted(scales, wanted)), 255)
    return above - 1 if above and wanted - scales[above - 1] < scales[above] - wanted else above


def written_out(transform, frames, x):
    """The code of one item."""
    f32, scales = np.float32, transform.scales.astype(np.float64)
    half = (-0.5 * np.square(transform.centres, dtype=np.float64).sum(axis=1)).astype(f32)
    every = np.arange(transform.n_centres, dtype=np.int32)
    centre = int(_native.DensePlan(transform.centres, every, half, None).project(x[None])[0].argmax())
    span = transform.spans()[centre]
    values, steps, depths = frames[centre].project(x[None])[0], transform.steps[span], transform.depths[span]
    halves, wide = (2.0 ** (depths - 1)).astype(f32), values.astype(np.float64)
    far = x.astype(np.float64) - transform.centres[centre].astype(np.float64)
    from_centre = in_eight_lanes(far * far)
    length = np.sqrt(from_centre)
    best = None
    for divisor in (length, *(scales[nearest_scale(scales, length / float(s))] for s in transform.stretches)):
        cells = np.clip(np.floor(f32(1 / divisor) * values / steps) + halves, 0, 2 * halves - 1)
        r = steps.astype(np.float64) * (cells.astype(np.float64) + 0.5 - halves)
        inside, product, squares = (in_eight_lanes(terms) for terms in (wide * wide, wide * r, r * r))
        wanted = product / squares
        told = nearest_scale(scales, wanted)
        scale = scales[told]
        error = max(inside - 2 * scale * product + scale * scale * squares, 0) + max(from_centre - inside, 0)
        number = scale * scale * squares + 0.5 * error
        if not transform.absolute:
            number = squares + 0.5 * error / (scale * scale)
        up = (number - float(f32(0.1))) / float(f32(0.02))
        add = np.rint(np.clip(up, 0, 255))
        missed = (1 if transform.absolute else scale * scale) * float(f32(0.02)) * (add - up)
        loss = error + 20 * (scale - wanted) ** 2 * squares + 75 * missed**2 / from_centre
        if best is None or loss < best[0]:
            best = loss, told, int(add), cells.astype(np.int64)
    left, bits = depths.copy(), []
    for i in transform.coordinates[centre]:
        left[i] -= i >= 0
        bits.append(best[3][i] >> left[i] & 1 if i >= 0 else 0)
    return [centre, best[1], best[2]], np.packbits(np.array(bits, dtype=np.uint8), bitorder="little")


@pytest.mark.parametrize(
    ("d", "m", "depths", "stretches", "absolute"),
    [
        (5, 3, (1, 2), (), False),
        (40, 33, (1, 2, 3), (0.8, 1.25), False),
        (70, 64, (9, 12), (0.9, 1.1), True),
        (300, 290, (1, 4), tuple(np.geomspace(0.8, 1.25, 20)), False),
        (1100, 1050, (1, 2), (1.1,), False),
    ],
)
def test_codes_are_the_steps_of_the_definition(level, d, m, depths, stretches, absolute):
    rng = np.random.default_rng(d)
    transform = transform_of(rng, d, m, depths, stretches, absolute=absolute)
    frames, plan = transform.frames(), transform.plan(None, 1.0, None, None)
    X = rng.normal(size=(40, d)).astype(np.float32)
    X[::3, ::2] = 0
    codes = plan.encode(X)
    for x, code in zip(X[:8], codes, strict=False):
        header, bits = written_out(transform, frames, x)
        assert code[:3].tolist() == header
        np.testing.assert_array_equal(code[HEADER_BYTES:], bits)
    for n in (1, 2, 5, 17, 33):
        np.testing.assert_array_equal(plan.encode(X[:n], 2), codes[:n])
    for x, code in zip(X, codes, strict=True):
        np.testing.assert_array_equal(plan.encode(x[None])[0], code)
    prefix = transform.take(8 * (HEADER_BYTES + 1)).plan(None, 1.0, None, None)
    np.testing.assert_array_equal(prefix.encode(X), codes[:, : HEADER_BYTES + 1])
