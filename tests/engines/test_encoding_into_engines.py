"""Blocks that workers write straight into an engine: idempotent, counted at the end."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from test_conformance import fitted

import bilsh
from bilsh import distributed
from bilsh.distributed import worker


def test_blocks_go_into_an_engine(place, engine, tmp_path, monkeypatch):
    if engine in ("store", "faiss"):
        pytest.skip("stores take staged segments, FAISS files have one writer")
    X, encoder = fitted("angle")
    np.save(tmp_path / "x.npy", X[:400])
    work = tmp_path / "job"
    real, calls = worker._sent, []

    def dying(plan, parts, coder):
        real(plan, parts, coder)
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt  # written, but without a receipt

    monkeypatch.setattr(worker, "_sent", dying)
    with pytest.raises(KeyboardInterrupt), ThreadPoolExecutor(1) as pool:
        distributed.encode(tmp_path / "x.npy", encoder, place(), pool, block=90, work=work)
    monkeypatch.setattr(worker, "_sent", real)
    with ThreadPoolExecutor(1) as pool:
        done = distributed.encode(tmp_path / "x.npy", encoder, place(), pool, block=90, work=work)
        again = distributed.encode(tmp_path / "x.npy", encoder, place(), pool, block=90, work=work)
    assert (done.items, done.blocks) == (400, 5)
    assert 1 <= done.encoded <= 3
    assert again.encoded == 0
    with bilsh.open(place()) as there:
        assert len(there) == 400
        assert (there.get(np.arange(400)).codes == encoder.transform(X[:400])).all()
