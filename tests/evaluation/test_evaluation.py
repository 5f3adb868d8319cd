"""Ground truth and measures against plain loops, ties against the enumeration of every order."""

from itertools import permutations
from math import dist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bilsh import evaluation
from bilsh.errors import BilshError, InvalidInputError
from bilsh.evaluation import Neighborhoods, truth


def brute_force_truth(X, queries, neighbor, max_neighbors):
    """Translate the paper's words loop by loop."""
    rows = [list(map(float, np.ravel(x))) for x in X]
    database = [j for j in range(len(rows)) if j not in set(queries)]
    distances = {i: [dist(rows[i], rows[j]) for j in database] for i in queries}
    threshold = sum(sorted(distances[i])[neighbor - 1] for i in queries) / len(queries)
    near = {i: [p for p, value in enumerate(distances[i]) if value < threshold] for i in queries}
    kept = [i for i in queries if 1 <= len(near[i]) <= max_neighbors]
    crowded = sum(len(near[i]) > max_neighbors for i in queries)
    empty = sum(not near[i] for i in queries)
    return database, threshold, {i: near[i] for i in kept}, crowded, empty


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("block_bytes", [1 << 26, 1 << 9])
def test_ground_truth_follows_the_paper(dtype, block_bytes, monkeypatch):
    monkeypatch.setattr(truth, "_BLOCK_BYTES", block_bytes)
    rng = np.random.default_rng(3)
    # Dense and sparse regions, so that both rules for dropping queries come into play.
    X = np.concatenate([rng.normal(20, 1, (60, 3, 4)), rng.normal(20, 6, (60, 3, 4))]).clip(0).astype(dtype)
    found = evaluation.ground_truth(X, n_queries=30, neighbor=10, max_neighbors=25, rng=1)
    drawn = np.sort(np.random.default_rng(1).choice(len(X), 30, replace=False)).tolist()
    database, threshold, near, crowded, empty = brute_force_truth(X, drawn, 10, 25)
    assert found.database.tolist() == database
    assert found.threshold == pytest.approx(threshold, rel=1e-12)
    assert found.scale == 1 / found.threshold
    assert found.queries.tolist() == list(near)
    assert [found.neighbors[i].tolist() for i in range(len(found.neighbors))] == list(near.values())
    assert (found.dropped_crowded, found.dropped_empty) == (crowded, empty)
    assert crowded > 0
    assert empty > 0


def test_rescaled_data_have_threshold_one():
    X = np.random.default_rng(0).normal(size=(300, 5))
    first = evaluation.ground_truth(X, n_queries=40, neighbor=20, rng=5)
    again = evaluation.ground_truth(X * first.scale, n_queries=40, neighbor=20, rng=5)
    assert again.threshold == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_array_equal(again.neighbors.ids, first.neighbors.ids)


@pytest.mark.parametrize("block_bytes", [1 << 26, 1 << 8])
def test_exact_neighbors_sorts_by_distance_then_id(block_bytes, monkeypatch):
    monkeypatch.setattr(truth, "_BLOCK_BYTES", block_bytes)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (200, 4))  # few values: many ties and duplicates
    Q = rng.integers(0, 3, (7, 4))
    ids, distances = evaluation.exact_neighbors(Q, X, k=30)
    for i, q in enumerate(Q):
        order = sorted((dist(q, x), j) for j, x in enumerate(X))[:30]
        assert ids[i].tolist() == [j for _, j in order]
        np.testing.assert_allclose(distances[i], [value for value, _ in order], rtol=1e-15)


