"""Angles between errors and queries: what a table says beyond what was sampled."""

import numpy as np
import pytest

from bilsh.theory.error_angles import AngleTable, cosine_at, distance_at


def errors_apart(rng, n, near, far):
    """Distances in errors and cosines, where errors of length 1 do not know of the queries, in 64 dimensions."""
    way = rng.normal(size=(n, 64))
    way *= rng.uniform(near, far, size=(n, 1)) / np.linalg.norm(way, axis=1, keepdims=True)
    error = rng.normal(size=(n, 64))
    error /= np.linalg.norm(error, axis=1, keepdims=True)
    distance, true = np.linalg.norm(way + error, axis=1), np.linalg.norm(way, axis=1)
    return distance, cosine_at(distance, np.ones(n), true), true


def test_hits_nearer_and_farther_than_all_sampled_ones_are_covered():
    """95 % intervals of 4,000 each cover .9 to .99: bins at the ends know hits that look nearer than they are."""
    rng = np.random.default_rng(0)
    ratios, cosines, _ = errors_apart(rng, 4000, 2.0, 6.0)
    table = AngleTable.of(ratios[:, None], cosines[:, None], 1_000)
    for near, far in ((1.3, 1.6), (3.0, 4.0), (8.0, 12.0)):
        distance, _, true = errors_apart(rng, 4000, near, far)
        least, most = (
            distance_at(distance, np.ones(4000), table.cosine(distance, p)) for p in (0.975, 0.025)
        )
        assert 0.9 < ((least <= true) & (true <= most)).mean() < 0.99


def test_no_distance_and_no_error_have_cosines():
    table = AngleTable.of(np.linspace(1, 2, 500)[:, None], np.linspace(0.9, 0.4, 500)[:, None], 1_000)
    found = table.cosine(np.array([0.0, np.inf]), 0.5)
    assert (np.abs(found) <= 1).all()


def test_tails_narrow_among_more_items_than_were_sampled():
    table = AngleTable.of(np.linspace(1, 2, 500)[:, None], np.linspace(0.9, 0.4, 500)[:, None], 1_000)
    assert table.tail(0.025, 500) == table.tail(0.025, 1_000) == 0.025
    assert np.isclose(table.tail(0.025, 16_000), 0.0125)
    # Files of before did not keep the number.
    assert AngleTable.from_array(table.to_array()).tail(0.025, 16_000) == 0.025


def ranked(rng, n_queries):
    """Distances, cosines and true distances (q, 10) of hits in the order in which they look near."""
    found = [each.reshape(-1, 10) for each in errors_apart(rng, 10 * n_queries, 3.0, 3.2)]
    order = found[0].argsort(axis=1)
    return [np.take_along_axis(each, order, axis=1) for each in found]


def covered(table, distance, true):
    """Share of 95 % intervals that hold, by rank."""
    most, least = (
        distance_at(distance, np.ones_like(distance), table.cosine_by_rank(distance, p))
        for p in (0.025, 0.975)
    )
    return ((least <= true) & (true <= most)).mean(axis=0)


def test_first_hits_of_few_queries_are_told_apart():
    """Samples of 100 queries, as of 1,000 rows: first hits are covered in .938 to .966 on average over 30 of them.

    The standard error is .004; without a group of their own they are covered in .926.
    """
    rng = np.random.default_rng(2)
    distance, _, true = ranked(rng, 4_000)
    tables = [AngleTable.of(*ranked(rng, 100)[:2], 1_000) for _ in range(30)]
    first = [covered(table, distance, true)[0] for table in tables]
    assert 0.938 < np.mean(first) < 0.966


def test_what_few_hits_of_a_rank_cannot_tell_is_that_of_all():
    """Of 60 hits none tells a thousandth: there intervals are not narrower than those of all hits."""
    table = AngleTable.of(*ranked(np.random.default_rng(3), 60)[:2], 1_000)
    asked = np.linspace(2.5, 3.5, 20)[:, None]
    assert (table.cosine_by_rank(asked, 0.001) <= table.cosine(asked, 0.001)).all()
    assert (table.cosine_by_rank(asked, 0.999) >= table.cosine(asked, 0.999)).all()


def test_every_rank_is_covered_as_often_as_was_asked_for():
    """The best of ten looks nearer than it is; of 4,000 hits of each rank 95 % intervals cover .93 to .975."""
    rng = np.random.default_rng(0)
    (ratios, cosines, _), (distance, _, true) = (ranked(rng, 4_000) for _ in range(2))
    table = AngleTable.of(ratios, cosines, 1_000)
    shares = covered(table, distance, true)
    assert 0.93 < shares.min() < shares.max() < 0.975
    again = AngleTable.from_array(table.to_array(), 1_000, table.ranks)
    np.testing.assert_array_equal(again.cosine_by_rank(distance, 0.1), table.cosine_by_rank(distance, 0.1))
    # One hit alone is a first one.
    alone, together = (table.cosine_by_rank(distance[:, :k], 0.1) for k in (1, 10))
    np.testing.assert_array_equal(alone, together[:, :1])


def test_a_table_that_holds_another_tells_the_wider_intervals_of_both():
    rng = np.random.default_rng(1)
    ratios = rng.uniform(1, 2, size=(400, 10))
    one = AngleTable.of(ratios, np.clip(0.4 + 0.1 * rng.normal(size=ratios.shape), -1, 1), 4_000)
    far = np.clip(0.3 + 0.2 * rng.normal(size=ratios.shape), -1, 1)
    other = AngleTable.of(ratios - 0.5, far, 250)
    both = one.holding(other)
    asked = np.linspace(0.4, 2.2, 10)[None]
    for probability in (0.005, 0.025, 0.1, 0.9, 0.975, 0.995):
        found = both.cosine_by_rank(asked, probability)
        for table in (one, other):
            theirs = table.cosine_by_rank(asked, probability)
            # Between the bins both are lines, of more pieces in the new one.
            assert (found <= theirs + 0.03).all() if probability < 0.5 else (found >= theirs - 0.03).all()
    np.testing.assert_allclose(both.cosine(one.ratios, 0.5), one.cosine(one.ratios, 0.5), rtol=1e-12)
    assert both.n_items == 4_000
    # It is wide already, and goes on more slowly among more items.
    assert one.tail(0.025, 64_000) == pytest.approx(0.025 / 2)
    assert both.tail(0.025, 64_000) == pytest.approx(0.025 / 2**0.5)
    again = AngleTable.from_array(both.to_array(), 4_000, both.ranks, both.widening)
    np.testing.assert_array_equal(again.quantiles, both.quantiles)
    assert again.tail(0.025, 64_000) == both.tail(0.025, 64_000)
    for wrong in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="table of angles"):
            AngleTable.from_array(both.to_array(), 4_000, both.ranks, wrong)
