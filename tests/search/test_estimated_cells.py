"""Cells of learned codes: the promise by independent experiments, its mutants, and what a search tells and refuses."""

import numpy as np
import pytest
from scipy import stats

import bilsh
from bilsh import _native
from bilsh.benchmark.cell_data import variants
from bilsh.datasets import digits, mnist
from bilsh.search import estimated_promise as room
from bilsh.search.estimated_promise import EstimatedTrial, needs_of, promise, try_items, try_queries
from bilsh.search.places import PlaceCells, in_places, learn_places

K, N_CELLS = 5, 40
SHAPE = np.random.default_rng(99).normal(size=(6, 24))


def points(n, seed):
    """Vectors near a plane of six dimensions, more of them in its middle."""
    rng = np.random.default_rng(seed)
    at = rng.normal(size=(n, 6)) * np.array([2, 2, 1, 1, 0.5, 0.5])
    return (at @ SHAPE + 0.5 * rng.normal(size=(n, 24))).astype(np.float32)


@pytest.fixture(scope="module", params=[1, 3], ids=["one centre", "three centres"])
def encoder(request):
    return bilsh.EuclideanEncoder(12, centres=request.param, random_state=0).fit(points(3000, 12345))


@pytest.fixture(autouse=True)
def _best_level_afterwards():
    yield
    _native.force_level("auto")
    _native.set_least_share(1e5)


def kept_recall(
    encoder,
    seed,
    target,
    *,
    n=1000,
    n_trial=150,
    n_new=150,
    vectors=True,
    where=None,
    trial_of=None,
    budget_of=None,
):
    """Recall of new queries by a trial and cells of their own, minus the target: one independent experiment."""
    coder, X = encoder.coder_, points(n, 2 * seed)
    codes = encoder.transform(X)
    order, cells = in_places(coder, codes, np.arange(n), N_CELLS, seed=seed)
    slabs = [codes[order]]
    old = room.QUERIES
    room.QUERIES = n_trial
    try:
        trial = try_items(
            coder, slabs, None, order, X[order] if vectors else None, seed=seed, n_neighbours=60
        )
    finally:
        room.QUERIES = old
    if trial_of is not None:
        trial = trial_of(trial)
    alive = None
    if where is not None:
        alive = np.packbits(where(np.random.default_rng(seed), X[order]), bitorder="little")
    made, _ = promise(trial, needs_of(trial, cells, alive), K, target)
    budget = made.slack if budget_of is None else budget_of(made.slack)
    new = points(n_new, 2 * seed + 1)
    near = coder.compiled.visit(
        new, slabs, K, cells.places.closeness(new), cells.offsets, cells.living(alive), budget, None, alive
    )[0]
    truth = coder.compiled.top_k(new, slabs, K, None, alive)[0]
    return np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(near, truth, strict=True)]) - target


def below(samples, *, false_fail=1e-6):
    """Whether the mean of independent samples is below 0 beyond doubt."""
    error = samples.std(ddof=1) / len(samples) ** 0.5
    return samples.mean() < -stats.t.isf(false_fail, len(samples) - 1) * error, error


def experiments(encoder, target, count=100, **options):
    return np.array([kept_recall(encoder, seed, target, **options) for seed in range(count)])


@pytest.mark.parametrize("target", [0.9, 0.95])
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "codes"])
def test_expected_recall_reaches_the_target(encoder, target, vectors):
    """A one-sided t test over independent data, cells, trials and queries; fails falsely once in a million times and
    notices a recall that is 0.015 below the target."""
    samples = experiments(encoder, target, vectors=vectors)
    fails, error = below(samples)
    assert not fails
    assert 6 * error < 0.015
    # It reads no more than it must, but for the margin of queries that are codes.
    assert samples.mean() < 0.02 + (0 if vectors else 0.4 * (1 - target))