def test_radius_is_strict_and_settled_in_full_precision():
    # The product form loses these differences: |x|^2 is 1e16 times the squared distance.
    base = np.full(4, 1e4)
    X = base + np.array([[0, 0, 0, 1e-4], [0, 0, 0, 1.001e-4], [0, 0, 0, 0.999e-4]])
    radius = float(np.sqrt(np.square(X[0] - base).sum()))
    assert evaluation.exact_within(base[None], X, radius)[0].tolist() == [2]
    assert evaluation.exact_within(base[None], X, np.nextafter(radius, 1))[0].tolist() == [0, 2]
    assert evaluation.exact_within(base[None], X, 1e-5)[0].tolist() == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda X: X + 1e8,
        lambda X: X + np.where(np.arange(len(X)) % 2, 1e8, -1e8)[:, None],
        lambda X: np.ldexp(X, -560),  # about 1e-169: squares vanish
        lambda X: np.ldexp(X, 500),
    ],
    ids=["offset", "two offsets", "tiny", "huge"],
)
@pytest.mark.parametrize("block_bytes", [1 << 26, 1 << 10])
def test_offset_and_scale_cost_no_digits(spoil, block_bytes, monkeypatch):
    monkeypatch.setattr(truth, "_BLOCK_BYTES", block_bytes)
    X = spoil(np.random.default_rng(0).normal(size=(300, 8)))
    Q, data = X[:10], X[10:]
    ids, distances = evaluation.exact_neighbors(Q, data, k=20)
    for i, q in enumerate(Q):
        order = sorted((dist(q, x), j) for j, x in enumerate(data))
        assert ids[i].tolist() == [j for _, j in order[:20]]
        np.testing.assert_allclose(distances[i], [value for value, _ in order[:20]], rtol=1e-14)
        radius = 0.5 * (order[14][0] + order[15][0])
        near = evaluation.exact_within(Q[i : i + 1], data, radius)[0].tolist()
        assert near == sorted(j for _, j in order[:15])
    drawn = np.sort(np.random.default_rng(1).choice(len(X), 10, replace=False)).tolist()
    found = evaluation.ground_truth(X, n_queries=10, neighbor=5, max_neighbors=None, rng=1)
    _, threshold, near, _, _ = brute_force_truth(X, drawn, 5, len(X))
    assert found.threshold == pytest.approx(threshold, rel=1e-14)
    assert [found.neighbors[i].tolist() for i in range(len(found.neighbors))] == list(near.values())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 3], "between 0 and 2.*got 0 to 3"),
        ([-1, 1], "between 0 and 2.*got -1 to 1"),
        ([True, False, True], r"integers.*got bool.*np\.flatnonzero"),
        ([0.0, 1.0], "integers.*got float64"),
        ([[0], [1]], r"got int64 \(2, 1\)"),
    ],
)
def test_rows_must_be_rows_of_the_database(rows, message):
    X = np.eye(3)
    with pytest.raises(BilshError, match=message):
        evaluation.exact_neighbors(X, X, 1, rows=rows)
    with pytest.raises(BilshError, match=message):
        evaluation.exact_within(X, X, 1.0, rows=rows)


def test_ground_truth_reads_memory_maps(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float16)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    a, b = (evaluation.ground_truth(data, n_queries=20, neighbor=5, rng=0) for data in (X, mapped))
    assert a.threshold == b.threshold
    np.testing.assert_array_equal(a.neighbors.ids, b.neighbors.ids)


def ap_of_order(flags):
    """Average precision of one order, as in the textbooks."""
    hits, total = 0, 0.0
    for rank, flag in enumerate(flags, 1):
        if flag:
            hits += 1
            total += hits / rank
    return total / hits


def orders(groups):
    """Every order of the items that respects the groups: the ties' permutations, combined."""
    if not groups:
        yield []
        return
    n, t = groups[0]
    for head in permutations([True] * t + [False] * (n - t)):
        for tail in orders(groups[1:]):
            yield [*head, *tail]


def ranking_of(groups):
    items, relevant = np.array(groups, dtype=np.int64).T
    offsets = np.array([0, len(items)])
    return evaluation.Ranking(offsets, np.arange(len(items), dtype=float), items, relevant)


GROUPS = [
    [(1, 1)],
    [(2, 1)],
    [(4, 0), (3, 2)],
    [(3, 1), (1, 0), (3, 3)],
    [(1, 0), (4, 2), (2, 1)],
    [(5, 5)],
    [(2, 0), (2, 1), (2, 2)],
]


