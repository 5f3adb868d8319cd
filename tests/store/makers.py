"""Encoders, items and stores that the tests of the store share, in this process and in those they start."""

from __future__ import annotations

import hashlib
import json
import os

import numpy as np

from bilsh import CorruptEncoderError, Store

TORTURE = os.environ.get("BILSH_TORTURE") == "1"
N_FEATURES = 12


class SignEncoder:
    """A stand-in for a fitted encoder, small and exact."""

    def __init__(self, n_bits, n_features, seed):
        self.n_bits, self.n_features_in_, self.seed = n_bits, n_features, seed
        self._weights = np.random.default_rng(seed).standard_normal((n_features, n_bits)).astype(np.float32)

    def to_bytes(self):
        return json.dumps([self.n_bits, self.n_features_in_, self.seed]).encode()

    @property
    def fingerprint(self):
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def transform(self, X):
        flat = np.asarray(X, dtype=np.float32).reshape(len(X), self.n_features_in_)
        return np.packbits(flat @ self._weights >= 0, axis=1, bitorder="little")


def _from_bytes(data):
    try:
        return SignEncoder(*json.loads(data))
    except (ValueError, TypeError) as error:
        raise CorruptEncoderError(str(error)) from None


Store._load_encoder = staticmethod(_from_bytes)


def make_encoder(n_bits=603, seed=0):
    return SignEncoder(n_bits, N_FEATURES, seed)


def make_items(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, N_FEATURES)).astype(np.float32)


def content(store):
    """All that a store says it holds: id -> (code, vector, metadata)."""
    return {
        (str(item_id) if store.id_kind == "str" else int(item_id)): (
            code.tobytes(),
            None if items.vectors is None else items.vectors[row].tobytes(),
            json.dumps(items.metadata[row]),
        )
        for items in store.batches(64)
        for row, (item_id, code) in enumerate(zip(items.ids, items.codes, strict=True))
    }
