"""A damaged store gives up what is damaged, and nothing else."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from bilsh import KernelEncoder, Store
from bilsh.errors import CorruptStoreError, InvalidInputError
from bilsh.store import sections
from bilsh.store.sections import BLOCK, HEADER
from bilsh.workflows.exports import export_codes
from bilsh.workflows.imports import import_codes
from bilsh.workflows.rescue import check_versions, drop_damaged, survey

N, BITS = 6000, 4096


@pytest.fixture(scope="module")
def codes():
    return np.random.default_rng(0).integers(0, 256, (N, BITS // 8), dtype=np.uint8)


def make(path, codes, names, vectors=False):
    X = np.random.default_rng(1).normal(size=(N, 8)).astype(np.float32)
    with Store.create(
        path, KernelEncoder(BITS, random_state=0).fit(X), keep_vectors="float32" if vectors else None
    ) as s:
        ids = [f"item {i}" for i in range(N)] if names else np.arange(N) * 3
        s.add_codes(
            codes, ids, vectors=X if vectors else None, metadata=[{"n": i} for i in range(N)],
            fingerprint=s.fingerprint,
        )  # fmt: skip
        s.delete(ids[5:8])
    return path


def damage(path, place):
    """Flip a byte of the segment in the given block."""
    with Store.open(path) as store:
        segment = path / store.segments[0].ref.file
        assert segment.stat().st_size > 3 * BLOCK
    data = bytearray(segment.read_bytes())
    data[HEADER + place * BLOCK + 777] ^= 1
    segment.write_bytes(data)


def items(path):
    with Store.open(path) as store:
        found = {}
        for part in store.batches():
            for item, code, note in zip(part.ids, part.codes, part.metadata, strict=True):
                found[item] = (code.tobytes(), note)
        return found


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("block", [0, 1, 2])
def test_whole_blocks_are_kept(tmp_path, codes, names, block):
    path = make(tmp_path / "store", codes, names)
    truth = items(path)
    damage(path, block)
    with Store.open(path) as store:
        with pytest.raises(CorruptStoreError):
            store.verify(deep=True)
        lost = survey(store).lost
    # Codes lie in slabs, short prefixes first: a block holds the more items, the narrower its slab. The first and the
    # last block of so small a segment touch all of them.
    assert 0 < len(lost) < 5997 or block != 1
    assert check_versions(path)[-1].problem == f"{len(lost):,} of 5,997 items are damaged"
    done = drop_damaged(path)
    assert (done.items, done.lost) == (5997 - len(lost), len(lost))
    saved = items(path)
    assert saved == {item: truth[item] for item in saved}
    listed = [json.loads(line) for line in (tmp_path / "store.lost.txt").read_text().splitlines()]
    places = [item for item in listed if str(item).startswith("row ")]
    assert set(truth) - set(saved) == set(listed) - set(places) or places
    assert len(saved) + len(listed) == len(truth)
    with Store.open(path) as store:
        store.verify(deep=True)
    with pytest.raises(InvalidInputError, match="from an earlier repair"):
        drop_damaged(path)


def test_an_export_may_skip_what_is_damaged(tmp_path, codes):
    path = make(tmp_path / "store", codes, names=True, vectors=True)
    truth = items(path)
    damage(path, 1)
    with Store.open(path) as store:
        with pytest.raises(CorruptStoreError):
            export_codes(store, tmp_path / "a.parquet", "parquet")
        assert not (tmp_path / "a.parquet").exists()
        for form in ("npy", "parquet", "fvecs"):
            done = export_codes(store, tmp_path / f"out_{form}.{form}", form, skip_damaged=True)
            assert done.items + done.skipped == 5997
            assert done.skipped > 1000
    import_codes(tmp_path / "out_parquet.parquet", tmp_path / "again")
    saved = items(tmp_path / "again")
    assert len(saved) == done.items
    assert saved == {item: truth[item] for item in saved}


def test_every_block_of_a_grown_store_can_be_dropped(tmp_path, monkeypatch):
    """Cells, segments beside them, a log, changed items. Some of the small blocks hold nothing but cells or hashes."""
    monkeypatch.setattr(sections, "BLOCK", 4096)
    path, X = tmp_path / "store", np.random.default_rng(3).normal(size=(1300, 8)).astype(np.float32)
    with Store.create(path, KernelEncoder(64, random_state=0).fit(X[:500])) as store:
        store.add(X[:1200], ids=[f"old {i}" for i in range(1200)])
        assert store.build_cells(20) == 20
        store.add(X[1200:], ids=[f"new {i}" for i in range(100)], metadata=[{"n": i} for i in range(100)])
        store.delete(["old 3", "new 5"])
        store.upsert(X[:2], ids=["old 10", "new 11"])
        assert len(store.segments) > 2
        segment = max((s.ref for s in store.segments), key=lambda ref: ref.rows).file
    truth, lost = items(path), []
    for block in range((path / segment).stat().st_size // 4096 - 1):
        broken = tmp_path / f"broken {block}"
        shutil.copytree(path, broken)
        data = bytearray((broken / segment).read_bytes())
        data[HEADER + block * 4096 + 77] ^= 1
        (broken / segment).write_bytes(data)
        assert check_versions(broken)[-1].problem
        done = drop_damaged(broken)
        saved = items(broken)
        assert done.items == len(saved)
        assert done.lost - (len(truth) - len(saved)) in (0, 1)  # one of those deleted may look lost
        if done.lost_file:
            listed = [json.loads(line) for line in Path(done.lost_file).read_text().splitlines()]
            assert not set(listed) & set(saved)
        assert saved == {item: truth[item] for item in saved}
        assert {f"new {i}" for i in range(100) if i != 5} | {"old 10"} <= set(saved)
        assert (done.lost_file is None) == (done.lost == 0)
        with Store.open(broken) as store:
            store.verify(deep=True)
            assert store.n_cells in (0, 20)  # how many were asked for may be lost too
            lost.append((done.lost, store.n_cells))
    assert min(lost)[0] == 0 < max(lost)[0] < 1200
    assert sum(cells == 20 for _, cells in lost) >= len(lost) - 1


def test_a_whole_store_has_nothing_to_drop(store):
    with pytest.raises(InvalidInputError, match="nothing to drop"):
        drop_damaged(store)
    assert [version.problem for version in check_versions(store)] == [None, None]


def test_small_changes_are_surveyed_too(store, X):
    with Store.open(store, mode="a") as opened:
        for row in range(3):
            opened.add(X[row : row + 1] + 1)
        opened.delete([301])
    with Store.open(store) as opened:
        found = survey(opened)
        assert (found.items, found.lost) == (302, [])
        export_codes(opened, store.with_name("out.npy"), "npy", skip_damaged=True)
    assert import_codes(store.with_name("out.npy"), store.with_name("again")).items == 302
