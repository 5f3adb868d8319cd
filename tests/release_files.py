"""Files as a release writes them, which all later ones must open: ``tests/release_files.py tests/formats/0.2.0``.

Made once, when a version is released, and never again; ``tests/store/test_format.py`` opens them.
"""

import json
import sys
from pathlib import Path

import numpy as np

import bilsh
from bilsh.store.recipe import Recipe, Settings, write_recipe


def told(store: bilsh.Store, queries: object) -> dict[str, object]:
    """All that a store says about its items, and what it finds."""
    ids = [i for part in store.batches() for i in part.ids.tolist()]
    items = store.get(ids)
    return {
        "ids": ids,
        "codes": [bytes(code).hex() for code in items.codes],
        "vectors": None if items.vectors is None else items.vectors.tolist(),
        "metadata": items.metadata,
        "queries": np.asarray(queries).tolist(),
        "found": store.search(queries, k=3).ids.tolist(),
        "fingerprint": store.fingerprint,
        "version": store.version,
    }


def main(folder: Path) -> None:
    """Write one store of everything, one of foreign codes, one of learned codes, and encoder files."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, 12))
    X = (centres[rng.integers(20, size=170)] + 0.4 * rng.normal(size=(170, 12))).astype(np.float32)
    X, queries = X[:160], X[160:]
    names = [f"item {i}" for i in range(len(X))]
    encoders = {
        "angle": bilsh.AngleEncoder(n_bits=96, random_state=0),
        "kernel": bilsh.KernelEncoder(n_bits=96, random_state=0),
        "hadamard": bilsh.AngleEncoder(n_bits=96, projection="hadamard", random_state=0),
        "euclidean": bilsh.EuclideanEncoder(n_bytes=16, random_state=0),
    }
    expected: dict[str, object] = {"items": X.tolist(), "encoders": {}}
    for name, encoder in encoders.items():
        codes = encoder.fit(X).transform(X)
        encoder.save(folder / f"{name}.encoder")
        expected["encoders"][name] = [bytes(code).hex() for code in codes]
    # Cells and their calibration, intervals measured on the store, deleted rows, a log, and a recipe with its codebook.
    path = folder / "store"
    with bilsh.Store.create(path, encoders["angle"], keep_vectors="float16") as store:
        store.add(X[:150], ids=names[:150], metadata=[{"row": i} for i in range(150)])
        store.build_cells(6)
        store.calibrate()
        store.delete(names[5:8])
        store.add(X[150:], ids=names[150:], metadata=[{"row": i, "late": True} for i in range(150, 160)])
        store.upsert(X[:1] + 0.5, ids=names[:1], metadata=[{"row": 0, "again": True}])
        store.delete(names[9:10])
        settings = Settings(bits=96, method="angle", keep_vectors="float16", describe="vlad", centers=4)
        source = {"path": "photos", "files": 160}
        write_recipe(path, Recipe(settings, source, 160, True, centres[:4].astype(np.float32), finished=True))
        expected["store"] = told(store, queries)
    with bilsh.Store.create(
        folder / "foreign", n_bits=600, bits="sign of a rotation", bitorder="big"
    ) as store:
        values = rng.normal(size=(40, 600)).astype(np.float32)
        store.add_codes(np.packbits(values >= 0, axis=1))
        expected["foreign"] = told(store, values[:4])
    with bilsh.Store.create(folder / "learned", encoders["euclidean"]) as store:
        store.add(X[:150])
        store.build_cells(6)
        store.delete([5, 6])
        store.add(X[150:])
        expected["learned"] = told(store, queries)
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    for file in (*folder.glob("*/reserve"), *folder.glob("*/lock")):
        file.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
