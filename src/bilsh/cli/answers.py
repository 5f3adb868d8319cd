"""Answers of the commands that have more to say than a line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bilsh.cli import show
from bilsh.cli.words import for_users

if TYPE_CHECKING:
    from bilsh.engines import Collection
    from bilsh.search.account import Explanation
    from bilsh.store import Store
    from bilsh.workflows.queries import Found

NOT_IN_ENGINES = (
    "deleted_rows", "keep_vectors", "segments", "bytes_on_disk", "version", "versions", "source", "described_by",
    "finished",
)  # fmt: skip
"""What only an embedded store tells."""

Answer = tuple[dict[str, Any], list[str]]
LIKE_RANDOM = "like random pairs"
"""Mark of hits that do not stand out."""


def question(path: Path) -> str:
    """Return a command that asks a store about its first item."""
    from bilsh.workflows.queries import open_store

    with open_store(path) as store:
        first = next((items.ids[0] for items in store.batches(1)), None)
    if first is None:
        return f"bilsh info {show.shell(path)}"
    return f"bilsh search {show.shell(path)} --id {show.shell(first)}"


def when(seconds: int | None) -> str:
    """Return a time in the local zone."""
    try:
        return "?" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "?"  # a manifest may say anything


def _promise(explanation: Explanation | None) -> dict[str, Any] | None:
    known = explanation.promise if explanation else None
    if known is None:
        return None
    return {
        "target": known.target,
        "k": known.k,
        "recall": known.recall,
        "interval": list(known.interval),
        "queries": known.n_queries,
        "source": known.source,
        "time": known.time,
    }


def search_answer(found: Found, store: Store | Collection) -> Answer:
    """Tell the neighbours of every query: rank, id, distance, similarity with its interval."""
    from bilsh.workflows.telling import told_background, told_hits

    hits, explanation = found.hits, found.hits.explain()
    tells = hits.quantity is not None and store.coder.by_hamming and len(store) > 1
    band = store.background() if tells else None
    marks = None if band is None else band.stands_out(hits)
    if explanation is not None and explanation.promise is not None:
        show.note(f"note: {explanation.promise}")
    for message in explanation.notes if explanation else ():
        show.note(f"note: {for_users(message)}")
    answers: list[dict[str, Any]] = []
    lines: list[str] = []
    for number, (name, some) in enumerate(zip(found.queries, hits, strict=True)):
        neighbors = told_hits(some, None if marks is None else marks[number])
        answers.append({"query": name, "neighbors": neighbors})
        if len(found.queries) > 1:
            lines += [*([""] if lines else []), f"query {show.clean(name)}"]
        lines += _neighbor_lines(neighbors, hits.quantity, hits.confidence)
    if any(hit["stands_out"] is False for answer in answers for hit in answer["neighbors"]):
        show.note(
            f"note: {LIKE_RANDOM}: hits whose interval reaches into the band of unrelated items; {band}"
        )
    data = {
        "store": str(store.path),
        "version": store.version,
        "items": len(store),
        "bits": store.n_bits,
        "mode": explanation.mode if explanation else None,
        "promise": _promise(explanation),
        "quantity": hits.quantity,
        "confidence": hits.confidence,
        "background": told_background(band),
        "results": answers,
        "html": None,
    }
    return data, lines


def _neighbor_lines(neighbors: list[dict[str, Any]], quantity: str | None, confidence: float) -> list[str]:
    """Lay out neighbours in a table; columns that hold nothing are left out."""
    if not neighbors:
        return ["nothing found"]
    exact = neighbors[0]["exact_distance"] is not None
    marked = any(hit["stands_out"] is False for hit in neighbors)
    told = "distance" if quantity == "distance" else "similarity"
    counted = isinstance(neighbors[0]["distance"], int)
    header = [
        "rank", "id", *(["bits"] if counted else []), *(["exact distance"] if exact else []),
        *([quantity, f"{confidence * 100:g} % interval"] if quantity else []),
        *([""] if marked else []),
    ]  # fmt: skip
    rows = [
        (
            hit["rank"], hit["id"], *([_number(hit["distance"])] if counted else []),
            *([_number(hit["exact_distance"])] if exact else []),
            *([_number(hit[told]), " .. ".join(map(_number, hit["interval"]))] if quantity else []),
            *(["" if hit["stands_out"] else LIKE_RANDOM] if marked else []),
        )
        for hit in neighbors
    ]  # fmt: skip
    return show.table(header, rows, left=("id", ""))


def _number(value: Any) -> str:
    if value is None:
        return "inf"
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"


def describe_place(address: str) -> Answer:
    """Tell what is at an address."""
    from bilsh.engines import Address, open_collection
    from bilsh.workflows.telling import plain

    where = Address.of(address)
    if where.scheme == "store":
        return describe_store(Path(where.rest))
    with open_collection(address) as there:
        coder, able = there.coder, there.capabilities
        data: dict[str, Any] = {
            "path": there.address,
            "engine": able.engine,
            "engine_version": able.version,
            "items": len(there),
            "bits": there.n_bits,
            "encoder": coder.kind,
            "projection": coder.projection.kind,
            "input_shape": list(coder.input_shape),
            "norm_ratio": plain(coder.norm_ratio),
            "meaning": getattr(coder, "bits", None),
            "bitorder": getattr(coder, "bitorder", "little"),
            "parameter_bytes": coder.parameter_bytes,
            "fingerprint": there.spec.fingerprint,
            "ids": there.id_kind,
            **dict.fromkeys(NOT_IN_ENGINES),
        }
    limit = "any" if able.max_bits is None else f"{able.max_bits:,}"
    return data, show.facts(
        [
            ("engine", f"{able.engine} {able.version}"),
            ("items", f"{data['items']:,}"),
            ("codes", f"{data['bits']:,} bits, {-(-data['bits'] // 8):,} bytes each (longest here: {limit} bits)"),
            ("encoder", f"{data['encoder']} codes, {data['projection']} projection, "
                        f"{show.size(data['parameter_bytes'])} of parameters"),
            ("data", f"shape {tuple(data['input_shape'])}"),
            ("fingerprint", data["fingerprint"][:16]),
            ("ids", {"int": "integers", "str": "names"}.get(str(data["ids"]), "none yet")),
            ("filters", "ids and values of the metadata" if able.filter else "ids"),
        ]
    )  # fmt: skip


def describe_store(path: Path) -> Answer:
    """Tell what a store holds and how it was made."""
    from bilsh.store import Store
    from bilsh.store.recipe import read_recipe
    from bilsh.workflows.queries import open_store
    from bilsh.workflows.telling import plain

    with open_store(path) as store:
        recipe = read_recipe(path)
        versions = Store.versions(path)
        encoder = store.coder
        rows = sum(len(segment) for segment in store.segments)
        disk = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
        data: dict[str, Any] = {
            "path": str(path),
            "engine": "store",
            "engine_version": None,
            "items": len(store),
            "deleted_rows": rows - len(store),
            "bits": store.n_bits,
            "encoder": encoder.kind,
            "projection": encoder.projection.kind,
            "input_shape": list(encoder.input_shape),
            "norm_ratio": plain(encoder.norm_ratio),
            "meaning": getattr(encoder, "bits", None),
            "bitorder": getattr(encoder, "bitorder", "little"),
            "parameter_bytes": encoder.parameter_bytes,
            "fingerprint": store.fingerprint,
            "ids": store.id_kind,
            "keep_vectors": store.keep_vectors,
            "segments": len(store.segments),
            "cells": store.n_cells,
            "bytes_on_disk": disk,
            "version": store.version,
            "versions": [v.version for v in versions],
            "source": recipe.source["path"] if recipe else None,
            "described_by": recipe.settings.describe if recipe and recipe.images else None,
            "finished": recipe.finished if recipe else None,
        }
    ratio = data["norm_ratio"]
    lines = show.facts(
        [
            ("items", f"{data['items']:,}" + (f" ({data['deleted_rows']:,} deleted rows wait for compaction)"
                                              if data["deleted_rows"] else "")),
            ("codes", f"{data['bits']:,} bits, {-(-data['bits'] // 8):,} bytes each"),
            *([
                ("encoder", "none: codes made elsewhere"),
                ("a bit is", f"the {data['meaning']}" if data["meaning"] else "known by distances only"),
                ("packed", "highest bit first" if data["bitorder"] == "big" else "lowest bit first"),
            ] if data["encoder"] == "foreign" else [
                ("encoder", f"{data['encoder']} codes, {data['projection']} projection, "
                            f"{show.size(data['parameter_bytes'])} of parameters"),
                ("data", f"shape {tuple(data['input_shape'])}"
                         + (f", norm ratio {ratio:.2f}" if ratio is not None else "")),
            ]),
            ("fingerprint", data["fingerprint"][:16]),
            ("ids", {"int": "integers", "str": "names"}.get(str(data["ids"]), "none yet")),
            ("vectors", data["keep_vectors"] or "not kept"),
            ("on disk", f"{show.size(disk)} in {data['segments']} segment" + "s" * (data["segments"] != 1)),
            ("version", f"{data['version']} (kept: {', '.join(map(str, data['versions']))})"),
            *([("source", data["source"])] if recipe else []),
            *([("images by", data["described_by"])] if data["described_by"] else []),
        ]
    )  # fmt: skip
    if recipe and not recipe.finished:
        lines.append("not finished: run the same `bilsh encode` again to go on")
    return data, lines


def list_datasets() -> Answer:
    """Tell which data sets there are and where."""
    from bilsh.datasets.named import cache_folder, mnist_folder
    from bilsh.errors import BilshError

    try:
        place = str(mnist_folder(None, fetch=False))
    except BilshError:
        place = f"not here; fetched into {cache_folder() / 'mnist'} when asked for, or set BILSH_MNIST"
    rows = [
        ("digits", "1,797", "8 x 8", "always there (scikit-learn)"),
        ("mnist", "70,000", "28 x 28", place),
    ]
    names = ("name", "items", "shape", "where")
    data = {"datasets": [dict(zip(names, row, strict=True)) for row in rows], "files": []}
    return data, show.table(names, rows, left=("name", "where"))


def write_dataset(name: str, path: Path) -> Answer:
    """Write a data set as .npy, its labels beside it."""
    from bilsh import datasets
    from bilsh.datasets.files import check_folder
    from bilsh.files import replace_file

    check_folder(path)
    data = datasets.digits() if name == "digits" else datasets.mnist()
    labels = path.with_suffix(".labels.npy")
    for target, array in ((path, data.X), (labels, data.labels)):
        with replace_file(target) as file:
            np.save(file, array, allow_pickle=False)
    shape = " x ".join(map(str, data.X.shape[1:]))
    answer = {
        "datasets": [{"name": name, "items": f"{len(data.X):,}", "shape": shape, "where": str(path)}],
        "files": [str(path), str(labels)],
    }
    return answer, [
        f"{len(data.X):,} items of shape {data.X.shape[1:]} written to {show.clean(path)}",
        f"labels written to {show.clean(labels)}",
        f"next: bilsh encode {show.shell(path)} -o store/ --bits 1024",
    ]
