"""One suite for all engines: what they answer is what a scan with NumPy answers."""

from functools import cache

import numpy as np
import pytest

import bilsh
from bilsh import engines

LENGTHS = [400, 4096, 32768, 62500]
BATCH = "batch 1'"
ODD = ["a", "'; DROP TABLE codes; --", 'x" OR "1"="1', "ünïcode ☃", "new\nline", "%s {0} $1", "\\", "A", "b"]


def make(place, n_bits, name="a", **options):
    """Make a collection, or skip what is beyond the engine, after seeing it refused."""
    try:
        return engines.create(place(name), n_bits=n_bits, **options)
    except bilsh.InvalidInputError as error:
        if "at most" not in str(error):
            raise
        pytest.skip(f"refused at creation: {error}")


def near(n, n_bits, seed=0):
    """Codes a few bits from each other, so that many distances are equal."""
    rng = np.random.default_rng(seed)
    bits = np.repeat(rng.integers(0, 2, (1, n_bits), dtype=np.uint8), n, axis=0)
    for row in bits:
        row[rng.choice(n_bits, rng.integers(0, 12), replace=False)] ^= 1
    return np.packbits(bits, axis=1, bitorder="little")


def scanned(queries, codes, ids):
    """The oracle: all items of each query by (distance, id)."""
    ids = np.asarray(ids)
    by_id = np.argsort(ids, kind="stable")
    for query in queries:
        far = np.bitwise_count(codes ^ query).sum(axis=1, dtype=np.int32)
        order = by_id[np.argsort(far[by_id], kind="stable")]
        yield ids[order], far[order]


@pytest.mark.parametrize("n_bits", LENGTHS)
def test_answers_are_those_of_a_scan(place, n_bits):
    n = 90 if n_bits > 10_000 else 200
    codes, queries = near(n, n_bits), near(4, n_bits, seed=1)
    ids = np.random.default_rng(2).permutation(10 * n)[:n] - 5
    with make(place, n_bits) as there:
        assert there.upsert(ids, codes) == n
        there.flush()
        assert len(there) == n
        for mode in ("auto", "hamming"):
            for k in (1, 10, n + 5):
                found = there.search(codes=queries, k=k, mode=mode)
                assert found.ids.shape == (4, min(k, n))
                for ours, far, (true, distances) in zip(
                    found.ids, found.distances, scanned(queries, codes, ids), strict=True
                ):
                    assert ours.tolist() == true[:k].tolist()
                    assert far.tolist() == distances[:k].tolist()
        found = there.search(codes=queries, radius=9)
        for ours, far, (true, distances) in zip(
            found.ids, found.distances, scanned(queries, codes, ids), strict=True
        ):
            inside = distances <= 9
            assert ours.tolist() == true[inside].tolist()
            assert far.tolist() == distances[inside].tolist()


def test_delete_upsert_get_iterate_reopen(place):
    codes = near(60, 400)
    with make(place, 400) as there:
        there.upsert(np.arange(50), codes[:50], metadata=[{"row": row} for row in range(50)])
        assert there.upsert(np.arange(40, 60), codes[40:][::-1]) == 20
        assert there.delete([3, 4, 1000, 3]) == 2
        there.flush()
        now = {row: codes[row] for row in range(40) if row not in (3, 4)}
        now |= {40 + row: codes[59 - row] for row in range(20)}
        assert len(there) == len(now)
        got = there.get([41, 7, 41])
        assert got.ids.tolist() == [41, 7, 41]
        assert (got.codes == [now[41], now[7], now[41]]).all()
        assert got.metadata == [None, {"row": 7}, None]
        with pytest.raises(bilsh.InvalidInputError, match="id 3 is not in"):
            there.get([7, 3])
    with bilsh.open(place()) as again:
        assert len(again) == len(now)
        assert again.id_kind == "int"
        walked = list(again.batches(17))
        assert [len(items) for items in walked] == [17, 17, 17, 7]
        assert np.concatenate([items.ids for items in walked]).tolist() == sorted(now)
        assert (np.concatenate([items.codes for items in walked]) == [now[i] for i in sorted(now)]).all()
        assert next(again.batches(5, after=50)).ids.tolist() == [51, 52, 53, 54, 55]
        found = again.search(codes=codes[:3], k=5)
        true = scanned(codes[:3], np.array([now[i] for i in sorted(now)]), sorted(now))
        assert found.ids.tolist() == [ids[:5].tolist() for ids, _ in true]
        with pytest.raises(bilsh.InvalidInputError, match="open for reading"):
            again.upsert([1], codes[:1])
        with pytest.raises(bilsh.InvalidInputError, match="open for reading"):
            again.delete([1])


