"""Many shards answer as one store would."""

import numpy as np
import pytest
from test_conformance import fitted, near, scanned

import bilsh
from bilsh import engines


def test_shards_answer_as_one_store(tmp_path):
    X, encoder = fitted("angle")
    items, queries = X[:390], X[400:405]
    kinds = ["{}/a", "{}/b", "faiss:{}/c"]
    ids = np.random.default_rng(0).permutation(390)
    with bilsh.Store.create(tmp_path / "all", encoder) as store:
        store.add(items)
        for part, form in enumerate(kinds):
            mine = ids[part::3]
            with engines.create(form.format(tmp_path), encoder) as shard:
                codes = encoder.transform(items[mine])
                shard.upsert(
                    mine, codes, metadata=[{"part": part}] * len(mine), fingerprint=encoder.fingerprint
                )
        with bilsh.Federation([form.format(tmp_path) for form in kinds]) as shards:
            assert len(shards) == 390
            for settings in ({"delta": 0.0}, {"mode": "hamming"}, {"radius": 400}, {"rerank": items, "delta": 0.0},
                             {"where": np.arange(0, 390, 2), "mode": "hamming"}, {"recall": 1.0}):  # fmt: skip
                true, ours = store.search(queries, 9, **settings), shards.search(queries, 9, **settings)
                for a, b in zip(ours, true, strict=True):
                    assert [hit.id for hit in a] == [hit.id for hit in b], settings
                    assert [hit.distance for hit in a] == [hit.distance for hit in b]
                    np.testing.assert_allclose(
                        [h.interval for h in a], [h.interval for h in b], rtol=1e-6, atol=1e-9
                    )
            assert np.concatenate([part.ids for part in shards.batches(50)]).tolist() == list(range(390))
            assert (shards.get([5, 3]).codes == encoder.transform(items[[5, 3]])).all()
            assert shards.search(queries[:1], 1).metadata[0][0]["part"] in (0, 1, 2)
            assert shards.background().quantity == "cosine"
            with pytest.raises(bilsh.InvalidInputError, match="one by one"):
                shards.delete([1])
            with pytest.raises(bilsh.InvalidInputError, match="one by one"):
                shards.remember("x", 1)


def test_strings_and_what_cannot_be(tmp_path):
    codes = near(20, 400)
    for part in range(2):
        with bilsh.Store.create(tmp_path / f"s{part}", n_bits=400) as store:
            store.add_codes(codes[part::2], ids=[f"n{row:02d}" for row in range(part, 20, 2)])
    with bilsh.Store.create(tmp_path / "ints", n_bits=400) as store:
        store.add_codes(codes)
    with bilsh.Store.create(tmp_path / "other", n_bits=408) as store:
        pass
    paths = [str(tmp_path / f"s{part}") for part in range(2)]
    with bilsh.Federation(paths) as shards:
        names = np.array([f"n{row:02d}" for row in range(20)], dtype=object)
        found = shards.search(codes=codes[:3], k=7)
        assert found.ids.tolist() == [ids[:7].tolist() for ids, _ in scanned(codes[:3], codes, names)]
    with (
        bilsh.Federation([paths[0], paths[0]]) as shards,
        pytest.raises(bilsh.InvalidInputError, match="more than one"),
    ):
        shards.search(codes=codes[:1])
    with pytest.raises(bilsh.InvalidInputError, match="integer ids and some strings"):
        bilsh.Federation([paths[0], str(tmp_path / "ints")])
    with pytest.raises(bilsh.IncompatibleCodesError, match="mean nothing"):
        bilsh.Federation([paths[0], str(tmp_path / "other")])
    with pytest.raises(bilsh.InvalidInputError, match="at least one"):
        bilsh.Federation([])
    with bilsh.Store.open(paths[0]) as store:
        bilsh.Federation([store]).close()
        assert len(store) == 10


def test_a_promised_recall_is_kept_over_shards(tmp_path):
    """Two shards with cells, 200 queries: the mean recall of ten is at least what was promised.

    The mean of 2,000 hits has a standard error below .011; five of them below .9 has a chance below 1e-6 if the promise
    holds exactly, and a loss of a tenth would be seen.
    """
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((40, 1, 16)) + 0.5 * rng.standard_normal((40, 210, 16))).reshape(-1, 16)
    encoder = bilsh.AngleEncoder(n_bits=512, random_state=0).fit(X)
    order = rng.permutation(len(X))
    items, queries = order[200:], order[:200]
    for part in range(2):
        with bilsh.Store.create(tmp_path / f"s{part}", encoder) as store:
            mine = items[part::2]
            store.add(X[mine], ids=mine)
            store.build_cells()
    with bilsh.Federation([str(tmp_path / f"s{part}") for part in range(2)]) as shards:
        codes = encoder.transform(X[queries])
        exact = shards.search(codes=codes, k=10, mode="hamming")
        found = shards.search(codes=codes, k=10, recall=0.9)
        limit = exact.distances[:, -1:]
        assert (found.distances <= limit).mean() >= 0.9 - 5 * 0.011
