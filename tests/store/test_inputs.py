"""Promise 7: bad input is refused at every entry, by a typed error that says what came; and nothing is changed."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from makers import N_FEATURES, content, make_encoder, make_items

from bilsh import (
    AngleEncoder,
    Batch,
    BilshError,
    IncompatibleCodesError,
    InvalidInputError,
    InvalidTypeError,
    Store,
)

ENCODER = make_encoder()
X = make_items(3)
CODES = ENCODER.transform(X)
LOOP = []
LOOP.append(LOOP)


def spoiled(value):
    bad = X.astype(np.float64)
    bad[1, 2] = value
    return bad


def padded():
    codes = CODES.copy()
    codes[2, -1] |= 128
    return codes


BAD_CALLS = {
    # ids
    "twice the same id": (lambda s: s.add(X, [7, 8, 7]), InvalidInputError, "7 occurs more than once"),
    "twice the same id in a stream": (
        lambda s: s.add(iter([Batch(X, [7, 8, 9]), Batch(X, [10, 11, 9])])), InvalidInputError, "9 occurs in more than",
    ),
    "id in use": (lambda s: s.add(X, [7, 8, 0]), InvalidInputError, "id 0 is in the store already.*upsert"),
    "too few ids": (lambda s: s.add(X, [7, 8]), InvalidInputError, "X has 3 rows, ids has 2"),
    "too few ids for a stream": (
        lambda s: s.add(iter([Batch(X, [7, 8])])), InvalidInputError, "3 rows, ids has 2",
    ),
    "ids beside a stream": (
        lambda s: s.add(iter([X]), [7, 8, 9]), InvalidTypeError, r"ids must be part.*Batch\(X, ids, metadata\)",
    ),
    "streams side by side": (
        lambda s: s.add(iter([X]), iter([[7, 8, 9]]), metadata=iter([[1, 2, 3]])), InvalidTypeError, "ids and metadata",
    ),
    "a stream of arrays": (lambda s: s.add(iter([X])), InvalidTypeError, r"bilsh\.Batch objects; got ndarray"),
    "a stream of codes": (lambda s: s.add_codes(iter([CODES])), InvalidTypeError, r"Write Batch\(codes"),
    "an iterator of ids": (lambda s: s.add(X, iter([7, 8, 9])), InvalidTypeError, "ids must be a sequence"),
    "vectors beside items": (lambda s: s.add(Batch(X, vectors=X)), InvalidInputError, "ready codes only"),
    "upsert of a stream without ids": (lambda s: s.upsert(iter([Batch(X)])), InvalidInputError, "needs ids"),
    "masked items": (lambda s: s.add(np.ma.masked_array(X, X > 9)), InvalidTypeError, "masked"),
    "masked ids": (lambda s: s.add(X, np.ma.masked_array([7, 8, 9], [0, 1, 0])), InvalidTypeError, "masked"),
    "masked ids to delete": (lambda s: s.delete(np.ma.masked_array([0, 1], [0, 1])), InvalidTypeError, "masked"),
    "masked ids to get": (lambda s: s.get(np.ma.masked_array([0, 1], [0, 1])), InvalidTypeError, "masked"),
    "a masked filter": (
        lambda s: s.search(X, where=np.ma.masked_array([0, 1], [0, 1])), InvalidTypeError, "where is a masked array",
    ),
    "a ragged filter": (lambda s: s.search(X, where=[[0], [1, 2]]), InvalidInputError, "where must be a rectangular"),
    "ragged queries": (lambda s: s.search([[1.0, 2.0], [3.0]]), InvalidInputError, "X must be a rectangular"),
    "ragged codes": (lambda s: s.search(codes=[[1, 2], [3]]), InvalidInputError, "rectangular"),
    "numbers beyond float64": (
        lambda s: s.add(np.full(X.shape, 10**400, object)), InvalidInputError, "X must hold real numbers",
    ),
    "masked queries": (lambda s: s.search(np.ma.masked_array(X, X > 9)), InvalidTypeError, "X is a masked array"),
    "masked codes": (lambda s: s.search(codes=np.ma.masked_array(CODES, True)), InvalidTypeError, "masked"),
    "words for numbers": (lambda s: s.add(np.full(X.shape, "a", object)), InvalidInputError, "real numbers"),
    "a word to re-rank by": (lambda s: s.search(X, rerank="x"), InvalidTypeError, "rerank must be True"),
    "ragged items": (lambda s: s.add([[1.0, 2.0], [3.0]]), InvalidInputError, "rectangular"),
    "fractional ids": (lambda s: s.add(X, [7.0, 8.0, 9.0]), InvalidTypeError, "integers or strings; got float64"),
    "a boolean among ids": (lambda s: s.add(X, [7, True, 300]), InvalidTypeError, r"got bool: ids\[1\] is True"),
    "a boolean among ids of codes": (
        lambda s: s.add_codes(CODES, [7, 8, np.True_], fingerprint="unchecked"), InvalidTypeError, r"ids\[2\]",
    ),
    "a boolean among ids to replace": (lambda s: s.upsert(X, [7, True, 300]), InvalidTypeError, "got bool"),
    "a boolean among ids to get": (lambda s: s.get([True, 2]), InvalidTypeError, "got bool"),
    "a boolean among ids to delete": (lambda s: s.delete([True, 300]), InvalidTypeError, "got bool"),
    "a boolean among ids to search": (lambda s: s.search(X, where=[True, 300]), InvalidTypeError, "got bool"),
    "an integer among strings": (lambda s: s.add(X, ["a", 7, "b"]), InvalidTypeError, r"ids\[1\] is int"),
    "a string among integers": (lambda s: s.get([7, "m"]), InvalidTypeError, r"ids\[0\] is int"),
    "a string among integers to delete": (lambda s: s.delete(["m", 3]), InvalidTypeError, r"ids\[1\] is int"),
    "boolean ids": (lambda s: s.add(X, [True, False, True]), InvalidTypeError, "got bool"),
    "ids beyond int64": (lambda s: s.add(X, np.array([1, 2, 2**63], np.uint64)), InvalidInputError, "fit int64"),
    "ids far beyond int64": (lambda s: s.add(X, [7, 8, 2**70]), InvalidTypeError, "integers"),
    "mixed ids": (lambda s: s.add(X, np.array(["a", 7, "b"], object)), InvalidTypeError, r"ids\[1\] is int"),
    "string ids in an integer store": (lambda s: s.add(X, ["a", "b", "c"]), InvalidTypeError, "has integer ids"),
    "bytes as ids": (lambda s: s.add(X, [b"a", b"b", b"c"]), InvalidTypeError, "integers or strings"),
    "one string as ids": (lambda s: s.add(X, "abc"), InvalidTypeError, "sequence"),
    "one number as ids": (lambda s: s.add(X, 7), InvalidTypeError, "sequence"),
    "matrix of ids": (lambda s: s.add(X, np.ones((3, 1), int)), InvalidInputError, r"shape \(3, 1\)"),
    "missing id": (lambda s: s.get([77]), InvalidInputError, r"id 77 is not in the store\.$"),
    "missing ids": (
        lambda s: s.get([0, 77, 78]), InvalidInputError,
        r"id 77 is not in the store \(2 of the 3 ids asked for are missing\)\.$",
    ),
    "string asked of integers": (lambda s: s.get(["a"]), InvalidTypeError, "has integer ids"),
    "strings to delete": (lambda s: s.delete(["a"]), InvalidTypeError, "has integer ids"),
    "one id to delete": (lambda s: s.delete("a"), InvalidTypeError, r"\['a'\]"),
    "fractions to delete": (lambda s: s.delete([0.5]), InvalidTypeError, "float64"),
    "upsert without ids": (lambda s: s.upsert(X, None), InvalidInputError, "needs ids"),
    # items
    "NaN": (lambda s: s.add(spoiled(np.nan)), BilshError, "(?i)nan"),
    "infinity": (lambda s: s.add(spoiled(-np.inf)), BilshError, "(?i)inf"),
    "beyond float32": (lambda s: s.add(spoiled(1e300)), BilshError, "float32"),
    "complex": (lambda s: s.add(X.astype(complex)), BilshError, "(?i)complex"),
    "text": (lambda s: s.add(np.array([["a"] * N_FEATURES])), BilshError, "real numbers"),
    "wrong number of features": (lambda s: s.add(X[:, :5]), ValueError, "5 features"),
    "one item without its axis": (lambda s: s.add(X[0]), InvalidInputError, r"shape \(12,\)"),
    "no columns": (lambda s: s.add(X[:, :0]), BilshError, "0"),
    "bad batch in a stream": (lambda s: s.add(map(Batch, [X, spoiled(np.nan)])), BilshError, "(?i)nan"),
    "NaN in upsert": (lambda s: s.upsert(spoiled(np.nan), [0, 1, 2]), BilshError, "(?i)nan"),
    # codes
    "unpacked codes": (lambda s: s.add_codes(np.ones((3, 603), bool)), InvalidTypeError, "uint8.*bilsh.pack"),
    "codes of another length": (lambda s: s.add_codes(CODES[:, :-1]), InvalidInputError, r"\(n, 76\); got \(3, 75\)"),
    "one code without its axis": (lambda s: s.add_codes(CODES[0]), InvalidInputError, "two axes"),
    "padding that is not zero": (lambda s: s.add_codes(padded()), InvalidInputError, "last 5 bits"),
    "codes of another encoder": (
        lambda s: s.add_codes(CODES, fingerprint="0" * 64), IncompatibleCodesError, r"encoder 0{8}.*store\.encoder",
    ),
    "vectors that are not kept": (lambda s: s.add_codes(CODES, vectors=X), InvalidInputError, "keeps no vectors"),
    # metadata
    "too little metadata": (lambda s: s.add(X, metadata=[1]), InvalidInputError, "metadata has 1"),
    "metadata that is no sequence": (lambda s: s.add(X, metadata={"a": 1}), InvalidTypeError, "got dict"),
    "metadata that is not JSON": (lambda s: s.add(X, metadata=[1, {2}, 3]), InvalidTypeError, r"metadata\[1\]"),
    "metadata with NaN": (lambda s: s.add(X, metadata=[1, 2, float("nan")]), InvalidTypeError, r"metadata\[2\]"),
    "metadata with number keys": (lambda s: s.add(X, metadata=[{1: 2}, 2, 3]), InvalidTypeError, "plain JSON"),
    "endless metadata": (lambda s: s.add(X, metadata=[1, 2, LOOP]), InvalidTypeError, r"metadata\[2\]"),
    "huge metadata": (lambda s: s.add(X, metadata=["x" * 20_000, 2, 3]), InvalidInputError, "20002 bytes"),
    # the rest
    "batches of nothing": (lambda s: s.batches(0), InvalidInputError, "got 0"),
    "batches of a fraction": (lambda s: s.batches(1.5), InvalidInputError, "got 1.5"),
    "unknown mode": (lambda s: Store.open(s.path, "w"), InvalidInputError, "got 'w'"),
    "unknown version to repair to": (lambda s: Store.repair(s.path, 9), InvalidInputError, "there are 1, 2"),
    "unknown kind of vectors": (
        lambda s: Store.create(s.path / "x", ENCODER, keep_vectors="float64"), InvalidInputError, "got 'float64'",
    ),
    "no encoder": (lambda s: Store.create(s.path / "x", "encoder"), InvalidTypeError, "got str"),
    "a store that is there": (lambda s: Store.create(s.path, ENCODER), BilshError, "another writer"),
    "unfitted encoder": (
        lambda s: Store.create(s.path / "x", AngleEncoder(n_bits=8)), InvalidInputError, "not fitted",
    ),
}  # fmt: skip


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "store", ENCODER) as store:
        store.add(make_items(4, 5))
        yield store


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_input_is_refused_and_changes_nothing(store, case):
    call, kind, message = BAD_CALLS[case]
    before = content(store)
    files = sorted(path.name for path in store.path.iterdir())
    with pytest.raises(kind, match=message):
        call(store)
    assert content(store) == content(Store.open(store.path)) == before
    assert sorted(path.name for path in store.path.iterdir()) == files
    store.add(X)


def test_string_stores_refuse_bad_keys(tmp_path):
    with Store.create(tmp_path / "store", ENCODER) as store:
        store.add(X[:1], ["a"])
        for ids, message in [
            ([""], "1 to 1024 bytes"),
            (["x" * 1025], "1 to 1024 bytes"),
            (["\ud800"], "not valid Unicode"),
            (["a"], "'a' is in the store already"),
            ([1], "has string ids"),
        ]:
            with pytest.raises(BilshError, match=message):
                store.add(X[:1], ids)
        with pytest.raises(InvalidInputError, match="'b' occurs more than once"):
            store.add(X[:2], ["b", "b"])
        with pytest.raises(InvalidInputError, match="'b' occurs in more than one batch"):
            store.add(Batch(X[:1], ["b"]) for _ in range(2))
        with pytest.raises(InvalidTypeError, match="cannot be left out"):
            store.add(X[:1])
        assert list(content(store)) == ["a"]


def test_vectors_that_do_not_fit_are_refused(tmp_path):
    with Store.create(tmp_path / "store", ENCODER, keep_vectors="float16") as store:
        for vectors, message in [
            (None, "keeps vectors as float16"),
            (X[:, :3], "12 values each"),
            (X * 1e6, "beyond float16"),
            (X.astype(str), "real numbers"),
            (X[:2], "vectors has 2"),
        ]:
            with pytest.raises(BilshError, match=message):
                store.add_codes(CODES, vectors=vectors)
        with pytest.raises(BilshError, match="float16"):
            store.add(X * 1e6)
        assert store.version == 1


def test_what_is_good_enough_is_accepted(tmp_path):
    with Store.create(tmp_path / "store", ENCODER) as store:
        store.add(np.asfortranarray(X), np.array([1, 2, 3], np.uint8))
        store.add(X[::-1].astype(np.float64), (4, 5, 6))
        store.add(np.repeat(X, 2, axis=1)[:, ::2], range(7, 10))
        store.add(sp.csr_array(X), [10, 11, 12])
        store.add((X * 10).astype(np.int64).tolist())
        store.add(X[:1], pd.Series([99]), metadata=pd.Series([{"a": 1}]))
        found = store.get(range(1, 13)).codes
    np.testing.assert_array_equal(found, np.vstack([CODES, CODES[::-1], CODES, CODES]))


def test_ids_may_run_out(tmp_path):
    with Store.create(tmp_path / "store", ENCODER) as store:
        store.add(X[:1], [2**63 - 1])
        with pytest.raises(InvalidInputError, match="no 1 integers left"):
            store.add(X[:1])
        store.add(X[:1], [-(2**63)])
        assert sorted(content(store)) == [-(2**63), 2**63 - 1]
        store.verify(deep=True)


def test_readers_and_closed_stores_do_not_change(store):
    reader = Store.open(store.path)
    for call in (lambda: reader.add(X), lambda: reader.delete([0]), lambda: reader.compact()):
        with pytest.raises(InvalidInputError, match="mode='a'"):
            call()
    store.close()
    store.close()
    for call in (lambda: store.add(X), lambda: len(store), lambda: store.get([0]), lambda: store.batches()):
        with pytest.raises(InvalidInputError, match="closed"):
            call()
    assert "closed" in repr(store)


def test_places_without_a_store_are_told_apart(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no store at .*Store\.create"):
        Store.open(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="holds no bilsh store"):
        Store.open(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty"):
        Store.create(tmp_path, ENCODER)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    Store.create(tmp_path / "store", ENCODER).close()
    with pytest.raises(FileExistsError, match="is a store already"):
        Store.create(tmp_path / "store", ENCODER)


def test_every_message_ends_like_a_sentence(store):
    """What was expected, what came, what to do: in whole sentences."""
    for call, kind, _ in BAD_CALLS.values():
        if kind in (InvalidInputError, InvalidTypeError):
            with pytest.raises(kind) as caught:
                call(store)
            assert re.search(r"[.\]]$", str(caught.value))
