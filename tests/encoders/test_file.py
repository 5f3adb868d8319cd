"""Encoder files: what is written comes back to the last bit; damage and nonsense are refused."""

import hashlib
import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import bilsh
from bilsh.encoders import file as encoder_file

DIGITS = load_digits().images


def make(kind, projection, **settings):
    return kind(45, projection=projection, random_state=2, **settings).fit(DIGITS)


ENCODERS = [
    (bilsh.AngleEncoder, bilsh.Dense()),
    (bilsh.AngleEncoder, "bilinear"),
    (bilsh.KernelEncoder, bilsh.Dense(memory_budget=0)),
    (bilsh.KernelEncoder, bilsh.Bilinear(oversampling=2, design="balanced", matrix_shape=(4, 16))),
    (bilsh.KernelEncoder, bilsh.Bilinear(scramble=False)),
    (bilsh.KernelEncoder, "circulant"),
    (bilsh.AngleEncoder, "hadamard"),
]


@pytest.mark.parametrize(("kind", "projection"), ENCODERS, ids=str)
def test_saved_encoders_come_back_to_the_last_bit(kind, projection, tmp_path):
    encoder = make(kind, projection)
    encoder.save(tmp_path / "codes.encoder")
    assert [path.name for path in tmp_path.iterdir()] == ["codes.encoder"]
    assert (tmp_path / "codes.encoder").read_bytes() == encoder.to_bytes()
    loaded = bilsh.load_encoder(tmp_path / "codes.encoder")
    assert type(loaded) is kind
    assert repr(loaded) == repr(encoder)
    assert loaded.fingerprint == encoder.fingerprint
    assert loaded.to_bytes() == encoder.to_bytes()
    np.testing.assert_array_equal(loaded.transform(DIGITS), encoder.transform(DIGITS))
    np.testing.assert_array_equal(loaded.phases(DIGITS[:9]), encoder.phases(DIGITS[:9]))
    np.testing.assert_array_equal(
        loaded.truncated(9).transform(DIGITS), bilsh.prefix(encoder.transform(DIGITS), 9)
    )


def test_settings_that_do_not_change_codes_do_not_change_the_fingerprint():
    encoder = make(bilsh.KernelEncoder, "bilinear")
    assert len(encoder.fingerprint) == 64
    assert encoder.fingerprint == make(bilsh.KernelEncoder, "bilinear", n_jobs=2).fingerprint
    assert encoder.fingerprint != make(bilsh.KernelEncoder, "bilinear", bandwidth=3.0).fingerprint
    assert encoder.fingerprint != encoder.truncated(44).fingerprint


def test_feature_names_travel_along(tmp_path):
    frame = pandas.DataFrame(DIGITS.reshape(-1, 64), columns=[f"pixel {i}" for i in range(64)])
    encoder = bilsh.AngleEncoder(16, random_state=0).fit(frame)
    encoder.save(tmp_path / "e")
    assert list(bilsh.load_encoder(tmp_path / "e").feature_names_in_) == list(frame.columns)


@cache
def small_file():
    X = DIGITS[:50, :3, :3]
    return bilsh.KernelEncoder(9, random_state=0).fit(X).to_bytes()


def test_every_flipped_byte_and_every_truncation_is_reported():
    good = small_file()
    for position in range(len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 1 << (position % 8)
        with pytest.raises(bilsh.CorruptEncoderError):
            bilsh.encoder_from_bytes(bytes(damaged))
        with pytest.raises(bilsh.CorruptEncoderError):
            bilsh.encoder_from_bytes(good[:position])
    with pytest.raises(bilsh.CorruptEncoderError):
        bilsh.encoder_from_bytes(good + b"\0")


def test_errors_name_the_file(tmp_path):
    (tmp_path / "x.encoder").write_bytes(b"something else")
    with pytest.raises(bilsh.CorruptEncoderError, match=r"x\.encoder is not an encoder file"):
        bilsh.load_encoder(tmp_path / "x.encoder")
    newer = bytearray(small_file())
    newer[8] = 9
    with pytest.raises(bilsh.CorruptEncoderError, match=r"format version 9.*newer bilsh"):
        bilsh.encoder_from_bytes(bytes(newer))
    with pytest.raises(FileNotFoundError):
        bilsh.load_encoder(tmp_path / "missing")


def sealed(header, body):
    """A file with a correct checksum around any header and body: what a hostile writer could make."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    content = encoder_file.MAGIC + (1).to_bytes(4, "little") + len(text).to_bytes(4, "little") + text + body
    return content + hashlib.sha256(content).digest()


def parts():
    good = small_file()
    length = int.from_bytes(good[12:16], "little")
    return json.loads(good[16 : 16 + length]), good[16 + length : -32]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_hostile_headers_with_correct_checksums_are_refused_or_harmless(data):
    header, body = parts()
    node = header
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
            node = node[key]
            continue
        node[key] = data.draw(JSON)
        break
    try:
        encoder = bilsh.encoder_from_bytes(sealed(header, body))
    except bilsh.CorruptEncoderError:
        return
    try:
        encoder.transform(DIGITS[:5, :3, :3])
    except (ValueError, TypeError):
        return


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"[" * 100_000, b"\xff\xfe", b"1e999", b'{"arrays": 5}']
)
def test_headers_that_are_no_header_are_refused(content):
    with pytest.raises(bilsh.CorruptEncoderError):
        bilsh.encoder_from_bytes(sealed(content, b""))


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    encoder = make(bilsh.AngleEncoder, "bilinear")
    encoder.save(tmp_path / "e")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        encoder.truncated(5).save(tmp_path / "e")
    assert [path.name for path in tmp_path.iterdir()] == ["e"]
    assert bilsh.load_encoder(tmp_path / "e").n_bits == 45


FORMATS = Path(__file__).parents[1] / "formats"


@pytest.mark.parametrize(
    "name",
    [
        "v1/angle-hadamard",
        "v1/kernel-bilinear",
        "v1/kernel-dense-streamed",
        "v1/kernel-circulant",
        "v3/euclidean-klt",
        "v3/euclidean-pca",
        "encoder-v2/euclidean-origin",
    ],
)
def test_golden_codes_of_old_files(name):
    """Files written by the first version that had them open for ever and give the codes they gave then."""
    encoder = bilsh.load_encoder(FORMATS / f"{name}.encoder")
    golden = np.load(FORMATS / f"{name}.codes.npy")
    np.testing.assert_array_equal(encoder.transform(DIGITS[:20]), golden)


@pytest.mark.parametrize("projection", ["dense", "bilinear", "circulant", "hadamard"])
@pytest.mark.parametrize("shape", [[13], [3, 5], [24], [0], [-12], [], [1 << 40]])
def test_shapes_that_contradict_the_arrays_are_refused(projection, shape):
    X = np.random.default_rng(0).standard_normal((60, 12)).astype(np.float32)
    data = bilsh.AngleEncoder(n_bits=40, projection=projection, random_state=0).fit(X).to_bytes()
    length = int.from_bytes(data[12:16], "little")
    header = json.loads(data[16 : 16 + length]) | {"input_shape": shape}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-(16 + len(text)) % 64)
    content = data[:12] + len(text).to_bytes(4, "little") + text + data[16 + length : -32]
    with pytest.raises(bilsh.CorruptEncoderError):
        bilsh.encoder_from_bytes(content + hashlib.sha256(content).digest())
