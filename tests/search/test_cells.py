"""Cells against loops: centres, what a query reads and finds, and an index that has them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bilsh
from bilsh import _native
from bilsh.search import cells as room
from bilsh.search.cells import (
    CENTRE_BYTES,
    EVERYTHING,
    Cells,
    held_out,
    in_cells,
    learn_centres,
    nearest,
    number_of_cells,
    octaves,
)
from bilsh.search.pruning import prefix_limits
from support import clustered_codes as clustered
from support import slabs_of

EXACT = 0.0


def distances(query, codes):
    return np.bitwise_count(query ^ codes).sum(axis=-1).astype(int)


def octaves_of(number):
    """Logarithm in steps of 1 / 64, straight between powers of two."""
    power = number.bit_length() - 1
    return 64 * power + (64 * number // 2**power - 64)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 2**45))
def test_logarithms_in_steps(number):
    assert octaves(np.array([number])).tolist() == [octaves_of(number)]
    assert abs(octaves_of(number) / 64 - np.log2(number)) < 0.11
    assert octaves_of(number) <= octaves_of(number + 1)


def far_of(query, cells, width):
    """Distances to centres; those of regions farther than the nearest by more than a width count as the farthest."""
    query = query[: cells.centres.shape[1]]
    far = distances(query, cells.centres)
    if len(cells.regions.middles()):
        middles = distances(query, cells.regions.middles())
        far[middles[cells.regions.of()] > middles.min() + width] = 8 * cells.centres.shape[1] + 1
    return far


def loop(query, codes, ids, living, cells, k, first, seeds, slope, share, slack, width):
    """The rule, cell by cell: ids and distances, bound, how far the first cells go, number of cells."""
    far = far_of(query, cells, width)
    order = sorted(range(len(far)), key=lambda cell: (far[cell], cell))
    read, seen = [], []
    for cell in order:
        if sum(living[row] for row in seen) >= max(first, k):
            break
        read.append(cell)
        seen += range(cells.offsets[cell], cells.offsets[cell + 1])
    heads = {row: distances(query[:128], codes[row, :128]) for row in seen if living[row]}
    last = sorted(heads.values())[min(max(seeds, k), len(heads)) - 1]
    bound = sorted(distances(query, codes[row]) for row in heads if heads[row] <= last)[k - 1]
    front = far[read[-1]]
    for cell in order[len(read) :]:
        before = int(sum(living[row] for row in seen))
        if slope * far[cell] + octaves_of(before + first) > int(np.floor(share * bound)) + slack:
            break
        read.append(cell)
        seen += range(cells.offsets[cell], cells.offsets[cell + 1])
    hits = sorted((distances(query, codes[row]), ids[row]) for row in seen if living[row])[:k]
    return hits, [bound, front, len(read)], len(seen)


@pytest.mark.parametrize("level", _native.levels())
@pytest.mark.parametrize("n_bytes", [5, 64, 80, 128, 300, 512])
@pytest.mark.parametrize(("cached", "n_regions"), [(0, 1), (room.CACHED, 1), (0, 6), (room.CACHED, 6)])
def test_what_a_query_reads_and_finds(cached, n_regions, n_bytes, level, monkeypatch):
    monkeypatch.setattr(room, "CACHED", cached)
    monkeypatch.setattr(room, "number_of_regions", lambda n: n_regions)
    _native.force_level(level)
    try:
        rng = np.random.default_rng(n_bytes)
        codes = clustered(700, n_bytes, n_bytes)
        order, cells = in_cells(codes, np.arange(700), 25)
        codes, ids = codes[order], rng.permutation(10_000)[:700]
        living = rng.random(700) < 0.7
        queries = clustered(12, n_bytes, n_bytes)
        bitmap = np.packbits(living, bitorder="little")
        for alive, counts in [(bitmap, living), (None, np.ones(700, dtype=bool))]:
            rows = cells.of(slabs_of(codes), alive, ids)
            assert rows.living == counts.sum()
            limits = prefix_limits(8 * n_bytes, rows.prefixes, EXACT)
            slope, share = cells.slope, cells.share(8 * n_bytes)
            for k, first, seeds, *rule in [
                (1, 1, 1, slope, share, 450, EVERYTHING),
                (7, 30, 14, slope, share, 350, 3),
                (7, 30, 7, slope, share, 900, 0),
                (7, 30, 7, slope, share, 1500, n_bytes),
                (7, 30, 7, 1, 0.8, 600, 2),
                (7, 30, 7, 0, 0.0, 500, 1),
                (7, 30, 7, slope, share, -(10**6), 0),
                (20, 1, 1, 0, 0.0, EVERYTHING, 0),
                (20, 1, 1, slope, share, EVERYTHING, EVERYTHING),
                (300, 300, 300, slope, share, 700, 0),
            ]:
                together = rows.top_k(queries, k, first, seeds, *rule, limits, 3)
                n_read = 0
                for q, query in enumerate(queries):
                    hits, visit, n_rows = loop(query, codes, ids, counts, cells, k, first, seeds, *rule)
                    found = list(zip(together[1][q].tolist(), together[0][q].tolist(), strict=True))
                    assert found == hits
                    assert together[2][:, q].tolist() == visit
                    n_read += n_rows
                assert together[4] == n_read
                width = rule[-1]
                far = rows.far(queries, width, 2)
                assert far.tolist() == [far_of(query, cells, width).tolist() for query in queries]
                n_regions = len(cells.regions.middles())
                n_looked_at = (far <= 8 * cells.centres.shape[1]).sum() + n_regions * len(queries)
                bounds, ranks = together[2][0], np.linspace(0, 1, 300)
                *_, farthest, rank = rows.top_k(queries, k, first, seeds, *rule, limits, 1, ranks)
                assert farthest == bounds.max()
                assert rank == pytest.approx(ranks.take(bounds, mode="clip").mean())
                assert together[3] == n_looked_at
                alone = rows.top_k(queries[3:4], k, first, seeds, *rule, limits)
                assert alone[0].tolist() == together[0][3:4].tolist()
                assert alone[2].tolist() == together[2][:, 3:4].tolist()
    finally:
        _native.force_level("auto")


@pytest.mark.parametrize("cached", [0, room.CACHED])
def test_queries_that_share_cells_may_read_more_than_they_hold(cached, monkeypatch):
    monkeypatch.setattr(room, "CACHED", cached)
    # No row can be left by its first bits, so tens of thousands would wait for their turn; and 300 queries are more
    # than share cells at a time.
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (80_000, 160), dtype=np.uint8)
    queries = rng.integers(0, 256, (300, 160), dtype=np.uint8)
    cells = Cells(np.ascontiguousarray(codes[::4000]), np.arange(0, 84_000, 4000))
    slabs = slabs_of(codes)
    rows = cells.of(slabs, None)
    limits = prefix_limits(1280, rows.prefixes, 0.2)
    found = rows.top_k(queries, 10, 100, 20, 1, 0.8, EVERYTHING, 0, limits)
    assert (found[2][2] == len(cells)).all()
    true = _native.hamming_top_k(queries, slabs, 10, None, None, 1)[0]
    assert np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found[0], true, strict=True)]) > 0.7
    for q in (0, 255, 256, 299):
        alone = rows.top_k(queries[q : q + 1], 10, 100, 20, 1, 0.8, EVERYTHING, 0, limits)
        assert alone[0].tolist() == found[0][q : q + 1].tolist()
    exact = prefix_limits(1280, rows.prefixes, EXACT)
    assert rows.top_k(queries, 10, 100, 20, 1, 0.8, EVERYTHING, 0, exact)[0].tolist() == true.tolist()


def test_more_cells_are_read_where_the_first_hold_too_few():
    codes = clustered(60, 8, 0)
    order, cells = in_cells(codes, np.arange(60), 30)
    slabs = slabs_of(codes[order])
    limits = np.zeros((0, 1), dtype=np.int32)
    found = cells.of(slabs, None).top_k(codes, 60, 1, 1, 0, 0.0, -1, EVERYTHING, limits)
    assert found[0].shape == (60, 60)
    assert all(sorted(row) == list(range(60)) for row in found[0].tolist())


@pytest.mark.parametrize("n_bytes", [1, 64, 65, 200, 512, 3000])
def test_prefixes_double(n_bytes):
    """The first 512 bits are read with the next where a cache holds both."""
    codes = clustered(4, n_bytes, 0)
    cells = Cells(codes[:1], np.array([0, 4]))
    for cached, first in ((4 * 128, 1024), (4 * 64, 512)):
        prefixes = _native.CellSet(slabs_of(codes), cells.offsets, cells.regions, None, None, cached).prefixes
        assert all(end == first * 2**number for number, end in enumerate(prefixes))
        assert 8 * n_bytes / 2 <= (prefixes or (first,))[-1]
        assert not prefixes or prefixes[-1] < 8 * n_bytes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 5, 3, 60])}, "ascend"),
        ({"offsets": np.array([0, 61])}, "ascend"),
        ({"offsets": np.array([0])}, "one entry more"),
        ({"regions": _native.Regions(np.zeros((1, 8), dtype=np.uint8), 1)}, "of 2 centres"),
        ({"regions": _native.Regions(np.zeros((2, 9), dtype=np.uint8), 1)}, "at most the 8 bytes"),
        ({"queries": np.zeros((1, 7), dtype=np.uint8)}, "as long as codes"),
        ({"slope": -1}, "slope"),
        ({"share": -1.0}, "share"),
        ({"width": -1}, "width"),
        ({"limits": np.zeros((1, 1), dtype=np.int32)}, "limits"),
        ({"ranks": np.zeros(0)}, "ranks"),
    ],
)
def test_what_the_core_refuses(change, message):
    codes = clustered(60, 8, 0)
    rows = {"slabs": [codes], "offsets": np.array([0, 20, 60]), "regions": _native.Regions(codes[:2], 1)}
    asked = {
        "queries": codes[:1],
        "k": 3,
        "first": 3,
        "seeds": 3,
        "slope": 1,
        "share": 0.5,
        "slack": 0,
        "width": 0,
        "limits": np.zeros((0, 1), dtype=np.int32),
        "ranks": np.ones(1),
    }
    with pytest.raises(ValueError, match=message):
        _native.CellSet(**{name: change.get(name, value) for name, value in rows.items()}).top_k(
            **{name: change.get(name, value) for name, value in asked.items()}
        )


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 12), st.integers(0, 2**31))
def test_centres_are_majorities(n, n_bytes, n_cells, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, size=(n, n_bytes), dtype=np.uint8)
    cell_of = rng.integers(0, n_cells, size=n, dtype=np.int32)
    before = rng.integers(0, 256, size=(n_cells, n_bytes), dtype=np.uint8)
    after = _native.majority(codes, cell_of, before, 2)
    for cell in range(n_cells):
        mine = np.unpackbits(codes[cell_of == cell], axis=1, bitorder="little")
        expected = (
            np.packbits(2 * mine.sum(axis=0) > len(mine), bitorder="little") if len(mine) else before[cell]
        )
        assert after[cell].tolist() == expected.tolist()


@pytest.mark.parametrize("level", _native.levels())
@pytest.mark.parametrize(
    ("n", "n_bytes", "n_cells"), [(1, 8, 1), (5, 128, 40), (700, 3, 2100), (5000, 64, 333), (300, 100, 17)]
)
def test_every_code_goes_to_the_first_of_the_nearest_centres(level, n, n_bytes, n_cells):
    rng = np.random.default_rng(n)
    codes = rng.integers(0, 256, (n, n_bytes), dtype=np.uint8)
    centres = rng.integers(0, 256, (n_cells, n_bytes), dtype=np.uint8)
    centres[n_cells // 2 :] = centres[: n_cells - n_cells // 2]  # equals
    _native.force_level(level)
    try:
        found = [_native.nearest_centres(codes, centres, n_jobs) for n_jobs in (1, 3)]
    finally:
        _native.force_level("auto")
    expected = _native.hamming_matrix(codes, centres, 1).argmin(axis=1)
    assert all((one == expected).all() for one in found)
    with pytest.raises(ValueError, match="as long as codes"):
        _native.nearest_centres(codes, np.zeros((1, n_bytes + 1), dtype=np.uint8))
    with pytest.raises(ValueError, match="there must be a centre"):
        _native.nearest_centres(codes, centres[:0])


@pytest.mark.parametrize(
    ("n", "n_bytes", "n_regions"), [(1, 1, 1), (300, 16, 20), (40, 128, 40), (500, 3, 33)]
)
def test_regions_are_of_centres_near_each_other(n, n_bytes, n_regions):
    centres = clustered(n, n_bytes, 0)
    centres[n // 2 :] = centres[: n - n // 2]  # equals
    regions = _native.Regions(centres, n_regions)
    assert (regions.middles().tolist(), regions.of().tolist()) == learned_regions(centres, n_regions)


def learned_regions(centres, n_regions):
    """Middles, and the region of each centre, by k-majority among centres that begins with some of them."""
    n = len(centres)
    if n_regions == 1:
        return [], [0] * n
    middles = centres[np.arange(n_regions) * n // n_regions].copy()
    for _ in range(8):
        of = np.bitwise_count(centres[:, None] ^ middles).sum(axis=2, dtype=int).argmin(axis=1)
        for region in np.unique(of):
            mine = np.unpackbits(centres[of == region], axis=1)
            middles[region] = np.packbits(2 * mine.sum(axis=0) > len(mine))
    of = np.bitwise_count(centres[:, None] ^ middles).sum(axis=2, dtype=int).argmin(axis=1)
    return middles.tolist(), of.tolist()


@pytest.mark.parametrize(("n", "n_bytes"), [(0, 4), (6, 4), (1, 0)])
def test_regions_that_cannot_be(n, n_bytes):
    with pytest.raises(ValueError, match="centre"):
        _native.Regions(np.zeros((5, n_bytes), dtype=np.uint8), n)


def test_large_cells_count_beyond_a_byte():
    codes = np.repeat(np.array([[1], [2]], dtype=np.uint8), [600, 599], axis=0)
    centres = _native.majority(codes, np.zeros(1199, dtype=np.int32), np.zeros((1, 1), dtype=np.uint8), 1)
    assert centres.tolist() == [[1]]


def test_learning_brings_centres_nearer_and_is_repeatable():
    codes = clustered(3000, 200, 1)
    centres = learn_centres(codes, 40)
    assert centres.shape == (40, CENTRE_BYTES)
    assert np.array_equal(centres, learn_centres(codes, 40, n_jobs=3))
    heads = codes[:, :CENTRE_BYTES]
    mine, first = nearest(codes, centres), nearest(codes, np.ascontiguousarray(heads[:40]))
    assert distances(heads, centres[mine]).sum() < 0.9 * distances(heads, heads[:40][first]).sum()


@pytest.mark.parametrize(
    ("asked", "n", "expected"),
    [
        (None, 10**6, 0),
        ("auto", 9_999, 0),
        ("auto", 10_000, 400),
        ("auto", 10**6, 4000),
        (7, 100, 7),
        (7, 3, 3),
    ],
)
def test_number_of_cells(asked, n, expected):
    assert number_of_cells(asked, n) == expected


@pytest.mark.parametrize("wrong", ["many", 0, -3, 2.5])
def test_numbers_of_cells_that_are_refused(wrong):
    with pytest.raises((ValueError, TypeError), match="cells must be"):
        bilsh.Index(clustered(50, 8, 0), cells=wrong)


def test_cells_of_rows():
    cells = Cells(np.zeros((4, 1), dtype=np.uint8), np.array([0, 0, 3, 3, 5]))
    assert cells.of_rows(np.arange(5)).tolist() == [1, 1, 1, 3, 3]


class TestIndexWithCells:
    codes = clustered(3000, 160, 5)
    plain = bilsh.Index(codes)
    celled = bilsh.Index(codes, cells=50)
    queries = clustered(20, 160, 5)

    def test_without_a_recall_it_answers_as_before(self):
        for options in ({"mode": "hamming"}, {"delta": 0}, {"recall": 1}, {"radius": 200}):
            one, other = (
                index.search(codes=self.queries, k=9, **options) for index in (self.plain, self.celled)
            )
            assert [ids.tolist() for ids in one.ids] == [ids.tolist() for ids in other.ids]
            assert [far.tolist() for far in one.distances] == [far.tolist() for far in other.distances]

    def test_a_filter_means_the_same_items(self):
        passes = np.random.default_rng(0).random(3000) < 0.3
        for where in (passes, np.flatnonzero(passes)):
            for recall in (None, 0.9, 1):
                found = self.celled.search(codes=self.queries, k=9, where=where, recall=recall)
                assert passes[found.ids].all()
                truth = self.plain.search(codes=self.queries, k=9, where=where, delta=0)
                assert (found.ids == truth.ids).mean() > (0.8 if recall != 1 else 0.999)

    def test_items_as_queries_and_vectors_follow_their_codes(self):
        vectors = np.unpackbits(self.codes, axis=1, bitorder="little").astype(np.float32)[:, :64]
        ids = np.random.default_rng(1).permutation(50_000)[:3000]
        found = bilsh.Index(self.codes, ids=ids, cells=50).search(ids=ids[:5], k=4, recall=0.95)
        truth = self.plain.search(ids=np.arange(5), k=4, mode="hamming")
        assert (found.ids == ids[truth.ids]).mean() > 0.7
        index = bilsh.Index(self.codes, ids=ids, cells=50, vectors=vectors)
        rows, here = index._view().memory.rows_of(index, ids[:100])
        assert here.all()
        assert np.array_equal(index.vectors[rows], vectors[:100])

    def test_it_says_what_it_did(self):
        told = self.celled.search(codes=self.queries, k=5, recall=0.9).explain()
        assert told.promise.target == 0.9
        assert told.promise.k == 5
        assert told.promise.n_queries == held_out(np.arange(3000)).sum()
        assert "promised recall 0.9 of the 5 nearest codes, for queries like 597 items" in str(told)
        assert "of 50 cells read per query" in str(told)
        assert "cells: centres" in told.work
        assert "there are no cells" in str(self.plain.search(codes=self.queries, recall=0.9).explain())

    def test_strange_queries_are_read_in_full(self):
        strange = np.random.default_rng(3).integers(0, 256, size=(6, 160), dtype=np.uint8)
        found = self.celled.search(codes=strange, k=5, recall=0.9)
        assert "6 of 6 queries are farther from everything" in str(found.explain())
        assert found.ids.tolist() == self.plain.search(codes=strange, k=5, mode="hamming").ids.tolist()

    def test_calibrating_with_such_queries_makes_them_usual(self):
        index = bilsh.Index(self.codes, cells=50)
        strange = np.random.default_rng(3).integers(0, 256, size=(606, 160), dtype=np.uint8)
        index.calibrate(strange[6:])
        told = index.search(codes=strange[:6], k=5, recall=0.9).explain()
        assert told.promise is None or told.promise.source == "given"
        with pytest.raises(ValueError, match="no cells"):
            self.plain.calibrate(strange)

    def test_more_neighbours_than_were_kept(self):
        found = self.celled.search(codes=self.queries, k=300, recall=0.9)
        truth = self.plain.search(codes=self.queries, k=300, mode="hamming")
        kept = [len(np.intersect1d(a, b)) / 300 for a, b in zip(found.ids, truth.ids, strict=True)]
        assert np.mean(kept) > 0.85

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"recall": 0}, "recall must be"),
            ({"recall": 1.5}, "recall must be"),
            ({"recall": 0.9, "radius": 3}, "a radius is searched exactly"),
            ({"recall": 0.9, "mode": "hamming"}, "reads all items"),
        ],
    )
    def test_what_is_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            self.celled.search(codes=self.queries, **options)


def test_descriptors_are_scored_after_cells():
    rng = np.random.default_rng(0)
    X = 4 * rng.normal(size=(20, 6, 6))[rng.integers(0, 20, size=2500)] + rng.normal(size=(2500, 6, 6))
    enc = bilsh.AngleEncoder(n_bits=1024, random_state=0).fit(X)
    index = bilsh.Index(enc.transform(X), enc, cells=60)
    found = index.search(X[:4], k=3, recall=0.9)
    assert found.ids[:, 0].tolist() == [0, 1, 2, 3]
    assert found.explain().promise.k == 100
    assert found.interval.shape == (4, 3, 2)
