"""Search against a loop over everything: modes, filters, ties, several segments, deleted rows, re-ranking."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom
from sklearn.datasets import load_digits

import bilsh
from bilsh.codes import slab_widths
from bilsh.encoders.foreign import ForeignCoder, GivenMap
from bilsh.search.pruning import prefix_limits
from bilsh.search.scan import Memory
from bilsh.search.searchable import Searchable, View

DIGITS = load_digits().images


class Part:
    """A segment with deleted rows, as a store has them."""

    def __init__(self, codes, ids, living=None, vectors=None):
        edges = np.cumsum(slab_widths(codes.shape[1]))[:-1]
        self.slabs = [np.ascontiguousarray(slab) for slab in np.split(codes, edges, axis=1)]
        self.ids = np.asarray(ids, dtype=np.int64)
        self.alive = None if living is None else np.packbits(living, bitorder="little")
        self.vectors = vectors
        self.cells = None


class Parts(Searchable):
    """Several segments searched as one set of items."""

    def __init__(self, parts, n_bytes, encoder=None):
        if encoder is None:
            as_they_lie = GivenMap(np.arange(8 * n_bytes, dtype=np.int32))
            coder = replace(ForeignCoder.of(8 * n_bytes), projection=as_they_lie)
        self.view = View(parts, coder if encoder is None else encoder.coder_)

    def _view(self):
        return self.view


def oracle(queries, codes, ids, living, k):
    """Loop over all living items: sorted by (distance, id)."""
    rows = []
    for query in queries:
        found = [
            (int(np.bitwise_count(query ^ code).sum()), int(number))
            for code, number, lives in zip(codes, ids, living, strict=True)
            if lives
        ]
        rows.append(sorted(found)[:k])
    return rows


def pairs(found):
    return [
        list(zip(far, ids, strict=True))
        for far, ids in zip(found.distances.tolist(), found.ids.tolist(), strict=True)
    ]


def clustered(rng, n, n_bytes, n_clusters=30):
    centres = rng.integers(0, 256, (n_clusters, n_bytes), dtype=np.uint8)
    noise = rng.integers(0, 256, (3, n, n_bytes), dtype=np.uint8)
    return centres[rng.integers(n_clusters, size=n)] ^ (noise[0] & noise[1] & noise[2])


@st.composite
def segmented(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_bytes = draw(st.sampled_from([1, 5, 70, 300]))
    n = draw(st.integers(0, 60))
    codes = rng.integers(0, draw(st.sampled_from([2, 256])), (n, n_bytes), dtype=np.uint8)
    ids = rng.permutation(3 * n)[:n] - n
    living = rng.random(n) < draw(st.sampled_from([0.3, 1.0]))
    cuts = np.sort(rng.integers(0, n + 1, draw(st.integers(0, 3))))
    spans = np.split(np.arange(n), cuts)
    parts = [
        Part(codes[s], ids[s], living[s] if draw(st.booleans()) or not living.all() else None) for s in spans
    ]
    queries = rng.integers(0, 256, (draw(st.integers(0, 3)), n_bytes), dtype=np.uint8)
    return queries, codes, ids, living, parts


@given(segmented(), st.integers(1, 80), st.sampled_from(["hamming", "progressive"]), st.sampled_from([1, 2]))
@settings(max_examples=80)
def test_top_k_over_segments_is_the_sorted_list(case, k, mode, n_jobs):
    queries, codes, ids, living, parts = case
    found = Parts(parts, codes.shape[1]).search(queries, k, mode=mode, delta=0.0, n_jobs=n_jobs)
    assert pairs(found) == oracle(queries, codes, ids, living, k)


@given(segmented(), st.integers(0, 2400))
@settings(max_examples=40)
def test_radius_over_segments(case, radius):
    queries, codes, ids, living, parts = case
    found = Parts(parts, codes.shape[1]).search(queries, radius=radius)
    expected = [[hit for hit in row if hit[0] <= radius] for row in oracle(queries, codes, ids, living, None)]
    for far, numbers, row in zip(found.distances, found.ids, expected, strict=True):
        assert list(zip(far.tolist(), numbers.tolist(), strict=True)) == row


@given(segmented(), st.data())
@settings(max_examples=40)
def test_filters_by_ids_and_by_mask(case, data):
    queries, codes, ids, living, parts = case
    passes = np.array(data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids))), dtype=bool)
    expected = oracle(queries, codes, ids, living & passes, 7)
    by_ids = Parts(parts, codes.shape[1]).search(queries, 7, where=ids[passes])
    by_mask = Parts(parts, codes.shape[1]).search(queries, 7, where=passes[living])
    assert pairs(by_ids) == pairs(by_mask) == expected


def test_progressive_is_exact_at_delta_zero_on_many_rows():
    rng = np.random.default_rng(0)
    codes = clustered(rng, 6000, 300)
    ids = rng.permutation(20000)[:6000]
    living = rng.random(6000) < 0.8
    parts = [Part(codes[:2500], ids[:2500], living[:2500]), Part(codes[2500:], ids[2500:], living[2500:])]
    queries = codes[:20] ^ (rng.random((20, 300)) < 0.02).astype(np.uint8)
    exact = Parts(parts, 300).search(queries, 10, mode="hamming")
    found = Parts(parts, 300).search(queries, 10, delta=0.0)
    np.testing.assert_array_equal(found.ids, exact.ids)
    np.testing.assert_array_equal(found.distances, exact.distances)


def test_prefixes_are_used_where_they_pay_and_told():
    rng = np.random.default_rng(0)
    codes = clustered(rng, 5000, 512)
    index = bilsh.Index(codes)
    told = index.search(codes[:3], 5).explain()
    assert told.mode == "progressive"
    assert "prefixes lose one of the nearest codes with probability at most 0.01" in told.reason
    assert [stage.name for stage in told.stages] == ["bits up to 512", "bits up to 2048", "bits up to 4096"]
    assert told.stages[0].items == 3 * 5000
    assert told.stages[1].items < 15_000 / 5
    assert told.bytes_read < 3 * codes.nbytes / 4
    assert told.seconds > 0
    assert "3 queries, 5000 items" in str(told)


@pytest.mark.parametrize("n_queries", [1, 40])
def test_concentrated_distances_fall_back_to_the_full_scan(n_queries):
    rng = np.random.default_rng(1)
    index = bilsh.Index(rng.integers(0, 256, (3000, 512), dtype=np.uint8))
    queries = rng.integers(0, 256, (n_queries, 512), dtype=np.uint8)
    first = index.search(queries, 5)
    again = index.search(queries, 5)
    exact = index.search(queries, 5, mode="hamming")
    assert "too concentrated" in first.explain().reason
    assert [stage.name for stage in again.explain().stages] == ["full scan"]
    np.testing.assert_array_equal(again.ids, exact.ids)
    names = [stage.name for stage in first.explain().stages]
    assert ("full scan" in names) == (n_queries == 40), "a sample of the queries decides for the others"


@given(st.integers(1, 40), st.data(), st.sampled_from([0.5, 0.1, 0.01, 1e-6]))
@settings(max_examples=60)
def test_limits_are_the_hypergeometric_quantiles(eighths, data, delta):
    n_bits = 8 * eighths
    prefix = data.draw(st.integers(1, n_bits))
    limits = prefix_limits(n_bits, (prefix,), delta)[0]
    for T in range(n_bits // 2 + 1):
        c = int(limits[T])
        assert hypergeom.sf(c, n_bits, T, prefix) <= delta * (1 + 1e-9)
        assert c == 0 or hypergeom.sf(c - 1, n_bits, T, prefix) > delta * (1 - 1e-6)
    assert limits[-1] == prefix


def test_limits_of_long_codes():
    prefixes = (512, 2048, 8192)
    limits = prefix_limits(16384, prefixes, 0.01)
    T = np.array([1, 50, 1000, 4000, 8000])
    for row, prefix in zip(limits, prefixes, strict=True):
        assert (hypergeom.sf(row[T], 16384, T, prefix) <= 0.01 / 3).all()
        assert (hypergeom.sf(row[T] - 1, 16384, T, prefix) > 0.01 / 3).all()
    exact = prefix_limits(16384, prefixes, 0.0)
    np.testing.assert_array_equal(exact[0, [0, 100, 8000]], [0, 100, 512])


ENCODERS = {
    "zero": lambda: bilsh.KernelEncoder(n_bits=203, random_state=0),
    "random": lambda: bilsh.lsh_sik(n_bits=120, random_state=0),
    "angle": lambda: bilsh.AngleEncoder(n_bits=120, random_state=0),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_asymmetric_scores_everything_or_candidates(name):
    encoder = ENCODERS[name]().fit(DIGITS)
    codes = encoder.transform(DIGITS[50:700])
    bits = bilsh.unpack(codes, encoder.n_bits)
    coder = encoder.coder_
    weights, bias = coder.calibration.score_weights(coder.values(DIGITS[:4]))
    scores = bias[:, None] + weights.astype(np.float64) @ bits.T
    order = np.argsort(-scores, axis=1, kind="stable")[:, :6]
    parts = [Part(codes[:300], np.arange(300)), Part(codes[300:], np.arange(300, 650))]
    found = Parts(parts, codes.shape[1], encoder).search(DIGITS[:4], 6, mode="asymmetric")
    np.testing.assert_array_equal(found.ids, order)
    expected = bilsh.hamming(encoder.transform(DIGITS[:4]), codes)
    np.testing.assert_array_equal(found.distances, np.take_along_axis(expected, order, axis=1))
    some = Parts(parts, codes.shape[1], encoder).search(DIGITS[:4], 6, mode="asymmetric", candidates=650)
    np.testing.assert_array_equal(some.ids, order)
    assert found.interval.shape == (4, 6, 2)
    assert (found.interval[..., 0] <= found.similarity).all()
    assert (found.similarity <= found.interval[..., 1]).all()


def test_asymmetric_search_finds_more_true_neighbours():
    truth = np.argsort(
        np.linalg.norm(DIGITS[:100].reshape(100, 1, -1) - DIGITS[100:].reshape(1, -1, 64), axis=2), axis=1
    )[:, :10]

    def recall(found):
        return np.mean(
            [len(set(a) & set(b)) / 10 for a, b in zip(found.ids.tolist(), truth.tolist(), strict=True)]
        )

    for encoder in (
        bilsh.KernelEncoder(n_bits=64, random_state=0),
        bilsh.AngleEncoder(n_bits=64, random_state=0),
    ):
        index = bilsh.Index(encoder.fit(DIGITS).transform(DIGITS[100:]), encoder)
        plain = recall(index.search(DIGITS[:100], mode="hamming"))
        assert recall(index.search(DIGITS[:100], mode="asymmetric")) > plain + 0.03


@pytest.mark.parametrize("kept", [True, False])
def test_reranking_is_exact_among_candidates(kept):
    encoder = bilsh.AngleEncoder(n_bits=64, random_state=0).fit(DIGITS)
    stored = DIGITS[100:500]
    ids = np.random.default_rng(0).permutation(400)
    vectors = stored.reshape(400, -1).astype(np.float32)
    index = bilsh.Index(encoder.transform(stored), encoder, ids=ids, vectors=vectors if kept else None)
    by_id = np.empty_like(stored)
    by_id[ids] = stored
    found = index.search(DIGITS[:5], 7, candidates=400, rerank=True if kept else by_id)
    exact = np.linalg.norm(DIGITS[:5].reshape(5, 1, -1) - by_id.reshape(1, 400, -1), axis=2)
    order = np.argsort(exact, axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(found.ids, order)
    np.testing.assert_allclose(found.exact, np.take_along_axis(exact, order, axis=1), rtol=1e-6)
    bits = bilsh.hamming(encoder.transform(DIGITS[:5]), encoder.transform(by_id))
    np.testing.assert_array_equal(found.distances, np.take_along_axis(bits, order, axis=1))
    assert "exact distances" in [stage.name for stage in found.explain().stages]
    few = index.search(DIGITS[:5], 7, rerank=True if kept else by_id)
    assert few.explain().stages[-1].items == 5 * 100
    for mode in ("auto", "hamming", "progressive", "asymmetric"):
        few = index.search(DIGITS[:5], 2, mode=mode, candidates=9, rerank=True if kept else by_id)
        assert few.explain().stages[-1].items == 5 * 9  # and no more, though intervals look at more


def test_similarities_grow_with_nearness_and_say_the_same_in_other_words():
    encoder = bilsh.KernelEncoder(n_bits=256, random_state=0).fit(DIGITS)
    index = bilsh.Index(encoder.transform(DIGITS), encoder)
    kernel = index.search(DIGITS[:3], 5, mode="hamming")
    assert kernel.quantity == "kernel"
    np.testing.assert_allclose(kernel.similarity[:, 0], 1.0, atol=1e-3)
    assert (np.diff(kernel.similarity, axis=1) <= 0).all()
    distance = kernel.estimate(of="distance", confidence=0.5)
    np.testing.assert_allclose(
        kernel.similarity, np.exp(-0.5 * np.square(distance.value / encoder.bandwidth_))
    )
    assert (kernel.interval[..., 0] <= kernel.interval[..., 1]).all()
    near = index.search(DIGITS[:3], radius=60)
    assert isinstance(near, bilsh.Matches)
    assert len(near.similarity) == 3
    assert near.interval[0].shape == (len(near.ids[0]), 2)
    assert bilsh.Index(index.slabs[0]).search(index.slabs[0][:2], 3).similarity is None
    angle = bilsh.AngleEncoder(n_bits=256, random_state=0).fit(DIGITS)
    hits = bilsh.Index(angle.transform(DIGITS), angle).search(DIGITS[:3], 5)
    assert hits.quantity == "cosine"
    np.testing.assert_allclose(hits.similarity[:, 0], 1.0, atol=1e-2)
    np.testing.assert_allclose(hits.estimate(of="angle").value, np.arccos(hits.similarity))


@pytest.mark.parametrize("name", ENCODERS)
def test_auto_orders_the_nearest_codes_by_real_values(name):
    encoder = ENCODERS[name]().fit(DIGITS)
    index = bilsh.Index(encoder.transform(DIGITS[50:700]), encoder)
    auto = index.search(DIGITS[:4], 6, candidates=650)
    scored = index.search(DIGITS[:4], 6, mode="asymmetric")
    np.testing.assert_array_equal(auto.ids, scored.ids)
    np.testing.assert_allclose(auto.similarity, scored.similarity)
    assert auto.explain().mode == "auto"
    short = index.search(DIGITS[:4], 6)
    np.testing.assert_array_equal(short.ids, scored.ids)
    assert short.explain().reason == "short codes are all ordered by the query's real values"


def test_auto_looks_at_the_nearest_of_long_codes():
    encoder = bilsh.AngleEncoder(1000, random_state=0).fit(DIGITS)
    index = bilsh.Index(encoder.transform(DIGITS[50:700]), encoder)
    found = index.search(DIGITS[:4], 6)
    assert "the nearest 100 codes, ordered by the query's real values" in found.explain().reason
    assert (np.diff(found.similarity, axis=1) <= 0).all()


@pytest.mark.parametrize("projection", ["dense", "bilinear", "circulant", "hadamard"])
@pytest.mark.parametrize("kind", [bilsh.AngleEncoder, bilsh.KernelEncoder])
def test_a_query_is_projected_once(kind, projection):
    """Bits made from the real values are the bits that encode makes, on every projection."""
    coder = kind(n_bits=203, projection=projection, random_state=0).fit(DIGITS).coder_
    np.testing.assert_array_equal(coder.quantize(coder.values(DIGITS)), coder.encode(DIGITS))


def test_items_and_ready_codes_as_queries():
    encoder = bilsh.AngleEncoder(n_bits=128, random_state=0).fit(DIGITS)
    codes = encoder.transform(DIGITS)
    index = bilsh.Index(codes, encoder, ids=np.arange(len(codes)) + 1000)
    by_code = index.search(codes=codes[3:6], k=5)
    by_id = index.search(ids=[1003, 1004, 1005], k=5)
    assert by_id.ids.shape == (3, 5)
    for query, own, plain in zip((1003, 1004, 1005), by_id.ids, by_code.ids, strict=True):
        assert query not in own
        assert [i for i in plain.tolist() if i != query][:4] == own.tolist()[:4]
    assert by_id.similarity.shape == (3, 5)
    near = index.search(ids=[1003], radius=40)
    assert 1003 not in near.ids[0]
    assert len(near.similarity[0]) == len(near.ids[0])
    with pytest.raises(bilsh.InvalidInputError, match=r"id 7 is not here \(1 of 2"):
        index.search(ids=[1003, 7])
    with pytest.raises(bilsh.InvalidInputError, match="only one"):
        index.search(DIGITS[:1], codes=codes[:1])


def test_matches_are_reranked_too():
    encoder = bilsh.AngleEncoder(n_bits=64, random_state=0).fit(DIGITS)
    index = bilsh.Index(encoder.transform(DIGITS), encoder, vectors=DIGITS)
    found = index.search(DIGITS[:3], radius=12, rerank=True)
    for query, ids, exact in zip(DIGITS[:3], found.ids, found.exact, strict=True):
        np.testing.assert_allclose(exact, np.linalg.norm((DIGITS[ids] - query).reshape(len(ids), -1), axis=1))
        assert (np.diff(exact) >= 0).all()


def test_reranking_nothing_gives_nothing():
    encoder = bilsh.AngleEncoder(n_bits=64, random_state=0).fit(DIGITS)
    index = bilsh.Index(encoder.transform(DIGITS), encoder, vectors=DIGITS)
    assert index.search(DIGITS[:2], 3, rerank=True, where=np.zeros(len(DIGITS), bool)).ids.shape == (2, 0)
    assert [len(ids) for ids in index.search(DIGITS[:2] + 30, radius=0, rerank=True).ids] == [0, 0]


def test_foreign_codes_may_have_any_order():
    """64 bytes that say nothing before 192 that do: prefixes of the codes as they lie would find nothing."""
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 256, (50, 64), dtype=np.uint8)[rng.integers(50, size=6000)]
    content = rng.integers(0, 256, (6000, 192), dtype=np.uint8)
    codes = np.hstack([topic, content])
    queries = codes[:200].copy()
    queries[:, :64] = rng.integers(0, 256, (200, 64), dtype=np.uint8)
    index = bilsh.Index(codes)
    exact = index.search(queries, 1, mode="hamming")
    assert (exact.ids[:, 0] == np.arange(200)).all()
    assert (index.search(queries, 1).ids == exact.ids).mean() >= 0.98
    np.testing.assert_array_equal(exact.distances, bilsh.top_k(queries, codes, 1).distances)


def test_bit_planes_of_images_lose_no_neighbours():
    """The lowest plane, which is noise, lies first: prefixes of codes as they lie lose many neighbours."""
    rng = np.random.default_rng(0)
    images = np.kron(np.concatenate([np.roll(DIGITS, shift, axis=2) for shift in range(4)]), np.ones((3, 3)))
    images = np.clip(15 * images + rng.normal(0, 6, images.shape), 0, 255).astype(np.uint8)
    images = images.reshape(len(images), -1)[rng.permutation(len(images))]
    codes = np.hstack([np.packbits(images >> plane & 1, axis=1) for plane in range(8)])
    codes, queries = codes[:7000], codes[7000:7150]
    reach = np.sort(bilsh.hamming(queries, codes), axis=1)[:, 9:10]

    def found(index, **settings):
        return (index.search(codes=queries, k=10, **settings).distances <= reach).mean()

    index = bilsh.Index(codes, cells=80)
    for asked in ({}, {"mode": "progressive"}, {"recall": 1}):
        assert found(index, **asked) >= 0.99
    assert found(index, recall=0.9) >= 0.9 - 0.03  # 150 queries, four errors of the mean
    assert found(Parts([Part(codes, np.arange(7000))], codes.shape[1]), mode="progressive") < 0.9


@pytest.mark.parametrize(
    "settings", [{}, {"mode": "hamming"}, {"radius": 60}, {"k": 3, "rerank": True}], ids=str
)
def test_hits_travel_between_processes(settings):
    encoder = bilsh.AngleEncoder(256, random_state=0).fit(DIGITS)
    index = bilsh.Index(encoder.transform(DIGITS), encoder, vectors=DIGITS)
    hits = index.search(ids=[1, 7], **settings)
    back = pickle.loads(pickle.dumps(hits))
    for a, b in zip(hits.interval, back.interval, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("mode", ["hamming", "asymmetric"])
def test_what_becomes_of_a_query_does_not_change_its_hits(mode):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 128)).astype(np.float32)
    index = bilsh.Index(np.packbits(X > 0, axis=1, bitorder="little"), bits="sign of a rotation")
    given = X[:2] + 0.1
    hits, again = index.search(given, mode=mode), index.search(given.copy(), mode=mode)
    given[:] = -given[::-1]
    np.testing.assert_array_equal(hits.interval, again.interval)


def test_answers_are_lists_and_short_to_look_at():
    encoder = bilsh.AngleEncoder(n_bits=64, random_state=0).fit(DIGITS)
    index = bilsh.Index(encoder.transform(DIGITS), encoder)
    found = index.search(DIGITS[:40], 30)
    assert len(found) == 40
    first = next(iter(found))[0]
    assert (first.id, first.distance, first.exact) == (0, 0, None)
    assert first.interval[0] <= first.similarity <= first.interval[1]
    assert len(repr(found).splitlines()) < 40
    assert repr(index) == "<bilsh.Index of 1,797 angle codes, 64 bits>"
    assert "37 more queries" in repr(found)


def test_ids_of_a_filter_that_are_not_there_are_named():
    encoder = bilsh.AngleEncoder(n_bits=64, random_state=0).fit(DIGITS)
    index = bilsh.Index(encoder.transform(DIGITS), encoder)
    told = index.search(DIGITS[:1], 3, where=[5, 9, 10**6]).explain()
    assert told.notes == ("1 of the 3 ids of `where` are not here",)
    assert told.notes[0] in str(told)


def test_rows_of_finds_unsorted_ids():
    known = Part(np.zeros((4, 1), dtype=np.uint8), [5, -3, 9, 0])
    rows, here = Memory().rows_of(known, np.array([[9, 1], [-3, 5]]))
    assert rows[here].tolist() == [2, 1, 0]
    assert here.tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("first", [0, -4, 2**63 - 4])
def test_rows_of_finds_ids_without_a_gap(first):
    known = Part(np.zeros((4, 1), dtype=np.uint8), [first, first + 1, first + 2, first + 3])
    far = -(2**63) if first >= 0 else 2**63 - 1
    rows, here = Memory().rows_of(known, np.array([[first + 3, far], [first, first - 1]]))
    assert rows[here].tolist() == [3, 0]
    assert here.tolist() == [[True, False], [True, False]]


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"mode": "graph"}, "mode must be one of"),
        ({"delta": 1.0}, "delta"),
        ({"k": 0}, "k must be >= 1"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"mode": "asymmetric", "radius": 3}, "a radius counts differing bits"),
        ({"radius": -1}, "radius must be >= 0"),
        ({"where": [True, False]}, "2 booleans, there are 1797 items"),
        ({"where": ["a"]}, "ids must be integers"),
        ({"rerank": True}, "not kept here"),
        ({"rerank": np.zeros((3, 8, 8))}, "vector of every id"),
        ({"delta": "x"}, "delta must be a number"),
        ({"confidence": 1.0}, "confidence must be"),
        ({"candidates": 0}, "candidates"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_errors_say_what_to_do(settings_, message):
    encoder = bilsh.KernelEncoder(n_bits=64, random_state=0).fit(DIGITS)
    with pytest.raises(bilsh.BilshError, match=message):
        bilsh.Index(encoder.transform(DIGITS), encoder).search(DIGITS[:2], **settings_)


def test_an_index_refuses_what_does_not_fit():
    encoder = bilsh.AngleEncoder(n_bits=64, random_state=0).fit(DIGITS)
    codes = encoder.transform(DIGITS)
    with pytest.raises(bilsh.InvalidInputError, match="8 bytes; got 4"):
        bilsh.Index(codes[:, :4], encoder)
    with pytest.raises(bilsh.InvalidInputError, match="distinct"):
        bilsh.Index(codes[:2], encoder, ids=[1, 1])
    with pytest.raises(bilsh.InvalidInputError, match="2 integers"):
        bilsh.Index(codes[:2], encoder, ids=["a", "b"])
    with pytest.raises(bilsh.InvalidInputError, match="one per code"):
        bilsh.Index(codes[:2], encoder, vectors=DIGITS[:3])
    with pytest.raises(bilsh.InvalidInputError, match="bare distances"):
        bilsh.Index(codes).search(codes[:1]).estimate(of="kernel")
    with pytest.raises(bilsh.InvalidInputError, match="encoder"):
        bilsh.Index(codes).search(codes[:1], mode="asymmetric")
    with pytest.raises(bilsh.InvalidInputError, match="equal length"):
        bilsh.Index(codes).search(codes[:1, :3])
    assert len(bilsh.Index(codes)) == len(codes)


@pytest.mark.parametrize("mode", ["auto", "hamming", "progressive", "asymmetric"])
@pytest.mark.parametrize("settings_", [{"k": 10**20}, {"k": 10**20, "candidates": 10**20}])
def test_more_than_all_is_all(mode, settings_):
    encoder = bilsh.KernelEncoder(n_bits=64, random_state=0).fit(DIGITS)
    found = bilsh.Index(encoder.transform(DIGITS[:9]), encoder).search(DIGITS[:2], mode=mode, **settings_)
    assert found.ids.shape == (2, 9)


def test_what_is_asked_again_is_checked_as_the_first_time():
    index = bilsh.Index(np.random.default_rng(0).integers(0, 256, (50, 8), dtype=np.uint8))
    query = np.zeros((1, 8), dtype=np.uint8)
    assert index.search(query, 1).ids.shape == (1, 1)
    for wrong in (True, 1.0, [1]):
        with pytest.raises(bilsh.InvalidTypeError):
            index.search(query, wrong)
    with pytest.raises(bilsh.InvalidTypeError, match="gone"):
        index.search(query, 1, similarity="cosine")


def test_similarities_are_those_of_the_query_as_it_was_asked():
    X = np.random.default_rng(0).normal(size=(200, 16))
    encoder = bilsh.AngleEncoder(256, random_state=0).fit(X)
    index, query = bilsh.Index(encoder.transform(X), encoder), encoder.transform(X[:2])
    expected = index.search(codes=query, k=5).similarity
    hits = index.search(codes=query, k=5)
    query[:] = 0
    hits.distances[:] = 0
    np.testing.assert_array_equal(hits.similarity, expected)
