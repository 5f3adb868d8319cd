"""The answer of a search as one HTML page: nothing is loaded from elsewhere, thumbnails are inside."""

from __future__ import annotations

import base64
import html
from pathlib import Path
from typing import Any

import numpy as np

from bilsh.datasets.thumbnails import thumbnail
from bilsh.files import replace_file
from bilsh.store import Store
from bilsh.workflows.queries import image_recipe

SIDE = 160
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
figure { display: inline-block; margin: .5rem; width: 176px; vertical-align: top; font-size: 13px }
figure img, figure .none { width: 160px; height: 160px; object-fit: contain; background: #f5f5f5; display: block }
figcaption { overflow-wrap: anywhere } h2 { font-size: 1.1rem; border-top: 1px solid #ddd; padding-top: 1rem }
"""


def write_page(path: Path, answer: dict[str, Any], store: Store, query: Path | None) -> None:
    """Write the answer of `bilsh search` as a page.

    Parameters
    ----------
    path : path
    answer : dict
        As the command prints it with --json.
    store : Store
        Where it was made from images that are still there, they are shown.
    query : path, optional
        File of the query; shown if it is an image.
    """
    recipe = image_recipe(store)
    folder = None if recipe is None else Path(recipe.source["path"])
    parts = []
    for result in answer["results"]:
        parts.append(f"<h2>{html.escape(str(result['query']))}</h2>")
        if folder is not None:
            asked = query or folder / str(result["query"])
            parts.append(_figure(asked, "query"))
        for hit in result["neighbors"]:
            picture = None if folder is None else folder / str(hit["id"])
            parts.append(_figure(picture, _caption(hit, answer["quantity"])))
        if not result["neighbors"]:
            parts.append("<p>nothing found</p>")
    body = "\n".join(parts)
    text = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>bilsh search</title>
<style>{STYLE}</style>
<h1>{html.escape(str(store.path))}</h1>
<p>{answer["items"]:,} items, {answer["bits"]:,} bits, {answer["mode"]} search. Each item with its {answer["quantity"]}
as the codes tell it, and the {answer["confidence"]:.0%} interval.</p>
{body}
</html>
"""
    with replace_file(path) as file:
        file.write(text.encode())


def _caption(hit: dict[str, Any], quantity: str) -> str:
    lines = [f"{hit['rank']}. {hit['id']}"]
    if hit["interval"] is not None:
        value = hit["distance"] if hit["similarity"] is None else hit["similarity"]
        low, high = ("?" if end is None else f"{end:.3f}" for end in hit["interval"])
        lines.append(f"{quantity} {value:.3f} ({low} .. {high})")
    if hit["exact_distance"] is not None:
        lines.append(f"exact distance {hit['exact_distance']:.4g}")
    elif isinstance(hit["distance"], int):
        lines.append(f"{hit['distance']:,} bits")
    return "<br>".join(html.escape(line) for line in lines)


def _figure(path: Path | None, caption: str) -> str:
    data = None if path is None else _thumbnail(path)
    picture = (
        '<div class="none"></div>' if data is None else f'<img alt="" src="data:image/webp;base64,{data}">'
    )
    return f"<figure>{picture if path is not None else ''}<figcaption>{caption}</figcaption></figure>"


def _thumbnail(path: Path) -> str | None:
    """Return an image of at most 160 x 160 pixels as base64; None where it cannot be read."""
    try:
        made = thumbnail(np.fromfile(path, dtype=np.uint8), SIDE)
    except OSError:
        return None
    return None if made is None else base64.b64encode(made).decode()
