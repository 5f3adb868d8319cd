"""Encoders, items and stores that the tests of the store share, in this process and in those they start."""

from __future__ import annotations

import json
import os
from functools import cache

import numpy as np

import bilsh

TORTURE = os.environ.get("BILSH_TORTURE") == "1"
SEED = int(os.environ.get("BILSH_SEED", "0"))
N_FEATURES = 12


@cache
def make_encoder(n_bits=603, seed=0):
    encoder = bilsh.AngleEncoder(n_bits=n_bits, projection="dense", random_state=seed)
    return encoder.fit(make_items(50, seed))


@cache
def make_learned(seed=0):
    return bilsh.EuclideanEncoder(9, centres=2, random_state=seed).fit(make_items(300, seed))


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