@pytest.mark.parametrize("filter_", ["some", "one side"])
def test_filters_keep_the_promise(encoder, filter_):
    def where(rng, X):
        return rng.random(len(X)) < 0.5 if filter_ == "some" else X[:, 0] > 0

    fails, error = below(experiments(encoder, 0.9, where=where))
    assert not fails
    assert 6 * error < 0.015


def with_itself(trial):
    """Mutant: items are not left out, so that each finds itself."""
    near = np.concatenate([trial.own[:, None], trial.near[:, :-1]], axis=1)
    return EstimatedTrial(trial.vectors, near, trial.far, trial.own, trial.described, trial.time)


@pytest.mark.parametrize(
    "mutant",
    [{"trial_of": with_itself}, {"budget_of": lambda rows: rows * 3 // 4}],
    ids=["with itself", "too few cells"],
)
def test_mutants_are_caught(encoder, mutant):
    """What the tests above would say of a biased calibration."""
    assert below(experiments(encoder, 0.9, **mutant))[0]


def test_needs_are_those_of_the_search(encoder):
    """A neighbour is found from exactly the budget on that its need tells, with deletions too."""
    coder, X = encoder.coder_, points(800, 1)
    codes = encoder.transform(X)
    order, cells = in_places(coder, codes, np.arange(800), N_CELLS)
    slabs, new = [codes[order]], points(30, 2)
    for alive in (None, np.packbits(np.random.default_rng(0).random(800) < 0.7, bitorder="little")):
        trial = try_queries(coder, new, slabs, alive)
        needs, living = needs_of(trial, cells, alive), cells.living(alive)
        assert (living == np.add.reduceat(
            np.ones(800) if alive is None else np.unpackbits(alive, bitorder="little"), cells.offsets[:-1]
        ) * (np.diff(cells.offsets) > 0)).all()  # fmt: skip
        for budget in (0, 40, 200):
            near, _, visited, rows = coder.compiled.visit(
                trial.vectors,
                slabs,
                K,
                cells.places.closeness(trial.vectors),
                cells.offsets,
                living,
                budget,
                None,
                alive,
            )
            found = (trial.near[:, :K, None] == near[:, None]).any(axis=2)
            known = needs.rows[:, :K] <= budget
            assert (found[known]).all()
            # Where a nearer one was missed, farther ones may still be among the five best of what was read.
            assert (found == known)[:, 0].all()
            assert visited.min() >= 1
            assert rows <= len(new) * (budget + 2 * np.diff(cells.offsets).max() if alive is None else 800)


def test_reading_all_cells_is_the_exact_answer_on_all_levels(encoder):
    coder, codes = encoder.coder_, encoder.transform(points(2500, 3))
    order, cells = in_places(coder, codes, np.arange(2500), 20)
    new, ids = points(20, 4), order.astype(np.int64)
    expected = coder.compiled.top_k(new, [codes[order]], 7, ids)
    closeness, living = cells.places.closeness(new), cells.living(None)
    some = coder.compiled.visit(new, [codes[order]], 7, closeness, cells.offsets, living, 300, ids)
    for level in _native.levels():
        _native.force_level(level)
        _native.set_least_share(0)
        for n_jobs in (1, 2):
            options = cells.offsets, living, 2500, ids, None, n_jobs
            found = coder.compiled.visit(new, [codes[order]], 7, closeness, *options)
            assert all(np.array_equal(a, b) for a, b in zip(found[:2], expected, strict=True))
            assert found[3] == 20 * 2500
        # One query after the other, in two slabs: the same.
        two = [np.ascontiguousarray(part) for part in np.split(codes[order], [8], axis=1)]
        for i in range(len(new)):
            one = coder.compiled.visit(
                new[i : i + 1], two, 7, closeness[i : i + 1], cells.offsets, living, 300, ids
            )
            assert np.array_equal(one[0][0], some[0][i])
            assert np.array_equal(one[1][0], some[1][i])


def test_cells_that_hold_rows_of_many_centres_are_read_all_the_same(encoder):
    """What only a file that is not what it should be can say."""
    coder, codes = encoder.coder_, encoder.transform(points(900, 5))
    new = points(10, 6)
    offsets = np.array([0, 300, 900])
    closeness = np.tile(np.array([[0.0, 1.0]], dtype=np.float32), (10, 1))
    found = coder.compiled.visit(new, [codes], 4, closeness, offsets, np.diff(offsets), 0)
    expected = coder.compiled.top_k(new, [np.ascontiguousarray(codes[300:])], 4)
    assert np.array_equal(found[0], expected[0] + 300)
    assert np.array_equal(found[1], expected[1])
    for wrong in (
        {"offsets": offsets[:2]},
        {"living": np.array([301, 600])},
        {"closeness": closeness[:, :1].copy()},
    ):
        options = {
            "closeness": closeness,
            "offsets": offsets,
            "living": np.diff(offsets),
            "budget": 0,
        } | wrong
        with pytest.raises(ValueError, match="cell"):
            coder.compiled.visit(new, [codes], 4, **options)


def test_places_are_those_of_what_codes_stand_for(encoder):
    codes = encoder.transform(points(700, 7))
    places = learn_places(encoder.coder_, codes, 30)
    assert len(places) == 30
    axes = places.axes[:, :-1]
    np.testing.assert_allclose(axes @ axes.T, np.eye(len(axes)), atol=1e-5)
    decoded = encoder.inverse_transform(codes) @ axes.T + places.axes[:, -1]
    np.testing.assert_allclose(places.of(encoder.coder_, codes), decoded, atol=1e-4)
    cells = places.cell_of(encoder.coder_, codes)
    assert np.array_equal(places.owners[cells], codes[:, 0])
    far = np.square(decoded[:, None] - places.centres).sum(axis=2)
    far[codes[:, :1] != places.owners] = np.inf
    assert np.mean(far[np.arange(700), cells] <= far.min(axis=1) + 1e-3) == 1


def test_an_index_keeps_and_explains_its_promise(encoder):
    X, new = points(4000, 8), points(400, 9)
    codes = encoder.transform(X)
    exact = bilsh.Index(codes, encoder).search(new, k=10)
    for index in (bilsh.Index(codes, encoder, cells=60), bilsh.Index(codes, encoder, cells=60, vectors=X)):
        assert isinstance(index.places, PlaceCells)
        assert np.array_equal(index.search(new, k=10).ids, exact.ids)
        assert np.array_equal(index.search(new, k=10, recall=1).ids, exact.ids)
        hits = index.search(new, k=10, recall=0.9)
        told = str(hits.explain())
        assert "cells near the query" in told
        assert "promised recall 0.9 of the 10 nearest codes, for queries like" in told
        assert "items, each without itself" in told
        assert ("no vectors are kept" in told) == (index.vectors is None)
        rows = {stage.name: stage.items for stage in hits.explain().stages}
        assert 0 < rows["cells: rows"] < 0.3 * 400 * 4000
        kept = np.mean([len(np.intersect1d(a, b)) for a, b in zip(hits.ids, exact.ids, strict=True)]) / 10
        assert kept > 0.87  # its standard error is .006
        told = hits.estimate(of="distance")
        assert (np.abs(told.value - hits.distances) <= told.bound[..., 1] - told.bound[..., 0] + 1e-6).all()
    few = index.search(new[:2], k=10, recall=0.9, where=np.arange(2000))
    assert (few.ids < 2000).all()
    assert "few queries do not pay" in str(few.explain())
    again = index.search(ids=[3, 4], k=5, recall=0.9)
    assert not (again.ids == [[3], [4]]).any()
    with_vectors = index.search(new[:5], k=5, recall=0.9, rerank=True)
    assert "promised recall 0.9 of the 100 nearest codes" in str(with_vectors.explain())


def test_more_neighbours_than_a_trial_knows_and_more_than_there_are(encoder):
    X, new = points(1500, 10), points(100, 11)
    index = bilsh.Index(encoder.transform(X), encoder, cells=60, vectors=X)
    exact = index.search(new, k=300)
    hits = index.search(new, k=300, recall=0.9)
    kept = np.mean([len(np.intersect1d(a, b)) for a, b in zip(hits.ids, exact.ids, strict=True)]) / 300
    assert kept > 0.87
    assert index.search(new, k=2000, recall=0.9).ids.shape == (100, 1500)
    assert "all rows are read" in str(index.search(new, k=1400, recall=0.99).explain())


def test_queries_of_another_kind_are_noticed_and_can_be_calibrated_for(encoder):
    index = bilsh.Index(encoder.transform(points(3000, 13)), encoder, cells=50)
    strange = points(400, 14) + 30
    told = str(index.search(strange[:200], k=5, recall=0.9).explain())
    assert "farther from everything than those of the calibration" in told
    one = index.search(strange[:1], k=5, recall=0.9)
    assert np.array_equal(one.ids, index.search(strange[:1], k=5).ids)
    usual = str(index.search(points(200, 15), k=5, recall=0.9).explain())
    assert "200 of 200" not in usual
    index.calibrate(strange[200:])
    told = str(index.search(strange[:200], k=5, recall=0.9).explain())
    assert "200 queries that were given" in told
    assert "200 of 200" not in told


def test_cells_are_refused_or_left_out_where_there_is_nothing_to_group(encoder):
    codes = encoder.transform(points(50, 16))
    assert bilsh.Index(codes, encoder, cells="auto").places is None
    one = bilsh.Index(codes[:1], encoder, cells=1)
    assert one.search(points(1, 17), k=3, recall=0.5).ids.shape == (1, 1)
    same = bilsh.Index(np.repeat(codes[:1], 100, axis=0), encoder, cells=10)
    assert same.search(points(3, 17), k=3, recall=0.9).ids.shape == (3, 3)
    with pytest.raises(bilsh.InvalidInputError, match="no cells"):
        bilsh.Index(codes, encoder).calibrate(points(200, 18))


def judged(encoder, X, cells="auto", vectors=True):
    """Recalls of 2,000 new queries beside those that were promised; standard errors as in test_promised_recall.py."""
    order = np.random.default_rng(0).permutation(len(X))
    items, new = X[order[2000:]], X[order[:2000]]
    kept = items if vectors else None
    index = bilsh.Index(encoder.transform(items), encoder, cells=cells, vectors=kept)
    truth = index.search(new, k=10).ids
    for target in (0.90, 0.95, 0.99):
        found = index.search(new, k=10, recall=target)
        recall = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found.ids, truth, strict=True)])
        print(target, recall, found.explain())
        assert recall > target - 0.01
    return index


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "codes"])
def test_digits(vectors):
    images = digits().X.reshape(-1, 8, 8).astype(np.float32)
    X = np.concatenate(list(variants(images, 14_000)))
    judged(bilsh.EuclideanEncoder(24, centres=8, random_state=0).fit(X[:3000]), X, vectors=vectors)


@pytest.mark.parametrize("n_cells", [30, 400])
def test_clusters(n_cells):
    rng = np.random.default_rng(3)
    middles = rng.normal(size=(150, 20)) * 2
    X = (middles[rng.integers(150, size=12_000)] + rng.normal(size=(12_000, 20))).astype(np.float32)
    judged(bilsh.EuclideanEncoder(16, centres=4, random_state=0).fit(X[:3000]), X, n_cells)


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "codes"])
@pytest.mark.parametrize("n_bytes", [32, 64])
def test_mnist(n_bytes, vectors, mnist_folder):
    X = mnist(mnist_folder).X.astype(np.float32).reshape(-1, 28, 28)
    index = judged(
        bilsh.EuclideanEncoder(n_bytes, centres=16, random_state=0).fit(X[:20_000]), X, vectors=vectors
    )
    assert index.search(X[:200], k=10, recall=0.95).explain().promise.rows < 0.06
