"""Designs: distinct pairs, the promised degrees, a random order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilsh.projections import designs

SEEDS = st.integers(0, 2**32)


@given(d=st.integers(1, 5000))
def test_near_square_factors_hold_d_and_are_nearly_square(d):
    d_w, d_v = designs.near_square_factors(d)
    assert d <= d_w * d_v
    assert d_w <= d_v <= 2 * d_w or (d_w, d_v) == (1, 1)


@given(n_pairs=st.integers(1, 5000), d_w=st.integers(1, 40), d_v=st.integers(1, 40))
def test_stacked_grids_fit_the_matrix_and_hold_all_pairs(n_pairs, d_w, d_v):
    shapes = designs.stacked_grids(n_pairs, d_w, d_v)
    assert sum(rows * columns for rows, columns in shapes) >= n_pairs
    assert all(rows <= d_w and columns <= d_v for rows, columns in shapes)


@given(n_pairs=st.integers(1, 3000))
def test_a_free_grid_wastes_less_than_one_row(n_pairs):
    rows, columns = designs.grid_shape(n_pairs)
    assert n_pairs <= rows * columns < n_pairs + max(rows, columns)


@given(n_pairs=st.integers(1, 600), d_w=st.integers(1, 20), d_v=st.integers(1, 20), seed=SEEDS)
def test_stacked_pairs_are_distinct_and_stay_in_their_grid(n_pairs, d_w, d_v, seed):
    shapes = designs.stacked_grids(n_pairs, d_w, d_v)
    pairs = designs.stacked_pairs(shapes, n_pairs, np.random.default_rng(seed))
    assert len({tuple(pair) for pair in pairs}) == n_pairs == len(pairs)
    grid_of_row = np.repeat(np.arange(len(shapes)), [rows for rows, _ in shapes])
    grid_of_column = np.repeat(np.arange(len(shapes)), [columns for _, columns in shapes])
    np.testing.assert_array_equal(grid_of_row[pairs[:, 0]], grid_of_column[pairs[:, 1]])


@pytest.mark.parametrize("select", [designs.random_pairs, designs.balanced_pairs])
@given(data=st.data(), side=st.integers(1, 40), seed=SEEDS)
def test_subsets_hold_distinct_pairs_of_the_grid(select, data, side, seed):
    n_pairs = data.draw(st.integers(1, side * side))
    pairs = select(side, n_pairs, np.random.default_rng(seed))
    assert pairs.shape == (n_pairs, 2)
    assert pairs.dtype == np.int32
    assert 0 <= pairs.min() <= pairs.max() < side
    assert len({tuple(pair) for pair in pairs}) == n_pairs


@given(data=st.data(), side=st.integers(1, 40), seed=SEEDS)
def test_balanced_degrees_differ_by_at_most_one(data, side, seed):
    n_pairs = data.draw(st.integers(1, side * side))
    pairs = designs.balanced_pairs(side, n_pairs, np.random.default_rng(seed))
    for column in (0, 1):
        degrees = np.bincount(pairs[:, column], minlength=side)
        assert degrees.max() - degrees.min() <= 1


@pytest.mark.parametrize("select", [designs.random_pairs, designs.balanced_pairs])
def test_every_pair_is_equally_likely_to_come_first(select):
    """Chi-squared over 16 cells, 4,000 draws; false failure 1e-6 (critical value of chi2(15) at 1e-6 is 57.5)."""
    first = [tuple(select(4, 6, np.random.default_rng(seed))[0]) for seed in range(4000)]
    counts = np.bincount([4 * i + j for i, j in first], minlength=16)
    assert ((counts - 250) ** 2 / 250).sum() < 57.5
