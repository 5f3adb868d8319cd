"""Questions to a store, from files and by ids, answered in the caller's ids."""

import numpy as np
import pytest

from bilsh import Store
from bilsh.errors import DataNotFoundError, InvalidInputError
from bilsh.workflows.queries import Asked, ask, open_store, query_items


def question(store, X, name="q.npy"):
    np.save(store.with_name(name), X)
    return store.with_name(name)


def test_items_ask_by_file_and_by_id(store, X):
    with open_store(store) as opened:
        by_file = ask(opened, Asked(query=question(store, X[[7, 60]]), k=5))
        assert by_file.queries == ["0", "1"]
        assert [hits[0].id for hits in by_file.hits] == [7, 60]
        by_id = ask(opened, Asked(ids=["7", "60"], k=4))
        assert by_id.queries == ["7", "60"]
        for whole, others, own in zip(by_file.hits, by_id.hits, (7, 60), strict=True):
            assert own not in [hit.id for hit in others]
            assert [hit.id for hit in whole if hit.id != own] == [hit.id for hit in others]


@pytest.mark.parametrize("radius", [None, 40])
def test_reranked_hits_are_in_the_order_of_exact_distances(store, X, radius):
    with open_store(store) as opened:
        for asked in (
            Asked(query=question(store, X[[3]] + 0.05), radius=radius, rerank=True),
            Asked(ids=["3"], radius=radius, rerank=True),
        ):
            hits = next(iter(ask(opened, asked).hits))
            assert len(hits) >= 10
            exact = [hit.exact for hit in hits]
            assert exact == sorted(exact)
            item = X[3] if asked.ids else X[3] + 0.05
            np.testing.assert_allclose(exact, [np.linalg.norm(X[hit.id] - item) for hit in hits], rtol=1e-4)
            assert all(radius is None or hit.distance <= radius for hit in hits)


def test_a_table_of_queries_names_them(store, X, tmp_path):
    rows = [f"q{row}," + ",".join(map(repr, X[row].tolist())) for row in (7, 60)]
    (tmp_path / "q.csv").write_text(",".join(["name", *map(str, range(X.shape[1]))]) + "\n" + "\n".join(rows))
    with open_store(store) as opened:
        found = ask(opened, Asked(query=tmp_path / "q.csv", id_column="name", k=1))
    assert found.queries == ["q7", "q60"]
    assert found.hits.ids[:, 0].tolist() == [7, 60]


def test_where_keeps_to_some_items_and_tells_what_is_not_there(named, X):
    named.with_name("some.txt").write_text("item 1\nitem 2\nnever\n")
    with open_store(named) as opened:
        asked = Asked(query=question(named, X[[1]]), where=named.with_name("some.txt"))
        hits = ask(opened, asked).hits
    assert {hit.id for hit in hits.hits(0)} == {"item 1", "item 2"}
    assert hits.explain().notes == ("1 of the 3 ids of `where` are not here",)


def test_queries_that_do_not_fit(store, named, X, tmp_path):
    bad = X[:2].copy()
    bad[1, 3] = np.inf
    with open_store(store) as opened:
        for items, message in (
            (X[:2, :5], r"shape \(5,\) \(5 values\); those of the store have shape \(24,\)"),
            (np.zeros((1, 1, 1, 24)), r"expected \(n, d\)"),
            (np.zeros((0, 24)), r"expected \(n, d\)"),
            (bad, "row 1, column 3 .* is infinite"),
            (X[0].astype(complex), "complex128 values; expected real numbers"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                query_items(opened, question(store, items))
        assert query_items(opened, question(store, X[0])).shape == (1, 24)  # a single vector is one query
        assert query_items(opened, question(store, X[:2].reshape(2, 24))).shape == (2, 24)
        with pytest.raises(DataNotFoundError, match=r"q\.jpg does not exist"):
            query_items(opened, tmp_path / "q.jpg")
        (tmp_path / "q.jpg").write_bytes(b"")
        with pytest.raises(InvalidInputError, match="was not made from images"):
            query_items(opened, tmp_path / "q.jpg")
    with open_store(named) as opened:
        with pytest.raises(InvalidInputError, match="keeps only their codes"):
            ask(opened, Asked(ids=["item 1"], rerank=True))
        with pytest.raises(InvalidInputError, match="ask with --query"):
            ask(opened, Asked(ids=["item 1"], mode="asymmetric"))
        with pytest.raises(InvalidInputError, match="'item 999' is not here"):
            ask(opened, Asked(ids=["item 999"]))


def test_places_that_are_no_stores(tmp_path, store):
    with pytest.raises(DataNotFoundError, match="there is no store"):
        open_store(tmp_path / "nowhere")
    with pytest.raises(InvalidInputError, match="is a file; a store is a directory"):
        open_store(tmp_path / "x.npy")
    with open_store(store, "a") as opened:
        assert isinstance(opened, Store)
