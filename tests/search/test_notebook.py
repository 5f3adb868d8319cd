"""What notebooks show of answers and stores."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_digits

import bilsh
from bilsh.errors import InvalidInputError


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    X = np.random.default_rng(0).normal(size=(60, 8, 8)).astype(np.float32)
    encoder = bilsh.AngleEncoder(n_bits=128, random_state=0).fit(X)
    made = bilsh.Store.create(tmp_path_factory.mktemp("n") / "<b>store", encoder, keep_vectors="float32")
    made.add(X, ids=[f"<script>{i}</script>.png" for i in range(len(X))])
    yield made
    made.close()


def items(page):
    return re.findall(r"<tr>", page.partition("<tbody>")[2])


def test_hits_are_a_table_with_whiskers(store):
    X = np.random.default_rng(1).normal(size=(7, 8, 8)).astype(np.float32)
    hits = store.search(X, k=12)
    page = hits._repr_html_()
    assert len(items(page)) == 50, "5 queries, 10 hits each"
    assert page.count("<svg") == 50
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert f"{hits.similarity[0, 0]:.3f}" in page
    assert "cosine" in page
    assert "95% interval" in page
    assert not re.search(r"#[0-9a-f]{3,6}\b", page.replace("&#x27;", "")), "colours are the notebook's"
    exact = store.search(X[:1], k=3, rerank=True)._repr_html_()
    assert "exact distance" in exact
    assert len(items(exact)) == 3


def test_matches_explanations_and_stores_show_themselves(store):
    X = np.random.default_rng(1).normal(size=(1, 8, 8)).astype(np.float32)
    assert "Matches of 1 queries" in store.search(X, radius=60)._repr_html_()
    told = store.search(X, k=3).explain()._repr_html_()
    assert "auto" in told
    assert "<th" in told
    card = store._repr_html_()
    assert "60" in card
    assert "<b>store" not in card
    assert "128 bits" in card


def test_learned_codes_show_distances_with_their_intervals():
    digits = load_digits().images
    encoder = bilsh.EuclideanEncoder(16, random_state=0).fit(digits)
    hits = bilsh.Index(encoder.transform(digits), encoder).search(digits[:1], k=2)
    low, high = hits.interval[0, 0]
    assert hits.quantity == "distance"
    assert hits.similarity is None
    assert 0 <= low < high
    assert f"distance {hits.distances[0, 0]:.4g} ({low:.4g} .. {high:.4g})" in repr(hits)
    page = hits._repr_html_()
    assert "bits" not in repr(hits) + page
    assert f"<strong>{hits.distances[0, 0]:.4g}</strong>" in page


def test_bare_distances_have_no_whiskers():
    codes = np.random.default_rng(0).integers(0, 256, size=(20, 8), dtype=np.uint8)
    page = bilsh.top_k(codes[:2], codes, 3)._repr_html_()
    assert "<svg" not in page
    assert "interval" not in page


def test_pictures_come_from_arrays_mappings_functions_and_folders(tmp_path):
    import cv2

    X = np.random.default_rng(0).normal(size=(30, 8, 8)).astype(np.float32)
    encoder = bilsh.AngleEncoder(n_bits=64, random_state=0).fit(X)
    hits = bilsh.Index(encoder.transform(X), encoder).search(X[:2], k=3)
    photos = np.random.default_rng(0).integers(0, 256, size=(30, 20, 20, 3), dtype=np.uint8)
    for images in (X, photos, photos[..., 0], dict(enumerate(X)), lambda item: X[item]):
        shown = hits.show(images)
        assert shown._repr_html_().count("data:image/webp;base64,") == 6
        assert repr(shown) == repr(hits)
    assert hits.show(X[:0])._repr_html_().count("<img") == 0
    page = hits.show(X)._repr_html_()
    assert page.count("<svg") == 6
    assert f"<strong>{hits.similarity[1, 2]:.2f}</strong>" in page
    (tmp_path / "0").write_bytes(cv2.imencode(".png", photos[0])[1].tobytes())
    assert hits.show(tmp_path)._repr_html_().count("<img") == int((hits.ids == 0).sum())


def test_bytes_that_stay_low_are_drawn_as_numbers():
    import cv2

    from bilsh.search.notebook import _as_webp

    digit = np.zeros((8, 8), dtype=np.uint8)
    digit[2:6, 3] = 16
    drawn = cv2.imdecode(np.frombuffer(_as_webp(digit), np.uint8), cv2.IMREAD_GRAYSCALE)
    assert (drawn.min(), drawn.max()) == (0, 255)
    gray = np.full((8, 8), 200, dtype=np.uint8)
    assert cv2.imdecode(np.frombuffer(_as_webp(gray), np.uint8), cv2.IMREAD_GRAYSCALE).min() > 190


def test_names_need_a_mapping_or_a_folder(store):
    X = np.random.default_rng(1).normal(size=(1, 8, 8)).astype(np.float32)
    hits = store.search(X, k=3)
    assert hits.show({})._repr_html_().count("<img") == 0
    with pytest.raises(InvalidInputError, match="mapping or the folder"):
        hits.show(X)._repr_html_()


def test_a_closed_store_says_so(tmp_path):
    encoder = bilsh.AngleEncoder(n_bits=64, random_state=0).fit(np.eye(8, dtype=np.float32))
    store = bilsh.Store.create(tmp_path / "s", encoder)
    store.close()
    assert "closed" in store._repr_html_()