def test_string_ids_of_any_kind(place):
    codes = near(len(ODD), 400)
    with make(place, 400, ids="str") as there:
        there.upsert(ODD, codes, metadata=[{"name": name} for name in ODD])
        there.flush()
        assert len(there) == len(ODD)
        found = there.search(codes=codes, k=len(ODD))
        for ours, (true, _) in zip(
            found.ids, scanned(codes, codes, np.array(ODD, dtype=object)), strict=True
        ):
            assert ours.tolist() == true.tolist()
        assert found.metadata[0] == [{"name": name} for name in found.ids[0]]
        first = there.search(codes=np.repeat(codes[:1], 2, axis=0), k=3).ids
        assert first.tolist() == [found.ids[0, :3].tolist()] * 2
        assert there.get(ODD).ids.tolist() == ODD
        assert there.search(ids=[ODD[1]], k=3).ids[0].tolist() == [i for i in found.ids[1] if i != ODD[1]][:3]
        walked = [name for items in there.batches(4) for name in items.ids]
        assert walked == sorted(ODD)
        assert there.delete([ODD[1], ODD[2], "not there' OR 1=1"]) == 2
        there.flush()
        assert len(there) == len(ODD) - 2
        with pytest.raises(bilsh.InvalidTypeError, match="string ids"):
            there.upsert([1], codes[:1])


def test_wrong_input_is_refused(place):
    codes = near(3, 401)
    with make(place, 401) as there:
        with pytest.raises(bilsh.InvalidInputError, match="unique"):
            there.upsert([1, 2, 1], codes)
        with pytest.raises(bilsh.InvalidInputError, match="ids and 3 codes"):
            there.upsert([1, 2], codes)
        with pytest.raises(bilsh.InvalidInputError, match="metadata"):
            there.upsert([1, 2, 3], codes, metadata=[None])
        with pytest.raises(bilsh.InvalidInputError, match="shape"):
            there.upsert([1, 2, 3], codes[:, 1:])
        with pytest.raises(bilsh.InvalidTypeError, match="uint8"):
            there.upsert([1, 2, 3], codes.astype(np.int32))
        with pytest.raises(bilsh.InvalidInputError, match="padding"):
            there.upsert([1, 2, 3], codes | np.uint8(255))
        with pytest.raises(bilsh.InvalidTypeError, match="integer ids"):
            there.upsert(["a", "b", "c"], codes) if there.id_kind else there.upsert([True], codes[:1])
        with pytest.raises(bilsh.InvalidInputError, match="equal length"):
            there.search(codes=codes[:, 1:])
        assert len(there) == 0
        assert there.search(codes=codes, k=5).ids.shape == (3, 0)
        assert [len(ids) for ids in there.search(codes=codes, radius=3).ids] == [0, 0, 0]
    with pytest.raises((FileExistsError, bilsh.BilshError)):
        engines.create(place(), n_bits=401)


def test_codes_of_another_encoder_are_refused(place):
    X = np.random.default_rng(0).standard_normal((50, 20))
    ours, other = (bilsh.AngleEncoder(n_bits=256, random_state=seed).fit(X) for seed in (0, 1))
    with engines.create(place(), ours) as there:
        with pytest.raises(bilsh.IncompatibleCodesError, match="made by encoder"):
            there.upsert(np.arange(50), other.transform(X), fingerprint=other.fingerprint)
        with pytest.raises(bilsh.IncompatibleCodesError, match="say who made these"):
            there.upsert(np.arange(50), ours.transform(X))
        there.upsert(np.arange(50), ours.transform(X), fingerprint=ours.fingerprint)
    with pytest.raises(bilsh.IncompatibleCodesError, match="holds codes of encoder"):
        bilsh.open(place(), encoder=other)
    bilsh.open(place(), encoder=ours).close()


@cache
def fitted(kind):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((8, 1, 24)) + 0.4 * rng.standard_normal((8, 60, 24))).reshape(-1, 24)
    maker = bilsh.AngleEncoder if kind == "angle" else bilsh.KernelEncoder
    return X, maker(n_bits=1024, random_state=0).fit(X)


@pytest.mark.parametrize("kind", ["angle", "kernel"])
def test_hits_mean_the_same_as_in_a_store(place, kind, tmp_path):
    X, encoder = fitted(kind)
    items, queries = X[:400], X[400:406]
    with bilsh.Store.create(tmp_path / "reference", encoder) as store:
        store.add(items)
        with engines.create(place(), encoder) as there:
            there.upsert(np.arange(400), encoder.transform(items), fingerprint=encoder.fingerprint)
            there.flush()
            assert there.spec.fingerprint == encoder.fingerprint
            for settings in (
                {"delta": 0.0},
                {"mode": "hamming"},
                {"mode": "asymmetric", "candidates": 50, "delta": 0.0},
                {"rerank": items, "delta": 0.0},
                {"radius": 400},
                {"where": np.arange(0, 400, 3), "mode": "hamming"},
            ):
                true, ours = store.search(queries, 7, **settings), there.search(queries, 7, **settings)
                assert ours.quantity == true.quantity
                for a, b in zip(ours, true, strict=True):
                    assert [hit.id for hit in a] == [hit.id for hit in b], settings
                    assert [hit.distance for hit in a] == [hit.distance for hit in b]
                    np.testing.assert_allclose(
                        [h.similarity for h in a], [h.similarity for h in b], rtol=1e-6
                    )
                    np.testing.assert_allclose(
                        [h.interval for h in a], [h.interval for h in b], rtol=1e-6, atol=1e-9
                    )
                    assert [hit.exact for hit in a] == [hit.exact for hit in b]
            one = there.search(ids=[5], k=4)
            assert one.ids.tolist() == store.search(ids=[5], k=4, delta=0.0).ids.tolist()
            assert "candidates" in str(one.explain()) or there.capabilities.engine == "store"


