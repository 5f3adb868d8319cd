"""All pairs within a radius, against a loop over all pairs: cells, several segments, deleted rows."""

import numpy as np
import pytest

from bilsh.search import pairs
from bilsh.search.cells import in_cells
from bilsh.search.pairs import blocks_of, pairs_of_block, radii
from support import clustered_codes as clustered
from support import slabs_of


class Part:
    def __init__(self, codes, ids, living, n_cells):
        order = np.arange(len(codes))
        self.cells = None
        if n_cells:
            order, self.cells = in_cells(codes, np.arange(len(codes)), n_cells)
        self.codes, self.ids, self.living = codes[order], np.asarray(ids)[order], living[order]
        self.slabs, self.vectors = slabs_of(self.codes), None
        self.alive = np.packbits(self.living, bitorder="little")


@pytest.mark.parametrize("radius", [0, 60, 130, 10_000])
def test_each_pair_comes_once(radius, monkeypatch):
    monkeypatch.setattr(pairs, "CHUNK", 100)
    rng = np.random.default_rng(radius)
    parts, at = [], 0
    for n, n_cells in [(400, 20), (90, 0), (33, 4)]:
        codes = clustered(n, 100, n)
        codes[5:8] = codes[4]
        parts.append(Part(codes, rng.permutation(n) + at, rng.random(n) < 0.8, n_cells))
        at += n
    reach = [radii(part) for part in parts]
    found = [
        (*sorted((int(a), int(b))), int(d))
        for block in blocks_of(parts, 64)
        for one, other, far in pairs_of_block(parts, block, radius, reach)
        for a, b, d in zip(one, other, far, strict=True)
    ]
    codes, ids = (np.concatenate([getattr(part, name) for part in parts]) for name in ("codes", "ids"))
    living = np.concatenate([part.living for part in parts])
    codes, ids = codes[living], ids[living]
    far = np.bitwise_count(codes[:, None] ^ codes[None]).sum(axis=2)
    one, other = np.nonzero(np.triu(far <= radius, 1))
    expected = [
        (*sorted((int(ids[a]), int(ids[b]))), int(far[a, b])) for a, b in zip(one, other, strict=True)
    ]
    assert sorted(found) == sorted(expected)


def test_far_cells_are_left_out():
    codes = clustered(2000, 100, 0)
    part = Part(codes, np.arange(2000), np.ones(2000, dtype=bool), 40)
    ranges = pairs._ranges(part.cells, radii(part), part.codes[:20], 30, 2000)
    assert sum(high - low for low, high in ranges) < 500
