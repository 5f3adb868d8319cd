"""The file that holds what promised recalls rest on: trial queries and the rows that are nearest to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bilsh.files import LAST_SECOND
from bilsh.search.estimated_promise import EstimatedTrial
from bilsh.search.trial import Trial
from bilsh.store.files import Directory
from bilsh.store.rows import Layout
from bilsh.store.sections import FileRef, SectionFile, SectionWriter
from bilsh.store.segment import Segment


def write_trial(
    directory: Directory, name: str, layout: Layout, trial: Trial | EstimatedTrial, segment: str
) -> FileRef:
    """Write what promised recalls of a segment rest on, as a synced file."""
    writer = SectionWriter(directory, name, b"CALI", len(trial), layout.fingerprint)
    facts = [trial.time, _token(segment)]
    try:
        if isinstance(trial, Trial):
            writer.section("queries", "<u1", layout.n_bytes, [trial.codes])
        else:
            facts.append(int(trial.described))
            writer.section("queries", "<f4", layout.n_features, [trial.vectors])
            writer.section("far", "<f4", trial.far.shape[1], [trial.far])
        writer.section("near", "<i8", trial.near.shape[1], [trial.near])
        writer.section("own", "<i8", 1, [trial.own])
        writer.section("facts", "<u8", 1, [np.array(facts, dtype=np.uint64)])
        return writer.finish()
    finally:
        writer.abandon()


def read_trial(file: SectionFile, segments: Sequence[Segment]) -> Trial | EstimatedTrial | None:
    """Trial of the segment that has cells; None where it was made for another. Nothing in the file is believed."""
    shapes = {name: (section.dtype.str[1:], section.rows) for name, section in file.sections.items()}
    n = file.rows
    common = {"near": ("i8", n), "own": ("i8", n)}
    by_codes = {**common, "queries": ("u1", n), "facts": ("u8", 2)}
    estimated = {**common, "queries": ("f4", n), "far": ("f4", n), "facts": ("u8", 3)}
    if shapes not in (by_codes, estimated) or any(
        file.sections[name].columns != 1 for name in ("own", "facts")
    ):
        raise file.corrupt("does not hold a calibration")
    time, token, *described = file.array("facts")[:, 0].tolist()
    for segment in segments:
        if segment.has("cells") and _token(segment.file.name) == token:
            # Copies: a search keeps them, and what was checked must not change under it with the file.
            queries, near, own = (file.array(name).copy() for name in ("queries", "near", "own"))
            layout = segment.layout
            width = layout.n_features if described else layout.n_bytes
            if queries.shape[1] != width or time > LAST_SECOND or segment.has("axes") != bool(described):
                raise file.corrupt("does not hold a calibration of this store's codes")
            if n and (min(near.min(), own.min()) < -1 or max(near.max(), own.max()) >= len(segment)):
                raise file.corrupt("points outside the segment that it is for")
            if not described:
                return Trial(queries, near, own[:, 0], time)
            far = file.array("far").copy()
            if far.shape != near.shape or not (np.isfinite(far).all() and np.isfinite(queries).all()):
                raise file.corrupt("holds queries or distances that are no numbers")
            return EstimatedTrial(queries, near, far, own[:, 0], described[0] == 1, time)
    return None


def _token(name: str) -> int:
    return int(name[2:18], 16)