def test_filters(place):
    codes = near(40, 400)
    with make(place, 400) as there:
        there.upsert(
            np.arange(40),
            codes,
            metadata=[{"even": row % 2 == 0, "row": row, "t": "x'"} for row in range(40)],
        )
        there.flush()
        chosen = np.array([3, 5, 7, 1000])
        found = there.search(codes=codes[:2], k=10, where=chosen)
        true = scanned(codes[:2], codes[chosen[:3]], chosen[:3])
        assert found.ids.tolist() == [ids.tolist() for ids, _ in true]
        assert there.search(codes=codes[:2], k=10, where=[1000]).ids.shape == (2, 0)
        if there.capabilities.filter:
            even = np.arange(0, 40, 2)
            found = there.search(codes=codes[:2], k=10, where={"even": True})
            assert found.ids.tolist() == [
                ids[:10].tolist() for ids, _ in scanned(codes[:2], codes[even], even)
            ]
            assert there.search(codes=codes[:1], where={"row": 7, "t": "x'"}).ids.tolist() == [[7]]
            assert there.search(codes=codes[:1], where={"t": "' OR true --"}).ids.shape == (1, 0)
            assert there.search(codes=codes[:1], where={'x" or 1=1 --': 1}).ids.shape == (1, 0)
            inside = there.search(codes=codes[:1], radius=400, where={"even": True})
            assert sorted(inside.ids[0].tolist()) == even.tolist()
        else:
            with pytest.raises(bilsh.InvalidInputError, match="filters by ids only"):
                there.search(codes=codes[:1], where={"even": True})
        with pytest.raises(bilsh.InvalidTypeError, match="expressions"):
            there.search(codes=codes[:1], where="1=1")
        if there.capabilities.engine != "store":
            with pytest.raises(bilsh.InvalidTypeError, match="booleans"):
                there.search(codes=codes[:1], where=np.ones(40, dtype=bool))


def test_tokens_and_memory(place):
    codes = near(20, 400)
    with make(place, 400) as there:
        assert there.upsert(np.arange(20), codes, token=BATCH) == 20
        there.delete([0])
        assert there.upsert(np.arange(20), codes, token=BATCH) == 0
        there.flush()
        assert len(there) == 19
        there.remember("place", {"after": "it's"})
    with bilsh.open(place()) as there:
        assert there.remembered("place") == {"after": "it's"}
        assert there.remembered("nothing") is None


def test_capabilities_say_what_was_seen(place):
    with make(place, 400) as there:
        able = there.capabilities
        assert able.engine
        assert able.version
        assert (there.stored_bytes() or 0) > 0 or not able.engine.startswith("PostgreSQL")
        assert (there.spec.n_bits, there.spec.bit_order, there.spec.encoder) == (400, "little", None)
        if able.max_bits is not None and able.max_bits < 1e6:
            with pytest.raises(bilsh.InvalidInputError, match=f"at most {able.max_bits:,} bits"):
                engines.create(place("long"), n_bits=able.max_bits + 8)
        if not able.approximate:
            with pytest.raises(bilsh.InvalidInputError, match="no approximate index"):
                there.search(codes=near(1, 400), exact=False)
            with pytest.raises(bilsh.InvalidInputError, match="no approximate index"):
                there.build_index()
        if able.engine != "store":
            with pytest.raises(bilsh.BilshError):
                there.search(codes=near(1, 400), mode="asymmetric")


def test_approximate_search_finds_nearly_the_same(place):
    codes = near(300, 400)
    with make(place, 400) as there:
        if not there.capabilities.approximate:
            pytest.skip(f"{there.capabilities.engine} has no approximate index here")
        there.upsert(np.arange(300), codes)
        there.flush()
        there.build_index()
        found = there.search(codes=codes[:20], k=1, exact=False)
        assert (found.distances[:, 0] == 0).mean() >= 0.9
        assert "may miss" in str(found.explain())
        exact = there.search(codes=codes[:20], k=5)
        assert exact.ids.tolist() == [i[:5].tolist() for i, _ in scanned(codes[:20], codes, np.arange(300))]
