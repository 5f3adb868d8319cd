"""Hits as plain values: one shape for the command line's JSON and for the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from bilsh.search.background import Background
from bilsh.search.results import Hit


def plain(value: Any) -> Any:
    """Turn a NumPy scalar into JSON; infinity has no JSON and becomes null."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value


def told_hits(hits: list[Hit], stands_out: Any) -> list[dict[str, Any]]:
    """Tell the hits of one query.

    Parameters
    ----------
    hits : list of Hit
        In their order.
    stands_out : sequence of bool, or None
        Whether each is surely more alike than random pairs; None where nobody knows.
    """
    return [
        {
            "rank": rank,
            "id": hit.id,
            "distance": hit.distance,
            "exact_distance": plain(hit.exact),
            "similarity": plain(hit.similarity),
            "interval": None if hit.interval is None else [plain(end) for end in hit.interval],
            "stands_out": None if stands_out is None else bool(stands_out[rank - 1]),
        }
        for rank, hit in enumerate(hits, 1)
    ]


def told_background(band: Background | None) -> dict[str, Any] | None:
    """Tell the band of random pairs."""
    if band is None:
        return None
    return {"low": band.low, "median": band.median, "high": band.high, "share": band.share}
