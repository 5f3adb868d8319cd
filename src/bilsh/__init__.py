"""Locality-sensitive binary codes for high-dimensional descriptors."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bilsh.errors import (
    AssumptionWarning,
    BilshError,
    CorruptEncoderError,
    CorruptStore,
    CorruptStoreError,
    EncoderAdvice,
    EncoderAdviceWarning,
    EngineError,
    IncompatibleCodesError,
    InvalidInputError,
    InvalidTypeError,
    StoreBusy,
    StoreBusyError,
)

if TYPE_CHECKING:
    from bilsh import theory
    from bilsh.codes import hamming, pack, prefix, unpack
    from bilsh.encoders.estimators import AngleEncoder, KernelEncoder
    from bilsh.encoders.euclidean import EuclideanEncoder
    from bilsh.encoders.features import RandomFourierFeatures
    from bilsh.encoders.loading import encoder_from_bytes, load_encoder
    from bilsh.encoders.presets import (
        bilinear_angle,
        blsh_sik,
        circulant_angle,
        circulant_sik,
        lsh_angle,
        lsh_sik,
    )
    from bilsh.engines.addresses import open_collection as open
    from bilsh.engines.federation import Federation
    from bilsh.estimates.intervals import Estimate, bits_needed, estimate
    from bilsh.projections import Bilinear, Circulant, Dense, Hadamard
    from bilsh.search.exact import top_k, within
    from bilsh.search.index import Index
    from bilsh.search.results import Matches, Neighbors
    from bilsh.store import Batch, Store
    from bilsh.workflows.choice import choose_encoder
    from bilsh.workflows.curves import bits_curve

    __version__: str

__all__ = [
    "AngleEncoder",
    "AssumptionWarning",
    "Batch",
    "Bilinear",
    "BilshError",
    "Circulant",
    "CorruptEncoderError",
    "CorruptStore",
    "CorruptStoreError",
    "Dense",
    "EncoderAdvice",
    "EncoderAdviceWarning",
    "EngineError",
    "Estimate",
    "EuclideanEncoder",
    "Federation",
    "Hadamard",
    "IncompatibleCodesError",
    "Index",
    "InvalidInputError",
    "InvalidTypeError",
    "KernelEncoder",
    "Matches",
    "Neighbors",
    "RandomFourierFeatures",
    "Store",
    "StoreBusy",
    "StoreBusyError",
    "bilinear_angle",
    "bits_curve",
    "bits_needed",
    "blsh_sik",
    "choose_encoder",
    "circulant_angle",
    "circulant_sik",
    "encoder_from_bytes",
    "estimate",
    "hamming",
    "load_encoder",
    "lsh_angle",
    "lsh_sik",
    "open",
    "pack",
    "prefix",
    "theory",
    "top_k",
    "unpack",
    "within",
]

# Loaded when first asked for: importing scikit-learn alone takes longer than answering a query.
_HOMES = {
    "codes": ("hamming", "pack", "prefix", "unpack"),
    "encoders.estimators": ("AngleEncoder", "KernelEncoder"),
    "engines.federation": ("Federation",),
    "encoders.euclidean": ("EuclideanEncoder",),
    "encoders.loading": ("encoder_from_bytes", "load_encoder"),
    "estimates.intervals": ("Estimate", "bits_needed", "estimate"),
    "encoders.features": ("RandomFourierFeatures",),
    "encoders.presets": (
        "bilinear_angle",
        "blsh_sik",
        "circulant_angle",
        "circulant_sik",
        "lsh_angle",
        "lsh_sik",
    ),
    "projections": ("Bilinear", "Circulant", "Dense", "Hadamard"),
    "search.exact": ("top_k", "within"),
    "search.index": ("Index",),
    "search.results": ("Matches", "Neighbors"),
    "store": ("Batch", "Store"),
    "workflows.choice": ("choose_encoder",),
    "workflows.curves": ("bits_curve",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        from importlib.metadata import version

        value = version("bilsh")
    elif name in ("distributed", "engines", "theory"):
        value = import_module(f"bilsh.{name}")
    elif name == "open":
        value = import_module("bilsh.engines").open_collection
    elif name in _HOME_OF:
        value = getattr(import_module(f"bilsh.{_HOME_OF[name]}"), name)
    else:
        raise AttributeError(f"module 'bilsh' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
