"""Encoder files back to estimators."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from bilsh.encoders.base import Encoder
from bilsh.encoders.coder import Coder
from bilsh.encoders.estimators import AngleEncoder, KernelEncoder
from bilsh.encoders.euclidean import EuclideanEncoder
from bilsh.errors import CorruptEncoderError
from bilsh.projections import PROJECTIONS

ENCODERS: dict[str, type[Encoder]] = {
    "angle": AngleEncoder,
    "kernel": KernelEncoder,
    "euclidean": EuclideanEncoder,
}
"""Estimators by the kind of their coder."""


def load_encoder(path: str | PathLike[str]) -> Encoder:
    """Read an encoder that was saved with :meth:`Encoder.save`.

    Raises
    ------
    CorruptEncoderError
        If the file is damaged, cut short, of a newer format, or no encoder file.
    """
    return encoder_from_bytes(Path(path).read_bytes(), source=str(path))


def encoder_from_bytes(data: bytes, source: str = "the encoder data") -> Encoder:
    """Rebuild an encoder from the content of an encoder file; see :func:`load_encoder`."""
    return encoder_of(Coder.from_bytes(data, source), source)


def encoder_of(coder: Coder, source: str = "the coder") -> Encoder:
    """Return the fitted estimator that holds a coder."""
    try:
        params = dict(coder.params)
        if isinstance(params.get("projection"), dict):
            given: dict[str, Any] = params["projection"]
            settings: dict[str, Any] = {
                name: tuple(v) if isinstance(v, list) else v for name, v in given.items()
            }
            params["projection"] = PROJECTIONS[settings.pop("name")](**settings)
        return ENCODERS[coder.kind](**params)._hold(coder)
    except (LookupError, TypeError, ValueError) as error:
        raise CorruptEncoderError(f"{source} has settings that no encoder has: {error}.") from error
