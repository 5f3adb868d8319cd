"""What a store was found to be like, measured on itself: kept beside its codes, see :meth:`bilsh.Store.calibrate`.

`calibration.json` in the store's directory is sealed (:mod:`bilsh.store.sealed`) and replaced whole. No manifest names
it, for it changes no item: a search without it finds the same, and says less of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bilsh.errors import CorruptStoreError, InvalidInputError
from bilsh.estimates.evidence import Samples
from bilsh.store.files import Directory, put_small, read_small
from bilsh.store.sealed import seal, unseal
from bilsh.theory.hit_sample import HitSample

CALIBRATION = "calibration.json"
FORMAT = 1
MAX_BYTES = 16 << 20
GROWN = 2.0
"""A store that has grown by this factor, or shrunk by it, is no longer the one that was calibrated."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of hits, calibrated on the store itself.

    Attributes
    ----------
    by_distance, by_score : HitSample
        For hits ranked by distances, and by scores.
    queries, items : int
        How many queries were searched among how many items.
    given : bool
        Whether the queries were the caller's; else they were items, each without itself.
    time : int
        When, in seconds since 1970.
    before, after : tuple of float
        Share of the truths inside 95 % intervals at ranks 1 and 10 of the default search: as told at fit, and as
        calibrated; the latter by halves, each calibrated on the other.
    """

    by_distance: HitSample = field(repr=False)
    by_score: HitSample = field(repr=False)
    queries: int
    items: int
    given: bool
    time: int
    before: tuple[float, float]
    after: tuple[float, float]

    def to_plain(self) -> dict[str, Any]:
        """Return plain values for the file; quantiles to six decimals."""
        return {
            "queries": self.queries,
            "items": self.items,
            "given": self.given,
            "time": self.time,
            "before": self.before,
            "after": self.after,
            "by_distance": self.by_distance.to_array().round(6).tolist(),
            "by_score": self.by_score.to_array().round(6).tolist(),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Intervals:
        """Undo :meth:`to_plain`; ValueError and its like say what does not fit."""
        return cls(
            HitSample.from_array(plain["by_distance"]),
            HitSample.from_array(plain["by_score"]),
            int(plain["queries"]),
            int(plain["items"]),
            bool(plain["given"]),
            int(plain["time"]),
            (float(plain["before"][0]), float(plain["before"][1])),
            (float(plain["after"][0]), float(plain["after"][1])),
        )

    def samples(self, n_items: int) -> Samples:
        """What a search of `n_items` items says its intervals rest on."""
        day = datetime.fromtimestamp(self.time, UTC).date().isoformat()
        whose = "given" if self.given else "of its items"
        notes = [
            f"intervals: calibrated on this store on {day}, {self.queries:,} queries ({whose}) among {self.items:,} "
            "items"
        ]
        if not self.items / GROWN <= n_items <= self.items * GROWN:
            notes.append(f"the store has {n_items:,} items now: calibrate it again (Store.calibrate)")
        return Samples(self.by_distance, self.by_score, tuple(notes))


def read_intervals(directory: Directory, fingerprint: str) -> Intervals | None:
    """What was measured; None where there is no file, CorruptStoreError where it is damaged."""
    data = read_small(directory, CALIBRATION, MAX_BYTES)
    if data is None:
        return None
    try:
        body = unseal("calibration", data)
        if body["format"] != FORMAT:
            raise ValueError(
                f"it has format {body['format']!r}, this version knows {FORMAT}; use a newer bilsh"
            )
        if body["fingerprint"] != fingerprint:
            raise ValueError("it was made for another encoder")
        return Intervals.from_plain(body["intervals"])
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, InvalidInputError) as error:
        raise _damaged(directory, error) from None


def write_intervals(directory: Directory, fingerprint: str, intervals: Intervals) -> None:
    """Put what was measured in the place of what was there. Only the store's writer may."""
    body = {"format": FORMAT, "fingerprint": fingerprint, "intervals": intervals.to_plain()}
    put_small(directory, CALIBRATION, seal("calibration", body))


def calibration_files(directory: Directory, fingerprint: str) -> dict[str, bytes]:
    """The file, after a check, for a copy of the store; none where there is none."""
    if read_intervals(directory, fingerprint) is None:
        return {}
    data = read_small(directory, CALIBRATION, MAX_BYTES)
    return {} if data is None else {CALIBRATION: data}


def _damaged(directory: Directory, error: Exception) -> CorruptStoreError:
    return CorruptStoreError(
        f"{directory.path / CALIBRATION} is damaged: {error}. Items and searches are unaffected; calibrate again "
        "(Store.calibrate), or remove it to go without."
    )
