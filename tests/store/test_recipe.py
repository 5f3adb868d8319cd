"""The recipe is part of the store: documented byte by byte, and checked with it."""

import hashlib
import json

import numpy as np
import pytest
from makers import TORTURE, make_encoder, make_items

from bilsh import CorruptStoreError, Store
from bilsh.store.recipe import CODEBOOK, RECIPE, Recipe, Settings, read_recipe, write_recipe

BOOK = np.arange(256, dtype=np.float32).reshape(2, 128)


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "store", make_encoder()) as store:
        store.add(make_items(3))
    write_recipe(store.path, Recipe(Settings(bits=603), {"path": "ä"}, 3, True, BOOK))
    return tmp_path / "store"


def test_a_recipe_comes_back(store):
    recipe = read_recipe(store)
    assert recipe.settings == Settings(bits=603)
    assert (recipe.source, recipe.rows, recipe.images, recipe.finished) == ({"path": "ä"}, 3, True, False)
    np.testing.assert_array_equal(recipe.codebook, BOOK)
    Store.open(store).verify()
    assert read_recipe(store.parent) is None


def test_its_bytes_are_where_the_document_says(store):
    text = (store / RECIPE).read_text("ascii")
    whole = json.loads(text)
    assert whole["format"] == 1
    assert text == json.dumps(whole, indent=1, sort_keys=True) + "\n"
    body = whole["recipe"]
    assert whole["sha256"] == hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    assert set(body) == {"settings", "source", "rows", "images", "finished", "codebook"}
    assert body["codebook"] == hashlib.sha256((store / CODEBOOK).read_bytes()).hexdigest()


@pytest.mark.parametrize("name", [RECIPE, CODEBOOK])
def test_verify_sees_every_byte_of_it(store, name):
    whole = (store / name).read_bytes()
    rng = np.random.default_rng(0)
    with Store.open(store) as opened:
        for place in range(len(whole)) if TORTURE else rng.choice(len(whole), 60, replace=False):
            data = bytearray(whole)
            data[place] ^= 1 << rng.integers(8)
            (store / name).write_bytes(data)
            with pytest.raises(CorruptStoreError, match=f"{RECIPE} is damaged"):
                opened.verify()
        (store / CODEBOOK).unlink()
        with pytest.raises(CorruptStoreError):
            opened.verify()


@pytest.mark.parametrize("shape", ["(2, 128), }", "(1 << 60, 128)", "(2305843009213693952, 128), }"])
def test_a_codebook_that_lies_is_refused(store, shape):
    data = (store / CODEBOOK).read_bytes().replace(b"(2, 128), }", shape.encode())
    (store / CODEBOOK).write_bytes(data if shape != "(2, 128), }" else data[:-4])
    body = json.loads((store / RECIPE).read_text())["recipe"]
    body["codebook"] = hashlib.sha256((store / CODEBOOK).read_bytes()).hexdigest()
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    whole = {"format": 1, "sha256": digest, "recipe": body}
    (store / RECIPE).write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n")
    with pytest.raises(CorruptStoreError):
        read_recipe(store)


def test_there_is_a_store_or_there_is_none(store):
    assert Store.exists(store)
    assert Store.exists(str(store))
    assert not Store.exists(store.parent)
    assert not Store.exists(store / "nothing")
    assert not Store.exists(store / RECIPE)
