"""Promise 9: stores of every released format open, for ever, and say what they said when they were made."""

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from makers import content, make_items

import bilsh
import release_files
from bilsh import Store
from bilsh.store.recipe import read_recipe

FORMATS = Path(__file__).parents[1] / "formats"


@pytest.mark.parametrize("kind", ["int", "str"])
def test_a_store_of_format_1_opens(kind, tmp_path):
    where = FORMATS / "v1" / f"store-{kind}"
    expected = json.loads((FORMATS / "v1" / f"store-{kind}.json").read_text())
    with Store.open(where) as store:
        store.verify(deep=True)
        assert store.fingerprint == store.encoder.fingerprint == expected["fingerprint"]
        items = store.get(expected["ids"])
        assert len(store) == len(expected["ids"])
        assert [code.hex() for code in map(bytes, items.codes)] == expected["codes"]
        assert items.metadata == expected["metadata"]
        np.testing.assert_array_equal(items.vectors, np.array(expected["vectors"], dtype=np.float16))
        np.testing.assert_array_equal(store.encoder.transform(items.vectors[:3]), items.codes[:3])


def test_bytes_are_where_the_document_says(tmp_path):
    """An independent reader, written from docs/store-format.md alone, finds the codes and ids."""
    encoder = bilsh.AngleEncoder(n_bits=600, projection="dense", random_state=0).fit(make_items(20))
    X = make_items(9)
    with Store.create(tmp_path / "store", encoder) as store:
        store.add(X, ids=range(9, 0, -1))
        expected = content(store)
    manifest = max((tmp_path / "store").glob("m-*.json"))
    body = json.loads(manifest.read_text())["manifest"]
    (entry,) = body["segments"]
    data = (tmp_path / "store" / entry["file"]).read_bytes()
    assert data[:16] == b"\x89bilsh\r\n\x01\0\0\0SEGM"
    size, rows = struct.unpack_from("<QQ", data, 16)
    end, blocks, table, block, n_sections = struct.unpack_from("<QIIII", data, 80)
    assert (size, rows, block, blocks) == (len(data), 9, 1 << 20, 1)
    assert struct.unpack_from("<I", data, 4092)[0] == zlib.crc32(data[:4092])
    assert table == zlib.crc32(data[end:])
    assert struct.unpack_from("<I", data, end)[0] == zlib.crc32(data[4096:end])
    sections = {}
    for i in range(n_sections):
        name, offset, length, kind, columns = struct.unpack_from("<16sQQ4s4xQ", data, 128 + 48 * i)
        dtype = np.dtype("<" + kind.rstrip(b"\0").decode())
        flat = np.frombuffer(data, dtype, length // dtype.itemsize, offset)
        sections[name.rstrip(b"\0").decode()] = flat.reshape(-1, columns)
    assert set(sections) == {"code0", "code1", "ids", "order"}
    codes = np.hstack([sections["code0"], sections["code1"]])
    assert {int(i): code.tobytes() for i, code in zip(sections["ids"][:, 0], codes, strict=True)} == {
        i: code for i, (code, _, _) in expected.items()
    }
    assert sections["order"][:, 0].tolist() == list(range(8, -1, -1))


@pytest.mark.parametrize("kind", ["int", "str"])
def test_a_store_of_format_3_opens(kind):
    """Cells and their calibration, a segment beside them and deleted rows."""
    where = FORMATS / "v3" / f"store-{kind}"
    expected = json.loads((FORMATS / "v3" / f"store-{kind}.json").read_text())
    with Store.open(where) as store:
        store.verify(deep=True)
        assert store._now.manifest.format == 3
        assert (store.n_cells, len(store)) == (expected["n_cells"], len(expected["ids"]))
        items = store.get(expected["ids"])
        assert [code.hex() for code in map(bytes, items.codes)] == expected["codes"]
        hits = store.search(codes=items.codes[:4], k=3, recall=0.8)
        assert hits.ids.tolist() == expected["found"]
        assert hits.explain().promise.source == "items"


@pytest.fixture(scope="module", params=["this", *sorted(path.name for path in FORMATS.glob("[0-9]*"))])
def release(request, tmp_path_factory):
    """Files of a release, and those that this version would be released with."""
    if request.param != "this":
        return FORMATS / request.param
    folder = tmp_path_factory.mktemp("release") / "files"
    release_files.main(folder)
    return folder


def released(release):
    return json.loads((release / "expected.json").read_text())


@pytest.mark.parametrize("kind", ["store", "foreign", "learned"])
def test_stores_of_a_release_open(release, kind):
    expected = released(release)[kind]
    with Store.open(release / kind) as store:
        store.verify(deep=True)
        assert (store.version, store.fingerprint) == (expected["version"], expected["fingerprint"])
        assert [i for part in store.batches() for i in part.ids.tolist()] == expected["ids"]
        items = store.get(expected["ids"])
        assert [code.hex() for code in map(bytes, items.codes)] == expected["codes"]
        assert items.metadata == expected["metadata"]
        if expected["vectors"] is not None:
            np.testing.assert_array_equal(items.vectors, np.array(expected["vectors"], items.vectors.dtype))
        hits = store.search(np.array(expected["queries"], dtype=np.float32), k=3)
        assert hits.ids.tolist() == expected["found"]
        assert np.isfinite(hits.interval).all()
        if kind != "foreign":
            assert store.n_cells == 6
            assert store.search(ids=expected["ids"][:2], k=3, recall=0.8).ids.shape == (2, 3)
        if kind == "store":
            assert read_recipe(store.path).codebook.shape == (4, 12)
            assert "calibrated on this store" in str(hits.explain())


def test_encoders_of_a_release_give_the_same_codes(release):
    expected = released(release)
    X = np.array(expected["items"], dtype=np.float32)
    for name, codes in expected["encoders"].items():
        encoder = bilsh.load_encoder(release / f"{name}.encoder")
        assert [code.hex() for code in map(bytes, encoder.transform(X))] == codes


def seven_bits(data):
    """Bytes of seven bits, from the lowest bit of the first on, as the document says."""
    number = 0
    for place, byte in enumerate(data):
        number |= (0 if byte == 0x7F else byte - 0x80) << 7 * place
    return number


def test_records_of_the_log_are_where_the_document_says(tmp_path):
    """An independent reader of the log, written from docs/store-format.md alone."""
    encoder = bilsh.AngleEncoder(n_bits=100, projection="dense", random_state=0).fit(make_items(20))
    X = make_items(6)
    codes = encoder.transform(X)
    with Store.create(tmp_path / "store", encoder, keep_vectors="float32") as store:
        store.add(X[:1], ids=["one"])
        store.add(X[1:2], ids=["two"])
        store.add(X[2:4], ids=["three", "vier"], metadata=[{"a": 1}, None])
        store.delete(["three"])
    manifest = max((tmp_path / "store").glob("m-*.json"))
    body = json.loads(manifest.read_text())["manifest"]
    assert (body["format"], body["version"]) == (2, 3)
    data = (tmp_path / "store" / body["log"]["file"]).read_bytes()
    assert data[:16] == b"\x89bilsh\r\n\x02\0\0\0LOGF"
    assert struct.unpack_from("<QQ", data, 16) == (len(data), 3) == (body["log"]["size"], body["version"])
    assert data[32:48].decode() == body["log"]["file"][2:18]
    assert data[48:80].hex() == body["fingerprint"]
    assert data[80:124] == b"\1\1" + bytes(42)
    assert struct.unpack_from("<I", data, 124)[0] == zlib.crc32(data[:124])
    seed, at, records = zlib.crc32(data[:128]), 128, []
    while any(data[at : at + 8]):
        length = seven_bits(data[at : at + 4])
        assert seven_bits(data[at + 4 : at + 8]) == zlib.crc32(struct.pack("<QI", at, length), seed) >> 4
        end = at + 8 + -(-8 * length // 7)
        record = seven_bits(data[at + 8 : end]).to_bytes(length, "little")
        assert struct.unpack("<I", record[-4:])[0] == zlib.crc32(record[:-4], seed)
        assert all(byte.bit_count() >= 2 for byte in data[at:end])
        records.append(record[:-4])
        at = end
    assert not any(data[at:])
    added, deleted = records
    assert struct.unpack_from("<QQIIB", added) == (4, 4, 0, 2, 1)
    expected = struct.pack("<qq", 2, 3) + codes[2:4].tobytes() + X[2:4].astype("<f4").tobytes()
    expected += struct.pack("<qq", 5, 9) + b"threevier" + struct.pack("<qq", 7, 7) + b'{"a":1}'
    assert added[25:] == expected
    assert struct.unpack_from("<QQIIB", deleted) == (5, 4, 1, 0, 0)
    assert deleted[25:] == struct.pack("<q", 2)