@pytest.mark.parametrize("groups", GROUPS)
def test_average_precision_is_the_mean_over_all_orders_of_ties(groups):
    expected = np.mean([ap_of_order(order) for order in orders(groups)])
    assert evaluation.average_precision(ranking_of(groups))[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("groups", GROUPS)
def test_recall_at_k_is_the_mean_over_all_orders_of_ties(groups):
    total = sum(t for _, t in groups)
    for k in range(1, sum(n for n, _ in groups) + 2):
        expected = np.mean([sum(order[:k]) / total for order in orders(groups)])
        assert evaluation.recall_at_k(ranking_of(groups), k)[0] == pytest.approx(expected, rel=1e-12)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_ranking_of_codes_counts_like_a_loop(n, n_bytes, seed):
    rng = np.random.default_rng(seed)
    queries, codes = (rng.integers(0, 256, (rows, n_bytes), dtype=np.uint8) for rows in (3, n))
    near = Neighborhoods.from_ids([rng.choice(n, rng.integers(1, n + 1), replace=False) for _ in queries])
    ranking = evaluation.rank_codes(queries, codes, near)
    for i, q in enumerate(queries):
        distances = [sum(int(a ^ b).bit_count() for a, b in zip(q, row, strict=True)) for row in codes]
        values = sorted(set(distances))
        items, relevant = ranking.groups(i)
        assert items.tolist() == [distances.count(v) for v in values]
        assert relevant.tolist() == [sum(distances[j] == v for j in near[i]) for v in values]
    by_score = evaluation.rank_scores(
        -np.array([[np.bitwise_count(q ^ row).sum(dtype=int) for row in codes] for q in queries]), near
    )
    for field in ("offsets", "keys", "items", "relevant"):
        np.testing.assert_array_equal(getattr(by_score, field), getattr(ranking, field))


def test_scores_without_ties_give_textbook_average_precision():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4, 50)).astype(np.float32)
    near = Neighborhoods.from_ids([rng.choice(50, 7, replace=False) for _ in range(4)])
    expected = [ap_of_order(np.isin(np.argsort(-row), near[i])) for i, row in enumerate(scores)]
    ranking = evaluation.rank_scores(scores, near)
    np.testing.assert_allclose(evaluation.average_precision(ranking), expected, rtol=1e-12)
    assert evaluation.mean_average_precision(ranking) == pytest.approx(np.mean(expected))


def test_pooled_curve_passes_through_the_point_of_every_radius():
    rng = np.random.default_rng(2)
    queries, codes = (rng.integers(0, 256, (rows, 2), dtype=np.uint8) for rows in (5, 80))
    near = Neighborhoods.from_ids([rng.choice(80, 12, replace=False) for _ in queries])
    distances = np.bitwise_count(queries[:, None] ^ codes).sum(axis=2)
    true = np.zeros((5, 80), dtype=bool)
    for i in range(5):
        true[i, near[i]] = True
    points = {}
    for radius in range(17):
        inside = distances <= radius
        if (inside & true).any():  # of several radii with equal recall the smallest is the most precise
            points.setdefault((inside & true).sum() / true.sum(), (inside & true).sum() / inside.sum())
    curve = evaluation.precision_recall(
        evaluation.rank_codes(queries, codes, near), recall=list(points), average="pooled"
    )
    np.testing.assert_allclose(curve.precision, list(points.values()), rtol=1e-12)
    np.testing.assert_array_equal(curve.std, 0)


def test_curve_inside_a_tie_takes_items_in_proportion():
    ranking = ranking_of([(4, 1), (8, 4)])
    curve = evaluation.precision_recall(ranking, recall=[0.1, 0.2, 0.6, 1.0])
    np.testing.assert_allclose(curve.precision, [0.5 / 2, 1 / 4, 3 / 8, 5 / 12], rtol=1e-12)


