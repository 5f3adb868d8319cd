"""Locality-sensitive binary codes for high-dimensional descriptors."""

from importlib.metadata import version

from bilsh import theory
from bilsh.codes import Neighbors, hamming, pack, prefix, top_k, unpack, within
from bilsh.encoder_file import encoder_from_bytes, load_encoder
from bilsh.encoders import AngleEncoder, KernelEncoder
from bilsh.errors import (
    AssumptionWarning,
    BilshError,
    CorruptEncoderError,
    CorruptStore,
    EncoderAdvice,
    IncompatibleCodesError,
    InvalidInputError,
    InvalidTypeError,
    StoreBusy,
)
from bilsh.features import RandomFourierFeatures
from bilsh.presets import bilinear_angle, blsh_sik, circulant_angle, circulant_sik, lsh_angle, lsh_sik
from bilsh.projections import Bilinear, Circulant, Dense, Hadamard
from bilsh.store import Store

__version__ = version("bilsh")

__all__ = [
    "AngleEncoder",
    "AssumptionWarning",
    "Bilinear",
    "BilshError",
    "Circulant",
    "CorruptEncoderError",
    "CorruptStore",
    "Dense",
    "EncoderAdvice",
    "Hadamard",
    "IncompatibleCodesError",
    "InvalidInputError",
    "InvalidTypeError",
    "KernelEncoder",
    "Neighbors",
    "RandomFourierFeatures",
    "Store",
    "StoreBusy",
    "bilinear_angle",
    "blsh_sik",
    "circulant_angle",
    "circulant_sik",
    "encoder_from_bytes",
    "hamming",
    "load_encoder",
    "lsh_angle",
    "lsh_sik",
    "pack",
    "prefix",
    "theory",
    "top_k",
    "unpack",
    "within",
]
