"""The statements of docs/sql.md, run on codes that bilsh exported."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from engine_servers import ALL

import bilsh
from bilsh.workflows.exports import export_codes

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sql.md").read_text("utf-8")


def statements(engine):
    (block,) = re.findall(rf"```sql\n-- {engine}\n(.*?)```", PAGE, flags=re.DOTALL)
    found = block.strip().split("\n")
    assert len(found) == 3
    return found


def package(name):
    return (
        __import__(name)
        if ALL
        else pytest.importorskip(name, reason=f"{name} is not installed (make test-engines)")
    )


@pytest.fixture
def exported(tmp_path, monkeypatch):
    codes = np.random.default_rng(0).integers(0, 256, (300, 512), dtype=np.uint8)
    codes[1::2] = codes[::2]  # ties
    with bilsh.Store.create(tmp_path / "store", n_bits=4096) as store:
        store.add_codes(codes, ids=np.arange(300))
        export_codes(store, tmp_path / "codes.parquet", "parquet")
        export_codes(store, tmp_path / "codes.npy", "npy", overwrite=True)
    monkeypatch.chdir(tmp_path)
    found = bilsh.top_k(codes[17:18], codes, 10)
    return list(zip(found.ids[0].tolist(), found.distances[0].tolist(), strict=True))


def test_duckdb(exported):
    with package("duckdb").connect() as connection:
        for statement in statements("duckdb"):
            rows = connection.execute(statement).fetchall()
    assert rows == exported


def test_clickhouse(exported, tmp_path):
    session = package("chdb").session.Session(str(tmp_path / "clickhouse"))
    create, ask = statements("clickhouse")[:2], statements("clickhouse")[2]
    for statement in create:
        session.query(statement.replace("codes.parquet", os.fspath(tmp_path / "codes.parquet")))
    rows = [tuple(map(int, line.split(","))) for line in str(session.query(ask, "CSV")).split()]
    session.close()
    assert rows == exported


def test_sqlite(exported):
    apsw, sqlite_vec = package("apsw"), package("sqlite_vec")
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    create, insert, ask = statements("sqlite")
    connection.execute(create)
    ids, codes = np.load("codes.ids.npy"), np.load("codes.npy")
    connection.executemany(
        insert, [(int(item), code.tobytes()) for item, code in zip(ids, codes, strict=True)]
    )
    assert list(connection.execute(ask)) == exported
    connection.close()