def test_curves_of_queries_and_their_spread_over_repetitions():
    a, b = ranking_of([(1, 1), (3, 1)]), ranking_of([(2, 1), (2, 1)])
    both = evaluation.Ranking(
        np.array([0, 2, 4]), *(np.r_[getattr(a, f), getattr(b, f)] for f in ("keys", "items", "relevant"))
    )
    grid = [0.5, 1.0]
    assert evaluation.precision_recall(both, recall=grid).precision.tolist() == [0.75, 0.5]
    assert evaluation.precision_recall(both, recall=grid, average="pooled").precision.tolist() == [2 / 3, 0.5]
    curve = evaluation.precision_recall([a, b], recall=grid)
    assert curve.curves.tolist() == [[1.0, 0.5], [0.5, 0.5]]
    assert curve.precision.tolist() == [0.75, 0.5]
    np.testing.assert_allclose(curve.std, [np.std([1.0, 0.5], ddof=1), 0.0])


def test_default_grid_never_steps_over_a_group_by_rounding():
    perfect = ranking_of([(10, 10), (90, 0)])
    np.testing.assert_allclose(evaluation.precision_recall(perfect).precision, 1.0, rtol=1e-9)
    one_by_one = ranking_of([(1, 1)] * 10)
    np.testing.assert_allclose(evaluation.precision_recall(one_by_one).precision, 1.0, rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluation.ground_truth(np.zeros((20, 3)), n_queries=10, neighbor=15), "need 25 rows"),
        (lambda: evaluation.ground_truth(np.zeros((20, 3)), n_queries=2, neighbor=3), "exact duplicates"),
        (lambda: evaluation.ground_truth(["a"]), "numbers of shape"),
        (lambda: evaluation.ground_truth(np.full((20, 3), np.nan), n_queries=2, neighbor=3), "NaN"),
        (lambda: evaluation.exact_neighbors(np.zeros((1, 3)), np.zeros((5, 4)), 1), "3 features"),
        (lambda: evaluation.exact_neighbors(np.zeros((1, 3)), np.zeros((5, 3)), 6), "between 1 and the 5"),
        (lambda: evaluation.exact_neighbors(np.zeros((1, 1)), [[0.0], [np.inf]], 1), "row 1 has NaN, inf"),
        (
            lambda: evaluation.rank_codes(np.zeros((1, 2), np.uint8), np.zeros((3, 1), np.uint8), ONE),
            "same number of bytes",
        ),
        (
            lambda: evaluation.rank_codes(np.zeros((2, 1), np.uint8), np.zeros((3, 1), np.uint8), ONE),
            "2 queries came with true neighbours of 1",
        ),
        (lambda: evaluation.rank_scores(np.zeros((1, 5)), Neighborhoods.from_ids([[]])), "no true neighbour"),
        (lambda: evaluation.rank_scores(np.zeros((1, 5)), Neighborhoods.from_ids([[5]])), "of 5 items"),
        (lambda: evaluation.rank_scores(np.full((1, 5), np.nan), ONE), "NaN"),
        (lambda: evaluation.rank_scores(np.zeros(5), ONE), "shape"),
        (lambda: evaluation.precision_recall([]), "at least one"),
        (lambda: evaluation.precision_recall(ranking_of([(1, 1)]), recall=[0.0]), r"\(0, 1\]"),
        (lambda: evaluation.precision_recall(ranking_of([(1, 1)]), average="all"), "'all'"),
        (lambda: evaluation.recall_at_k(ranking_of([(1, 1)]), 0), "at least 1"),
        (lambda: evaluation.recall_of_ids([[1]], [[1], [2]]), "equal q"),
    ],
)
def test_wrong_input_is_refused_with_a_sentence(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


ONE = Neighborhoods.from_ids([[0]])


def test_no_query_left_says_which_rule_dropped_them():
    X = np.repeat(np.eye(2), 20, axis=0) + np.random.default_rng(0).normal(0, 1e-3, (40, 2))
    with pytest.raises(InvalidInputError, match=r"have more than 1 true.*Raise max_neighbors"):
        evaluation.ground_truth(X, n_queries=2, neighbor=15, max_neighbors=1, rng=0)


def test_neighborhoods_are_indexed_by_query():
    near = Neighborhoods.from_ids([[3, 1], [], [2]])
    assert near.counts.tolist() == [2, 0, 1]
    assert [n.tolist() for n in (near[0], near[1], near[2])] == [[1, 3], [], [2]]
    with pytest.raises(IndexError, match="query 3 of 3"):
        near[3]
