"""What a store needs of an encoder, and how it gets one back from its bytes."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Encoder(Protocol):
    """What a store needs of an encoder."""

    @property
    def n_bits(self) -> int:
        """Length of a code."""

    @property
    def n_features_in_(self) -> int:
        """Values of one item."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides the codes, in hexadecimal."""

    def to_bytes(self) -> bytes:
        """Serialise the whole encoder."""

    def transform(self, X: Any) -> NDArray[np.uint8]:
        """Encode items."""


def encoder_from_bytes(data: bytes) -> Encoder:
    """Read an encoder that :meth:`Encoder.to_bytes` wrote."""
    import bilsh

    encoder: Encoder = bilsh.encoder_from_bytes(data)
    return encoder
