"""Answers as small tables: text, and HTML for notebooks. Colours are those of the notebook; text is escaped."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bilsh.errors import InvalidInputError

if TYPE_CHECKING:
    from bilsh.search.account import Explanation
    from bilsh.search.results import Hit, Matches, Neighbors

QUERIES, HITS = 5, 10
"""Queries and hits that a table shows."""

SIDE = 84
LOWEST_WHITE = 64
_SOFT = "color:color-mix(in srgb,currentColor 60%,transparent)"
_CELL = "text-align:right;padding:2px 8px;font-variant-numeric:tabular-nums"


def table_html(head: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> str:
    """Return a table; cells are HTML already."""
    names = "".join(f'<th style="{_CELL};font-weight:600">{name}</th>' for name in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div style="color:inherit"><div style="{_SOFT}">{escape(title)}</div>'
        f'<table style="border-collapse:collapse;background:none"><thead><tr>{names}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def facts_html(title: str, facts: Sequence[tuple[str, object]]) -> str:
    """Return a card of names and values."""
    rows = "".join(
        f'<tr><td style="{_CELL};text-align:left;{_SOFT}">{escape(name)}</td>'
        f'<td style="{_CELL};text-align:left">{escape(str(value))}</td></tr>'
        for name, value in facts
    )
    return (
        f'<div style="color:inherit"><strong>{escape(title)}</strong>'
        f'<table style="border-collapse:collapse;background:none">{rows}</table></div>'
    )


def whisker(hit: Hit, low: float, width: int = 120) -> str:
    """Draw similarity and interval on an axis from `low` to 1, so many pixels wide."""
    if hit.similarity is None or hit.interval is None:
        return ""

    def at(value: float) -> float:
        return round(120 * min(1.0, max(0.0, (value - low) / (1 - low or 1.0))), 1)

    start, stop = (at(end) for end in hit.interval)
    return (
        f'<svg width="{width}" height="12" viewBox="0 0 120 12" role="img" aria-label="interval" '
        'style="vertical-align:middle;color:inherit" stroke="currentColor">'
        '<line x1="0" x2="120" y1="6" y2="6" stroke-opacity=".25"/>'
        f'<line x1="{start}" x2="{max(stop, start + 1)}" y1="6" y2="6" stroke-width="2"/>'
        f'<line x1="{at(hit.similarity)}" x2="{at(hit.similarity)}" y1="1" y2="11" stroke-width="3"/></svg>'
    )


def told(hit: Hit) -> str:
    """What the codes say of a hit: its similarity, or where there is none its distance."""
    return rounded(hit, hit.distance if hit.similarity is None else hit.similarity)


def rounded(hit: Hit, value: float) -> str:
    """Similarities with three decimals, distances with four digits."""
    return f"{value:.4g}" if hit.similarity is None else f"{value:.3f}"


def hits_text(title: str, found: Neighbors | Matches) -> str:
    """The first hits of the first queries, as a small table."""
    lines = [f"<bilsh.{title}>"]
    for query in range(min(len(found), 3)):
        hits = found.hits(query)
        for rank, hit in enumerate(hits[:HITS], 1):
            value = f"{hit.distance:>6} bits" if isinstance(hit.distance, int) else ""
            if hit.interval is not None:
                low, high = (rounded(hit, end) for end in hit.interval)
                value += f"  {found.quantity} {told(hit)} ({low} .. {high})"
            true = "" if hit.exact is None else f"  exact {hit.exact:.4g}"
            lines.append(f"  {query:>3} {rank:>3}  {hit.id!s:<12.40} {value}{true}")
        if len(hits) > HITS:
            lines.append(f"          ... {len(hits) - HITS} more")
    if len(found) > 3:
        lines.append(f"  ... {len(found) - 3} more queries")
    if found.per_pair:
        lines.append("  intervals are those of pairs, too narrow for hits: see explain()")
    return "\n".join(lines)


def _first(found: Neighbors | Matches) -> tuple[list[list[Hit]], float, str]:
    """The first hits of the first queries, where their common axis begins, and how many are left out."""
    everything = [found.hits(query) for query in range(min(len(found), QUERIES))]
    shown = [hits[:HITS] for hits in everything]
    low = min((hit.interval[0] for hits in shown for hit in hits if hit.interval is not None), default=0.0)
    whole = len(found) == len(shown) and shown == everything
    more = "" if whole else f"; the first {len(shown)} queries, {HITS} hits each"
    return shown, min(low, 0.0) if low > -1 else -1.0, more


def hits_html(found: Neighbors | Matches, title: str) -> str:
    """Return the first hits of the first queries as a table."""
    shown, low, more = _first(found)
    exact = any(hit.exact is not None for hits in shown for hit in hits)
    counted = not shown or isinstance(shown[0][0].distance if shown[0] else 0, int)
    head = ["query", "rank", "id", *(["bits"] if counted else [])]
    head += [escape(found.quantity), f"{found.confidence:.0%} interval", ""] if found.quantity else []
    head += ["exact distance"] if exact else []
    rows = []
    for query, hits in enumerate(shown):
        for rank, hit in enumerate(hits, 1):
            row = [str(query) if rank == 1 else "", str(rank), escape(str(hit.id))]
            row += [f"{hit.distance:,}"] if counted else []
            if hit.interval is not None:
                ends = " – ".join(rounded(hit, end) for end in hit.interval)
                row += [f"<strong>{told(hit)}</strong>", ends, whisker(hit, low)]
            row += ["" if hit.exact is None else f"{hit.exact:.4g}"] if exact else []
            rows.append(row)
    return table_html(head, rows, title + more)


def pictures_html(found: Neighbors | Matches, pictures: Pictures) -> str:
    """Return a strip of pictures for each of the first queries, what is known of each hit below it."""
    shown, low, more = _first(found)
    strips = "".join(
        f'<div style="{_SOFT};margin-top:8px">query {query}</div>'
        '<div style="display:flex;flex-wrap:wrap;gap:8px">'
        + "".join(_card(hit, pictures.image(hit.id), low) for hit in hits)
        + "</div>"
        for query, hits in enumerate(shown)
    )
    what = f", {found.quantity} and {found.confidence:.0%} interval" if found.quantity else ", differing bits"
    return (
        f'<div style="color:inherit"><div style="{_SOFT}">{escape("hits" + what + more)}</div>{strips}</div>'
    )


def _card(hit: Hit, image: str, low: float) -> str:
    name = escape(str(hit.id))
    if hit.interval is None:
        value, ends = f"{hit.distance:,} bits", ""
    elif hit.similarity is None:
        value, ends = f"{hit.distance:.3g}", " – ".join(f"{end:.3g}" for end in hit.interval)
    else:
        value, ends = f"{hit.similarity:.2f}", " – ".join(f"{end:.2f}" for end in hit.interval)
    box = image or f'<div style="width:{SIDE}px;height:{SIDE}px"></div>'
    return (
        f'<div style="width:{SIDE}px;line-height:1.3;font-variant-numeric:tabular-nums">{box}'
        f'<div><strong>{value}</strong> <small style="{_SOFT};white-space:nowrap">{ends}</small></div>'
        f"{whisker(hit, low, SIDE)}"
        f'<div title="{name}" style="{_SOFT};overflow:hidden;text-overflow:ellipsis;white-space:nowrap">{name}</div>'
        "</div>"
    )


def explanation_html(told: Explanation) -> str:
    """Return what a search did as a table of its stages."""
    rows = [[escape(s.name), f"{s.items:,}", f"{s.bytes:,}", f"{1e3 * s.seconds:.3f}"] for s in told.stages]
    title = f"{told.mode}: {told.reason}; {told.n_queries:,} queries, {told.n_items:,} items"
    notes = "".join(f'<div style="{_SOFT}">{escape(note)}</div>' for note in told.notes)
    return table_html(["stage", "items", "bytes", "ms"], rows, title) + notes


@dataclass(frozen=True, slots=True)
class Pictures:
    """Pictures of items by their ids.

    Attributes
    ----------
    images : array (n, height, width) or (n, height, width, 3), mapping, function of an id, or folder
        Gives an image (height, width[, 3]), numbers to draw as a heat map, or the path of an image.
    """

    images: Any

    def image(self, item: Any) -> str:
        """Return the picture of an item as an element; empty where there is none."""
        found = self._find(item)
        if found is None:
            return ""
        data = _as_webp(found)
        if data is None:
            return ""
        text = base64.b64encode(data).decode()
        return (
            f'<img alt="" width="{SIDE}" height="{SIDE}" style="object-fit:contain;image-rendering:auto" '
            f'src="data:image/webp;base64,{text}">'
        )

    def _find(self, item: Any) -> Any:
        source = self.images
        if isinstance(source, str | Path):
            root = Path(source).resolve()
            path = (root / str(item)).resolve()
            return path if path.is_relative_to(root) and path.is_file() else None
        if isinstance(source, Mapping):
            return source.get(item)
        if callable(source):
            return source(item)
        if isinstance(item, int) and 0 <= item < len(source):
            return source[item]
        if not isinstance(item, int):
            raise InvalidInputError(
                f"images are looked up by id, and {item!r} is no row of an array. Pass a mapping or the folder."
            )
        return None


def _as_webp(found: Any) -> bytes | None:
    from bilsh.datasets.thumbnails import heat_map, thumbnail, webp

    if isinstance(found, str | Path):
        try:
            return thumbnail(np.fromfile(found, dtype=np.uint8), SIDE)
        except OSError:
            return None
    array = np.asarray(found)
    if array.ndim == 3 and array.shape[2] == 3 and array.dtype == np.uint8:
        return webp(array[..., ::-1])
    # Gray values reach high; bytes that stay low are numbers, such as digits of 0 to 16, and would be all black.
    if array.ndim == 2 and array.dtype == np.uint8 and array.max(initial=0) >= LOWEST_WHITE:
        return webp(array)
    return heat_map(array, SIDE)


@dataclass(frozen=True, slots=True)
class Shown:
    """Hits with pictures: strips of them in notebooks, text elsewhere."""

    found: Any
    pictures: Pictures

    def _repr_html_(self) -> str:
        return pictures_html(self.found, self.pictures)

    def __repr__(self) -> str:
        return repr(self.found)
